"""Who takes part (P2): the edge servers, their graph, and every device with its home server."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from clients.consent import Consent
from clients.data import Samples
from clients.evaluation import evaluate_model
from clients.models import Vector
from edge_servers.errors import FederationError
from edge_servers.learning.graph import Graph


@dataclass(frozen=True)
class LearningTask:
    """What is learned: the network's architecture, the form of the samples, the number of classes."""

    architecture: nn.Module
    like: Samples
    classes: int
    validation: Samples | None = None
    """What a server judges gradients by, where the filters need data (P7)."""

    def validation_loss(self, model: Vector) -> float:
        """Loss of a model on the validation data."""
        if self.validation is None:
            raise FederationError("the filter `loss` needs validation data, this server has none")
        return evaluate_model(self.architecture, model, self.validation).loss


@dataclass(frozen=True)
class DeviceRecord:
    """A registered device: fixed home server, committed number of samples, consent to offload (P25)."""

    index: int
    address: str
    home: int
    samples: int
    consent: Consent


@dataclass(frozen=True)
class Network:
    """Everything that is fixed at founding."""

    servers: tuple[str, ...]
    """Addresses by server number."""
    devices: tuple[DeviceRecord, ...]
    graph: Graph
    weight: int
    """The integer a of P9."""

    def server_index(self, address: str) -> int:
        """The number m of a server's address."""
        try:
            return self.servers.index(address)
        except ValueError:
            raise FederationError(f"found {address}, expected a server of the founding") from None

    def find_device(self, address: str) -> DeviceRecord | None:
        """The device with this address."""
        return self._by_address.get(address)

    @cached_property
    def _by_address(self) -> dict[str, DeviceRecord]:
        return {device.address: device for device in self.devices}

    def name(self, address: str) -> str:
        """Whose address it is, for people: "server 1", "device 7"."""
        if address in self.servers:
            return f"server {self.server_index(address)}"
        device = self.find_device(address)
        return address if device is None else f"device {device.index}"

    def cluster(self, server: int) -> list[DeviceRecord]:
        """The devices whose home is `server`."""
        return [device for device in self.devices if device.home == server]


def simulated_address(seed: int, role: str, index: int) -> str:
    """The address of a participant in a simulation without keys: it follows from the seed (P3)."""
    digest = hashlib.sha256(f"bfl participant {seed} {role} {index}".encode()).digest()
    return "0x" + digest[:20].hex()


def home_server(device: int, servers: int) -> int:
    """Devices are dealt to the servers in turn."""
    return device % servers
