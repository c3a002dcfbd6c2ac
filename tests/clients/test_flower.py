"""What is expected of Flower's private names, which live in three files: that of messages, of tasks, and of replies."""

import logging
import re
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import Metadata, ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

from clients.errors import BadReplyError
from clients.flower import Run, empty_run, identify_process, log, name_message
from clients.flower_replies import Arrival, has_orders, pieces_of, put_together, read_announced, read_brought

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


def test_a_reply_is_put_together_from_its_pieces_and_is_a_reply_to_its_order() -> None:
    identify_process(7, 1)
    order = Message(RecordDict(), 1_000, "train")
    name_message(order, "a" * 64)
    reply = Message(RecordDict({"about": ConfigRecord({"round": 3})}), reply_to=order)
    pieces = {name: each.deflate() for name, each in get_all_nested_objects(reply).items()}
    arrival = Arrival(reply.object_id, "a" * 64, pieces_of(get_object_tree(reply)))
    assert sorted(arrival.pieces) == sorted(pieces)
    assert put_together(arrival, pieces).content["about"]["round"] == 3
    assert len(pieces) == 3  # they are not used up
    with pytest.raises(BadReplyError, match="no reply to the order"):
        put_together(Arrival(arrival.name, "b" * 64, arrival.pieces), pieces)
    for wrong in (RecordDict, Message):
        raw = f"{wrong.__qualname__}  1\0!".encode()
        with pytest.raises(BadReplyError):
            put_together(Arrival("c", "a" * 64, ("c",)), {"c": raw})


def test_what_supernodes_send_is_read_and_nonsense_is_none() -> None:
    said = ProtoMessage(metadata=Metadata(src_node_id=5, reply_to_message_id="a"))
    tree = ObjectTree(object_id="x", children=[ObjectTree(object_id="y")])
    asked = PushMessagesRequest(node=Node(node_id=6), messages_list=[said], message_object_trees=[tree])
    found = read_announced(asked.SerializeToString())
    assert found is not None
    assert (found.node, found.sender, found.answers, found.pieces) == (6, 5, "a", 2)
    assert read_announced(PushMessagesRequest().SerializeToString()) is None
    piece = PushObjectRequest(node=Node(node_id=6), object_content=b"1234")
    assert read_brought(piece.SerializeToString()) == (6, 4)
    assert has_orders(PullMessagesResponse(messages_list=[said]).SerializeToString())
    assert not has_orders(PullMessagesResponse().SerializeToString())
    assert (read_announced(b"\xff"), read_brought(b"\xff"), has_orders(b"\xff")) == (None, None, False)


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
    assert places == {"clients/flower.py", "clients/flower_replies.py", "clients/flower_tasks.py"}
