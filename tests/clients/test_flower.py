"""What is expected of Flower's private names, which live in two files: that of messages, and that of tasks."""

import logging
import re
from pathlib import Path

from flwr.app import Message, RecordDict

from clients.flower import Run, empty_run, identify_process, log, name_message

REPOSITORY = Path(__file__).parents[2]


def test_a_message_made_here_carries_our_run_and_the_id_that_it_is_given() -> None:
    identify_process(7, 1)
    message = Message(RecordDict(), 1_000, "train")
    name_message(message, "message-3")
    reply = Message(RecordDict(), reply_to=message)
    assert (message.metadata.run_id, message.metadata.src_node_id) == (7, 1)
    assert (message.metadata.message_id, reply.metadata.reply_to_message_id) == ("message-3", "message-3")
    assert reply.metadata.src_node_id == 1_000


def test_an_empty_run_has_the_number_that_it_is_given() -> None:
    run = empty_run(7)
    assert isinstance(run, Run)
    assert run.run_id == 7


def test_flowers_log_takes_a_level_and_a_text() -> None:
    log(logging.DEBUG, "round %d", 3)


def test_no_other_file_uses_a_private_name_of_flower() -> None:
    private = re.compile(r"\bflwr\.(?!app\b|serverapp\b|clientapp\b)\w+|metadata\.__dict__")
    places = {
        str(path.relative_to(REPOSITORY))
        for package in ("bfl", "chain", "clients", "edge_servers", "policy")
        for path in (REPOSITORY / package).rglob("*.py")
        if any(
            private.search(line)
            for line in path.read_text(encoding="utf-8").splitlines()
            if "import" in line or "__dict__" in line
        )
    }
    assert places == {"clients/flower.py", "clients/flower_tasks.py"}
