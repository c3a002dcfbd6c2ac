"""A real SuperLink behind its door and a real SuperNode (D2): orders reach a process that stays."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import flwr
import pytest
import requests
from flwr.app import ConfigRecord, Message, RecordDict

from bfl.network.kits import read_device_kit, read_edge_kit
from bfl.network.making import make_kits
from bfl.network.own_keys import OwnKeys
from bfl.network.parts import device_parts, edge_parts, read_secret
from bfl.network.supervision import Part
from clients.errors import FlowerAwayError
from clients.flower import identify_process
from clients.flower_tasks import DeviceTask, DeviceTasks, Place, register_keys
from edge_servers.errors import FederationError
from edge_servers.remote.door import FleetDoor
from edge_servers.remote.superlink import SuperLinkGrid
from tests.bfl.network.described import free_ports, write

DESCRIBED = """
name = "small"
[settings]
dataset = "synthetic"
hidden = "8"
[[edges]]
name = "edge-a"
address = "127.0.0.1"
node-port = {0}
owner-port = {1}
devices-port = {2}
edge-port = {3}
link-port = {4}
[[devices]]
name = "pi-1"
home = "edge-a"
node-port = {5}
"""
SECONDS = 60.0


def test_what_flower_says_of_trouble_is_what_we_put_into_words() -> None:
    """Else a person reads its codes again."""
    said = "\n".join(path.read_text(encoding="utf-8") for path in Path(flwr.__file__).parent.rglob("*.py"))
    for word in ("Connection attempt failed", "Failed to activate SuperNode", "FLEET_NODE_ACTIVATION_FAILED = 2004"):
        assert word in said


class Process:
    """A part of a kit, as its supervisor would start it."""

    def __init__(self, part: Part, folder: Path) -> None:
        self._part, self._folder = part, folder
        self._start()

    def _start(self) -> None:
        with (self._folder / f"{self._part.name}.log").open("ab") as log:
            self._running = subprocess.Popen(
                list(self._part.command),
                cwd=self._folder,
                env={**os.environ, **self._part.env},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()

    def restart(self) -> None:
        self.kill()
        self._start()

    def close(self) -> None:
        self.kill()


@dataclass
class Machines:
    """An edge and a device, without those parts of ours that are no Flower."""

    grid: SuperLinkGrid
    tasks: DeviceTasks
    link: Process
    supernode: Process
    url: str
    authority: Path
    node: int

    def asked(self, round_: int) -> str:
        """An order is under way; its id. Both sides are this process, which Flower thinks is one of them."""
        identify_process(self.grid.run.run_id, 1)
        (sent,) = self.grid.push_messages([order(round_, self.node)])
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

    def replies(self, asked: str) -> list[Message]:
        end = time.monotonic() + SECONDS
        while not (found := list(self.grid.pull_messages([asked]))) and time.monotonic() < end:
            time.sleep(0.1)
        return found


def order(round_: int, node: int) -> Message:
    return Message(RecordDict({"order": ConfigRecord({"round": round_})}), node, "train", ttl=120.0)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("network")
    make_kits(write(folder, DESCRIBED.format(*free_ports(6))), folder / "kits", "of a test", time.time(), work=2)
    edge, pi = read_edge_kit(folder / "kits" / "edge-a"), read_device_kit(folder / "kits" / "pi-1")
    place = Place(f"127.0.0.1:{edge.config.link_port}", read_secret(edge.folder), edge.tls.authority.read_bytes())
    own = Place(f"127.0.0.1:{pi.config.node_port}", read_secret(pi.folder))
    parts = {part.name: part for part in (*edge_parts(edge, ""), *device_parts(pi, ""))}
    door = FleetDoor(f"https://{place.address}", edge.tls.authority, [edge.config.devices[0].flower_key.encode()])
    with ExitStack() as stack:
        link = stack.enter_context(closing(Process(parts["superlink"], edge.folder)))
        url = stack.enter_context(door.server("127.0.0.1", edge.config.devices_port, edge.tls))
        keys = {0: edge.config.devices[0].flower_key.encode()}
        grid = stack.enter_context(closing(SuperLinkGrid(place, keys, door.announce)))
        end = time.monotonic() + SECONDS
        while not grid.nodes:
            try:
                grid.connect()
            except FlowerAwayError:
                assert time.monotonic() < end, (edge.folder / "superlink.log").read_text()
                time.sleep(0.2)
        # One whose key is not registered yet ends, and its supervisor starts it again.
        supernode = stack.enter_context(closing(Process(parts["supernode"], pi.folder)))
        tasks = stack.enter_context(closing(DeviceTasks(own)))
        yield Machines(grid, tasks, link, supernode, url, edge.tls.authority, grid.nodes[0])


def test_an_order_is_answered_by_a_process_that_stays(machines: Machines) -> None:
    for round_ in (1, 2):
        asked = machines.asked(round_)
        with machines.task() as task:
            assert task.message.content["order"]["round"] == round_
            task.answer(Message(RecordDict({"about": ConfigRecord({"round": round_})}), reply_to=task.message))
        (reply,) = machines.replies(asked)
        assert reply.metadata.reply_to_message_id == asked
        assert reply.content["about"]["round"] == round_


def test_an_order_outlives_the_death_of_the_superlink(machines: Machines) -> None:
    machines.link.kill()
    asked = machines.asked(3)
    machines.link.restart()
    with machines.task() as task:
        assert task.message.content["order"]["round"] == 3
        task.answer(Message(RecordDict({"about": ConfigRecord({"round": 3})}), reply_to=task.message))
    assert len(machines.replies(asked)) == 1


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
        request = requests.Request("POST", machines.url, headers={"content-type": "application/protobuf"}).prepare()
        request.url = machines.url + path
        with requests.Session() as session:
            session.trust_env = False
            found = session.send(request, verify=str(machines.authority), timeout=40)
        assert found.status_code == code, path


def test_a_wrong_secret_and_a_superlink_that_is_away_are_told(machines: Machines) -> None:
    wrong = Place(machines.grid._place.address, b"x" * 32, machines.grid._place.authority)
    grid = SuperLinkGrid(wrong, {1: OwnKeys.create(is_device=True).public.flower.encode()})
    with pytest.raises(FlowerAwayError, match="found status 401"):
        grid.connect()
    with pytest.raises(FederationError, match="not connected"):
        grid.push_messages([order(4, machines.node)])
    with pytest.raises(FlowerAwayError):
        register_keys(Place("127.0.0.1:1", b""), {})
