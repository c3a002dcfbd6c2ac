"""A real SuperLink behind its door and a real SuperNode (D2): orders reach a process that stays."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flwr
import pytest
import requests
from flwr.app import ConfigRecord, Message, RecordDict

from bfl.network.own_keys import OwnKeys
from bfl.network.parts import read_secret
from clients.errors import FlowerAwayError
from clients.flower import identify_process
from clients.flower_tasks import DeviceTask, DeviceTasks, Place, register_keys
from edge_servers.errors import FederationError
from edge_servers.remote.owed import Owed
from edge_servers.remote.superlink import SuperLinkGrid
from tests.bfl.network.flower_parts import SECONDS, Edge, started_edge


def test_what_flower_says_of_trouble_is_what_we_put_into_words() -> None:
    """Else a person reads its codes again."""
    said = "\n".join(path.read_text(encoding="utf-8") for path in Path(flwr.__file__).parent.rglob("*.py"))
    for word in ("Connection attempt failed", "Failed to activate SuperNode", "FLEET_NODE_ACTIVATION_FAILED = 2004"):
        assert word in said


@dataclass
class Machines:
    """An edge and a device, without those parts of ours that are no Flower."""

    edge: Edge
    tasks: DeviceTasks

    @property
    def grid(self) -> SuperLinkGrid:
        return self.edge.grid

    def asked(self, round_: int) -> str:
        """An order is under way; its id. Both sides are this process, which Flower thinks is one of them."""
        identify_process(self.grid.run.run_id, 1)
        (sent,) = self.grid.push_messages([order(round_, self.edge.node)])
        return sent

    def task(self) -> DeviceTask:
        """The next one that the device gets."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                if (task := self.tasks.find()) is not None:
                    return task
            except FlowerAwayError:
                pass
            self.grid.pull_messages([])  # what could not be handed in is tried again
            time.sleep(0.1)
        raise AssertionError("no order came")


def order(round_: int, node: int) -> Message:
    return Message(RecordDict({"order": ConfigRecord({"round": round_})}), node, "train", ttl=120.0)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with ExitStack() as stack:
        edge = started_edge(tmp_path_factory.mktemp("network"), stack)
        edge.supernode(stack)
        own = Place(f"127.0.0.1:{edge.pi.config.node_port}", read_secret(edge.pi.folder))
        yield Machines(edge, stack.enter_context(closing(DeviceTasks(own))))


def test_an_order_is_answered_by_a_process_that_stays(machines: Machines) -> None:
    for round_ in (1, 2):
        asked = machines.asked(round_)
        with machines.task() as task:
            assert task.message.content["order"]["round"] == round_
            task.answer(Message(RecordDict({"about": ConfigRecord({"round": round_})}), reply_to=task.message))
        (reply,) = machines.edge.replies(asked)
        assert reply.metadata.reply_to_message_id == asked
        assert reply.content["about"]["round"] == round_


def test_a_superlink_is_asked_for_an_answer_when_one_was_handed_in(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = machines.asked(7), machines.edge.grid._ask
    questions: list[object] = []

    def count(question: Any) -> Any:
        questions.append(question)
        return ask(question)

    with machines.task() as task:
        machines.edge.grid.pull_messages([asked])
        monkeypatch.setattr(machines.edge.grid, "_ask", count)
        assert not any(machines.edge.grid.pull_messages([asked]) for _ in range(1000))
        assert len(questions) <= 2  # 1,000 of them take no time; after two seconds it is asked anyway
        task.answer(Message(RecordDict({"about": ConfigRecord({"round": 7})}), reply_to=task.message))
    assert len(machines.edge.replies(asked)) == 1


def test_an_order_outlives_the_death_of_the_superlink(machines: Machines) -> None:
    machines.edge.link.kill()
    asked = machines.asked(3)
    machines.edge.link.restart()
    with machines.task() as task:
        assert task.message.content["order"]["round"] == 3
        task.answer(Message(RecordDict({"about": ConfigRecord({"round": 3})}), reply_to=task.message))
    assert len(machines.edge.replies(asked)) == 1


def test_the_door_passes_on_what_supernodes_ask_and_nothing_else(machines: Machines) -> None:
    for path, code in (
        ("/v1/control/list-nodes", 404),
        ("/v1/control/start-run", 404),
        ("/v1/runtime/acquire-task", 404),
        ("/v1/fleet/../control/list-nodes", 404),
        ("/docs", 404),
        ("/v1/fleet/%01", 400),
        ("/v1/fleet/pull-messages", 401),  # a stranger, as Flower says
    ):
        request = requests.Request(
            "POST", machines.edge.url, headers={"content-type": "application/protobuf"}
        ).prepare()
        request.url = machines.edge.url + path
        with requests.Session() as session:
            session.trust_env = False
            found = session.send(request, verify=str(machines.edge.kit.tls.authority), timeout=40)
        assert found.status_code == code, path


def test_a_wrong_secret_and_a_superlink_that_is_away_are_told(machines: Machines) -> None:
    wrong = Place(machines.edge.grid._place.address, b"x" * 32, machines.edge.grid._place.authority)
    grid = SuperLinkGrid(wrong, {1: OwnKeys.create(is_device=True).public.flower.encode()}, Owed())
    with pytest.raises(FlowerAwayError, match="found status 401"):
        grid.connect()
    with pytest.raises(FederationError, match="not connected"):
        grid.push_messages([order(4, machines.edge.node)])
    with pytest.raises(FlowerAwayError):
        register_keys(Place("127.0.0.1:1", b""), {})
