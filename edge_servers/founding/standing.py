"""Where a network stands after a round: what everybody goes on from."""

from dataclasses import dataclass

from chain.wire.address import Address
from clients.vectors import Vector
from edge_servers.learning.reputation import Reputation


@dataclass(frozen=True)
class Tenure:
    """Who led last, and for how many rounds in a row."""

    leader: Address | None = None
    terms: int = 0

    def after(self, leader: Address) -> "Tenure":
        """The reign once `leader` has led one more round."""
        return Tenure(leader, self.terms + 1 if leader == self.leader else 1)


@dataclass(frozen=True)
class Standing:
    """What a server carries from one round to the next; saved in a checkpoint, or read back from the chain."""

    round: int
    model: Vector
    block_hash: bytes
    winner: int | None = None
    """Device that sealed the last block."""
    tenure: Tenure = Tenure()
    divergence: float = 0.0
    excluded: tuple[Address, ...] = ()
    """Servers that may not post in the next round (P14)."""
    reputation: Reputation = Reputation()
    """What is held against devices (R3)."""
