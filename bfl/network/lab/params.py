"""What is rehearsed: the machines of a lab by name, and its `network.toml`."""

import contextlib
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from bfl.errors import BflError

_PORTS_OF_AN_EDGE = ("node-port", "owner-port", "devices-port", "edge-port", "link-port")
_HASHES_PER_S = 2000
_PORTS = range(20_000, 32_000)


@dataclass(frozen=True)
class LabParams:
    """What is rehearsed."""

    out: Path
    edges: int = 3
    devices: int = 4
    rounds: int = 10
    dataset: str = "synthetic"
    namespaces: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the network, beside those."""
    most_s: float = 0.0
    """After so long it is given up; 0: a minute for each round, and four more."""

    @property
    def patience_s(self) -> float:
        """Until it is given up."""
        return self.most_s or 240.0 + 60.0 * self.rounds

    @property
    def edge_names(self) -> list[str]:
        """edge-1, edge-2, ...: server m is edge m + 1."""
        return _numbered("edge", self.edges)

    @property
    def device_names(self) -> list[str]:
        """device-1, device-2, ..."""
        return _numbered("device", self.devices)

    @property
    def kits(self) -> Path:
        """A folder for each machine."""
        return self.out / "kits"


def _numbered(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number + 1}" for number in range(count)]


def describe(params: LabParams) -> str:
    """The lab's `network.toml`. The last of several devices keeps its data, so that some train whatever is planned."""
    edges, devices = params.edge_names, params.device_names
    free = _free_ports(len(_PORTS_OF_AN_EDGE) * len(edges) + len(devices))
    rows: list[dict[str, Any]] = []
    for index, name in enumerate(edges):
        if params.namespaces:
            rows.append({"name": name, "address": address_of(index)})
        else:
            rows.append({"name": name, "address": "127.0.0.1", **{port: free.pop() for port in _PORTS_OF_AN_EDGE}})
    settings = {"dataset": params.dataset, "deadline-s": 30.0, "phi": "4", **params.settings}
    own: list[dict[str, Any]] = []
    for index, name in enumerate(devices):
        offload = "never" if 0 < index == len(devices) - 1 else "any"
        row = {"name": name, "home": edges[index % len(edges)], "hashes-per-s": _HASHES_PER_S, "offload": offload}
        own.append(row if params.namespaces else {**row, "node-port": free.pop()})
    chain = {"difficulty": _HASHES_PER_S * len(devices), "retarget": False}
    return tomli_w.dumps({"name": "lab", "settings": settings, "chain": chain, "edges": rows, "devices": own})


def address_of(index: int) -> str:
    """Of a machine that has one of its own: edges first, then devices."""
    return f"10.78.0.{1 + index}"


def _free_ports(count: int) -> list[int]:
    """Below those that the system gives to whoever connects: nobody takes one before its machine has started."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise BflError(f"found {len(found)} free ports of {_PORTS.start} to {_PORTS.stop - 1}, expected {count}")
