"""A network that can be planned for without a founding, and a planner that asks for what it is told."""

from dataclasses import dataclass

import numpy as np

from clients.consent import Consent
from edge_servers.founding.network import DeviceRecord, Network, home_server, simulated_address
from edge_servers.learning.graph import make_graph
from edge_servers.planning.planners import Request
from edge_servers.planning.proposal import Proposal, RoundState
from policy.rivals.heuristics import request_everything


def network(devices: int = 10, servers: int = 3, consents: dict[int, str] | None = None) -> Network:
    """Devices of 6000 samples over a line of servers; whoever is not named consents to everybody."""
    records = tuple(
        DeviceRecord(
            n,
            simulated_address(0, "device", n),
            home_server(n, servers),
            6000,
            Consent((consents or {}).get(n, "any")),
        )
        for n in range(devices)
    )
    addresses = tuple(simulated_address(0, "server", m) for m in range(servers))
    return Network(addresses, records, make_graph("line", servers), 2048)


@dataclass(frozen=True)
class Stub:
    """Asks for these choices with u = 1."""

    choice: tuple[int, ...]
    channels: int = 5
    name: str = "stub"
    digest: str = "stub"

    def decide(self, state: RoundState) -> Request:
        return Request(request_everything(np.array([self.choice], np.int64)), self.channels)


def alike(one: Proposal, other: Proposal) -> bool:
    """Whether two proposals send everybody to the same place in the same time."""
    return one.assignment == other.assignment and np.array_equal(one.latency.device_s, other.latency.device_s)
