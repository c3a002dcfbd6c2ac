"""Who takes part (P2): the edge servers, their graph, and every device with its home server."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from chain.wire.address import ADDRESS_BYTES, Address
from clients.consent import Consent
from edge_servers.errors import FederationError
from edge_servers.learning.graph import Graph

if TYPE_CHECKING:  # a node reads what was founded, and has no torch
    from torch import nn

    from clients.data import Samples
    from edge_servers.learning.jury import RootJury


@dataclass(frozen=True)
class LearningTask:
    """What is learned: the network's architecture, the form of the samples, the number of classes."""

    architecture: "nn.Module"
    like: "Samples"
    classes: int
    jury: "RootJury | None" = None
    """The root set by which gradients are judged, where the filters do (P7)."""


@dataclass(frozen=True)
class DeviceRecord:
    """A registered device: fixed home server, committed number of samples, consent to offload (P25), and the server
    that orders it while home is dormant, where there is one (D6).
    """

    index: int
    address: Address
    home: int
    samples: int
    consent: Consent
    standby: int | None = None


@dataclass(frozen=True)
class Network:
    """Everything that is fixed at founding."""

    servers: tuple[Address, ...]
    """Addresses by server number."""
    devices: tuple[DeviceRecord, ...]
    graph: Graph
    weight: int
    """The integer a of P9."""

    def server_index(self, address: bytes) -> int:
        """The number m of a server's address."""
        try:
            return self.servers.index(address)
        except ValueError:
            raise FederationError(f"found 0x{address.hex()}, expected a server of the founding") from None

    def find_device(self, address: bytes | None) -> DeviceRecord | None:
        """The device with this address."""
        return None if address is None else self._by_address.get(address)

    def device_numbers(self, addresses: Collection[bytes]) -> tuple[int, ...]:
        """Those of them that are devices, by number."""
        return tuple(device.index for device in self.devices if device.address in addresses)

    @cached_property
    def _by_address(self) -> dict[bytes, DeviceRecord]:
        return {device.address: device for device in self.devices}

    def name(self, address: bytes) -> str:
        """Whose address it is, for people: "server 1", "device 7"."""
        if address in self.servers:
            return f"server {self.server_index(address)}"
        device = self.find_device(address)
        return f"0x{address.hex()}" if device is None else f"device {device.index}"

    def cluster(self, server: int) -> list[DeviceRecord]:
        """The devices whose home is `server`."""
        return [device for device in self.devices if device.home == server]

    def serving(self, dormant: Collection[bytes]) -> tuple[int, ...]:
        """By device, the one server that orders it in a round: home, or standby while the registry says that home is
        dormant and standby is not (D6). Its gradient is its home's in any case.
        """
        asleep = {self.server_index(server) for server in dormant}
        return tuple(
            device.home if device.standby is None or device.home not in asleep or device.standby in asleep
            else device.standby
            for device in self.devices
        )  # fmt: skip


def simulated_address(seed: int, role: str, index: int) -> Address:
    """The address of a participant in a simulation without keys: it follows from the seed (P3)."""
    digest = hashlib.sha256(f"bfl participant {seed} {role} {index}".encode()).digest()
    return Address(digest[:ADDRESS_BYTES])


def home_server(device: int, servers: int) -> int:
    """Devices are dealt to the servers in turn."""
    return device % servers
