"""What a server carries: from one round to the next, and within a round."""

from dataclasses import dataclass, field

import numpy as np

from clients.models import Vector
from clients.orders import DataReply
from edge_servers.aggregation import FixedPoint
from edge_servers.leader import Reign
from edge_servers.planning import Proposal, RoundState
from edge_servers.posts import Gradient, Plan, Refusal


@dataclass(frozen=True)
class Standing:
    """What a server carries from one round to the next; saved in a checkpoint, or read back from the chain."""

    round: int
    model: Vector
    block_hash: bytes
    winner: int | None = None
    """Device that sealed the last block."""
    reign: Reign = Reign()
    divergence: float = 0.0
    excluded: tuple[str, ...] = ()
    """Servers that may not post in the next round (P14)."""


@dataclass
class Work:
    """What a server holds of the round it is in."""

    plan: Plan
    model_digest: str
    model: Vector = field(default_factory=lambda: np.zeros(0, np.float32))
    """The round's model, once it is published."""
    data: dict[int, DataReply] = field(default_factory=dict)
    """Offloaded to this server, by device."""
    outgoing: dict[int, DataReply] = field(default_factory=dict)
    """Collected from its own devices, by device, for the server that the plan names."""
    collected: dict[str, Gradient] = field(default_factory=dict)
    """Gradients of this server's cluster, its own among them, by sender, before they are posted."""
    refusals: list[Refusal] = field(default_factory=list)
    """Of this server's own cluster."""
    refused: tuple[Refusal, ...] = ()
    """Of all clusters, as the leader closed the list."""
    closed: list[Gradient] = field(default_factory=list)
    iterates: list[FixedPoint] = field(default_factory=list)


@dataclass
class Draft:
    """What a leader planned with: the state it saw and what the policy proposed."""

    state: RoundState
    proposal: Proposal
