"""A real SuperLink behind its door, and the parts of its one device, for tests."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Message

from bfl.network.kits import DeviceKit, EdgeKit, read_device_kit, read_edge_kit
from bfl.network.making import make_kits
from bfl.network.parts import device_parts, edge_parts, read_secret
from bfl.network.supervision import Part
from clients.errors import FlowerAwayError
from clients.flower_tasks import Place
from edge_servers.remote.door import FleetDoor
from edge_servers.remote.owed import Owed
from edge_servers.remote.superlink import SuperLinkGrid
from tests.bfl.network.described import free_ports, write

PASSWORD = "of a test"  # noqa: S105
SECONDS = 60.0
_MOST_BYTES = 1 << 20
"""Of a reply"""
_DESCRIBED = """
name = "small"
[settings]
dataset = "synthetic"
hidden = "8"
deadline-s = 600
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

    @property
    def pid(self) -> int:
        return self._running.pid

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
class Edge:
    """An edge to which one device comes, without those parts of it that are no Flower."""

    kit: EdgeKit
    pi: DeviceKit
    grid: SuperLinkGrid
    link: Process
    url: str

    @property
    def node(self) -> int:
        """The device's, in Flower."""
        return self.grid.nodes[0]

    def supernode(self, stack: ExitStack) -> Process:
        """The device's; one whose key is not registered yet ends, and its supervisor starts it again."""
        part = next(part for part in device_parts(self.pi, PASSWORD) if part.name == "supernode")
        return stack.enter_context(closing(Process(part, self.pi.folder)))

    def replies(self, asked: str, seconds: float = SECONDS) -> list[Message]:
        end = time.monotonic() + seconds
        while not (found := list(self.grid.pull_messages([asked]))) and time.monotonic() < end:
            time.sleep(0.1)
        return found


def started_edge(folder: Path, stack: ExitStack, change: Callable[[Path], None] = lambda _: None) -> Edge:
    """`change`: what the device's owner does to its kit."""
    make_kits(write(folder, _DESCRIBED.format(*free_ports(6))), folder / "kits", PASSWORD, time.time(), work=2)
    change(folder / "kits" / "pi-1")
    edge, pi = read_edge_kit(folder / "kits" / "edge-a"), read_device_kit(folder / "kits" / "pi-1")
    place = Place(f"127.0.0.1:{edge.config.link_port}", read_secret(edge.folder), edge.tls.authority.read_bytes())
    part = next(part for part in edge_parts(edge, "") if part.name == "superlink")
    keys = {0: edge.config.devices[0].flower_key.encode()}
    owed = Owed()
    owed.expect(_MOST_BYTES)
    door = FleetDoor(f"https://{place.address}", edge.tls.authority, owed, keys.values())
    link = stack.enter_context(closing(Process(part, edge.folder)))
    url = stack.enter_context(door.server("127.0.0.1", edge.config.devices_port, edge.tls))
    grid = stack.enter_context(closing(SuperLinkGrid(place, keys, owed, door.announce, handed_in=door.handed_in)))
    end = time.monotonic() + SECONDS
    while not grid.nodes:
        try:
            grid.connect()
        except FlowerAwayError:
            assert time.monotonic() < end, (edge.folder / "superlink.log").read_text()
            time.sleep(0.2)
    return Edge(edge, pi, grid, link, url)
