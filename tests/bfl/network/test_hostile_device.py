"""One stolen device at a real SuperLink behind its door (D2): what it can leave there, and whom it can stop."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, get_object_tree

from bfl.network.kits import read_device_kit, read_edge_kit
from bfl.network.making import make_kits
from bfl.network.parts import edge_parts, read_secret
from clients.errors import FlowerAwayError
from clients.flower import identify_process
from clients.flower_tasks import Place
from edge_servers.remote.door import FleetDoor
from edge_servers.remote.owed import Owed
from edge_servers.remote.superlink import SuperLinkGrid
from tests.bfl.network.described import free_ports, write
from tests.bfl.network.flower_machines import Answer, FleetDevice
from tests.bfl.network.flower_parts import Process

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
[[devices]]
name = "pi-2"
home = "edge-a"
"""
SECONDS = 60.0
MOST_BYTES = 1 << 20
SMALL = RecordDict({"about": ConfigRecord({"round": 1})})


@dataclass
class Home:
    """An edge whose devices are a thief and an honest one."""

    grid: SuperLinkGrid
    thief: FleetDevice
    honest: FleetDevice
    folder: Path

    def ask(self, ttl_s: float = 60.0, model: ArrayRecord | None = None) -> list[str]:
        """An order for each of the two; their ids. Whoever did not come for his before forgets it."""
        identify_process(self.grid.run.run_id, 1)
        content = RecordDict({"order": ConfigRecord({"at": time.time()})})
        if model is not None:
            content["model"] = model
        orders = [Message(content, self.grid.nodes[n], "train", ttl=ttl_s) for n in (0, 1)]
        return list(self.grid.push_messages(orders))

    def orders(self) -> tuple[Message, Message]:
        return self.thief.order(), self.honest.order()

    def replies(self, asked: list[str], count: int) -> dict[str, Message]:
        """By their orders, once so many are here."""
        found: dict[str, Message] = {}
        end = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < end:
            left = [each for each in asked if each not in found]
            found |= {each.metadata.reply_to_message_id: each for each in self.grid.pull_messages(left)}
            time.sleep(0.05)
        return found

    @property
    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("superlink.db*"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("network")
    make_kits(write(folder, DESCRIBED.format(*free_ports(5))), folder / "kits", "of a test", time.time(), work=2)
    edge = read_edge_kit(folder / "kits" / "edge-a")
    place = Place(f"127.0.0.1:{edge.config.link_port}", read_secret(edge.folder), edge.tls.authority.read_bytes())
    (link,) = (part for part in edge_parts(edge, "") if part.name == "superlink")
    keys, owed = {each.index: each.flower_key.encode() for each in edge.config.devices}, Owed()
    owed.expect(MOST_BYTES)
    door = FleetDoor(f"https://{place.address}", edge.tls.authority, owed, keys.values())
    with ExitStack() as stack:
        stack.enter_context(closing(Process(link, edge.folder)))
        stack.enter_context(door.server("127.0.0.1", edge.config.devices_port, edge.tls))
        grid = stack.enter_context(closing(SuperLinkGrid(place, keys, owed, door.announce)))
        end = time.monotonic() + SECONDS
        while not grid.nodes:
            try:
                grid.connect()
            except FlowerAwayError:
                assert time.monotonic() < end, (edge.folder / "superlink.log").read_text()
                time.sleep(0.2)
        thief, honest = (
            stack.enter_context(closing(FleetDevice(read_device_kit(folder / "kits" / name))))
            for name in ("pi-1", "pi-2")
        )
        yield Home(grid, thief, honest, edge.folder)


def test_a_reply_that_is_nonsense_takes_no_other_with_it(home: Home) -> None:
    asked = home.ask()
    mine, other = home.orders()
    raw = b"Message  5\x00\xff\xff\xff\xff\xff"  # its head says what it is, its body is none
    name = get_object_id(raw)
    identify_process(mine.metadata.run_id, home.thief.node.node_id)
    answer = home.thief.announce(Message(SMALL, reply_to=mine), ObjectTree(object_id=name), {name: raw})
    assert home.thief.bring(mine, answer, name)
    home.honest.reply(other, SMALL)
    found = home.replies(asked, 2)
    assert found[asked[0]].has_error()
    assert found[asked[1]].content["about"]["round"] == 1


def test_half_a_reply_keeps_nobody_waiting(home: Home) -> None:
    asked = home.ask()
    mine, other = home.orders()
    begun = home.thief.begin(mine, SMALL)
    home.honest.reply(other, SMALL)
    assert home.replies(asked, 1).keys() == {asked[1]}
    for name in begun.begun.objects_to_push:  # it is still in time
        assert home.thief.bring(mine, begun, name)
    assert home.replies(asked[:1], 1)[asked[0]].content["about"]["round"] == 1


def test_a_reply_that_is_told_to_answer_one_order_and_answers_another_is_none(home: Home) -> None:
    asked = home.ask()
    mine, other = home.orders()
    identify_process(mine.metadata.run_id, home.thief.node.node_id)
    posed = Message(SMALL, reply_to=other)
    objects = {name: each.deflate() for name, each in get_all_nested_objects(posed).items()}
    told = Message(SMALL, reply_to=mine)
    answer = home.thief.announce(told, get_object_tree(posed), objects)
    for name in answer.begun.objects_to_push:
        assert home.thief.bring(mine, answer, name)
    home.honest.reply(other, SMALL)
    found = home.replies(asked, 2)
    assert found[asked[0]].has_error()
    assert not found[asked[1]].has_error()


def test_more_bytes_than_a_reply_has_are_not_taken(home: Home) -> None:
    home.ask()
    mine, other = home.orders()
    large = RecordDict({f"part {n}": ConfigRecord({"x": bytes([n]) * (MOST_BYTES // 2)}) for n in range(50)})
    before = home.stored_bytes
    answer = home.thief.begin(mine, large)
    taken = [is_taken(home.thief, mine, answer, name) for name in answer.begun.objects_to_push]
    # Three replies' worth for each of the orders that are open, those above among them, and two small pieces.
    assert 0 < sum(taken) <= 6 * 4 + 2
    assert home.stored_bytes < before + 16 * MOST_BYTES
    home.honest.reply(other, SMALL)


def is_taken(device: FleetDevice, order: Message, answer: Answer, name: str) -> bool:
    try:
        return device.bring(order, answer, name)
    except httpx.HTTPStatusError as error:
        return error.response.status_code != httpx.codes.FORBIDDEN


def test_what_answers_no_order_of_its_own_is_not_taken(home: Home) -> None:
    home.ask()
    mine, other = home.orders()
    identify_process(mine.metadata.run_id, 1)
    unasked = Message(SMALL, home.thief.node.node_id, "train", ttl=60.0)
    identify_process(mine.metadata.run_id, home.thief.node.node_id)
    many = RecordDict({f"part {n}": ConfigRecord({"x": n}) for n in range(100)})
    for said in (unasked, Message(SMALL, reply_to=other), Message(many, reply_to=mine)):
        objects = {name: each.deflate() for name, each in get_all_nested_objects(said).items()}
        with pytest.raises(httpx.HTTPStatusError, match="403"):
            home.thief.announce(said, get_object_tree(said), objects)
    home.thief.reply(mine, SMALL)
    home.honest.reply(other, SMALL)


def test_orders_that_nobody_comes_for_are_not_kept(home: Home) -> None:
    """Each has a model in it: a device that is away for a month must not fill its home's disk."""
    rng, sizes = np.random.default_rng(1), list[int]()
    for _ in range(4):
        home.ask(ttl_s=1.0, model=ArrayRecord({"model": Array(rng.random(500_000, dtype=np.float32))}))
        time.sleep(1.2)
        sizes.append(home.stored_bytes)
    assert sizes[-1] < sizes[1] + 1_000_000
