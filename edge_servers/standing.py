"""What a server carries: from one round to the next, and within a round."""

from dataclasses import dataclass, field

from clients.models import Vector
from clients.orders import DataReply
from edge_servers.aggregation import FixedPoint
from edge_servers.leader import Reign
from edge_servers.posts import Gradient, Plan, Refusal


@dataclass(frozen=True)
class Standing:
    """What a server carries from one round to the next; all of it is saved in a checkpoint."""

    round: int
    model: Vector
    block_hash: bytes
    winner: int | None = None
    """Device that sealed the last block."""
    reign: Reign = Reign()
    divergence: float = 0.0


@dataclass
class Work:
    """What a server holds of the round it is in."""

    plan: Plan
    model_digest: str
    data: dict[int, DataReply] = field(default_factory=dict)
    """Offloaded to this server, by device."""
    outgoing: dict[int, DataReply] = field(default_factory=dict)
    """Collected from its own devices, by device, for the server that the plan names."""
    refusals: list[Refusal] = field(default_factory=list)
    """Of this server's own cluster."""
    refused: tuple[Refusal, ...] = ()
    """Of all clusters, as the leader closed the list."""
    closed: list[Gradient] = field(default_factory=list)
    iterates: list[FixedPoint] = field(default_factory=list)
