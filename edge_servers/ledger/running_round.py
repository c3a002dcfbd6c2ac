"""What a server holds of the round it is in."""

from dataclasses import dataclass, field

import numpy as np

from chain.wire.address import Address
from chain.wire.plan import NO_PLAN, Plan
from clients.models import Vector
from clients.orders import Order
from clients.replies import DataReply, SealedReply
from edge_servers.founding.standing import Standing
from edge_servers.learning.aggregation import FixedPoint
from edge_servers.learning.gradients import Gradient, Refusal, Weight


@dataclass
class RunningRound:
    """What a server holds of the round it is in."""

    plan: Plan
    model_digest: str
    model: Vector = field(default_factory=lambda: np.zeros(0, np.float32))
    """The round's model, once it is published."""
    orders: dict[int, Order] = field(default_factory=dict)
    """Of its devices, once they are made."""
    heard: set[int] = field(default_factory=set)
    """Its devices that have answered, and are not asked again."""
    data: dict[int, DataReply] = field(default_factory=dict)
    """Offloaded to this server, by device."""
    outgoing: dict[int, DataReply | SealedReply] = field(default_factory=dict)
    """Collected from its own devices, by device, for the server that the plan names."""
    collected: dict[Address, Gradient] = field(default_factory=dict)
    """Gradients of this server's devices, its own among them, by sender, before they are posted."""
    refusals: list[Refusal] = field(default_factory=list)
    """Of this server and its devices."""
    refused: tuple[Refusal, ...] = ()
    """Of all clusters, as the leader closed the list."""
    closed: list[Gradient] = field(default_factory=list)
    """What counts of the closed list, after the filters."""
    iterates: list[FixedPoint] = field(default_factory=list)
    """Its own, from x(0) on."""

    @property
    def weights(self) -> list[Weight]:
        """What the closed list counts."""
        return [gradient.weight for gradient in self.closed]

    @classmethod
    def before(cls, standing: Standing) -> "RunningRound":
        """What a server holds before it has read its first plan: nothing but the model it stands on."""
        return cls(NO_PLAN, "", standing.model)
