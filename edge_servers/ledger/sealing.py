"""The end of a round: who sealed it, and the hash that the next leader follows from (L14).

On the chain devices mine a block (`chain_sealing.py`). Without one the winner is drawn from the seed, bound to the
models by a hash.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.models import Vector
from clients.orders import vector_digest
from edge_servers.founding.network import Network
from edge_servers.founding.standing import Standing
from policy.streams import Purpose, stream


@dataclass(frozen=True)
class Seal:
    """A sealed round."""

    round: int
    block_hash: bytes
    leader: Address
    winner: int
    """Device that sealed it."""
    attempt: int = 0
    """At which attempt it was built (D3.1)."""
    time_s: int = 0
    excluded: Mapping[Address, int] | None = None
    """Servers that may not post, and their last round of it."""
    block_bytes: int = 0

    @property
    def excluded_next(self) -> tuple[Address, ...]:
        """Servers that may not post in the next round, by address."""
        return tuple(sorted(who for who, last in (self.excluded or {}).items() if last > self.round))


class Sealer(Protocol):
    """Ends rounds."""

    def seal(
        self, parent: bytes, leader: Address, plan: Plan, models: Mapping[Address, Vector], until_s: float
    ) -> None:
        """Seal the round as its leader, at most until the deadline."""

    def find(self, round_: int) -> Seal | None:
        """The seal of a round, once nothing can undo it."""

    def standing(self, round_: int) -> Standing | None:
        """Where everybody stands after a round, as its block says; None where there are no blocks."""


class DrawnSealer:
    """Who would have mined a round's block: drawn from the seed, each device with the same chance."""

    def __init__(self, seed: int, network: Network) -> None:
        self._seed, self._network = seed, network
        self._last: Seal | None = None

    def seal(
        self, parent: bytes, leader: Address, plan: Plan, models: Mapping[Address, Vector], until_s: float
    ) -> None:
        """Draw the winner and bind it to the models."""
        winner = drawn_winner(self._seed, plan.round, len(self._network.devices))
        block = round_hash(parent, models, self._network.devices[winner].address)
        self._last = Seal(plan.round, block, leader, winner)

    def find(self, round_: int) -> Seal | None:
        """The last one, if it is of this round."""
        return self._last if self._last is not None and self._last.round == round_ else None

    def standing(self, round_: int) -> Standing | None:
        """Nothing says so but each server's own books."""
        return None


def drawn_winner(seed: int, round_: int, devices: int) -> int:
    """The device that wins the round, each with the same chance."""
    return int(stream(seed, Purpose.WINNER, round_).integers(devices))


def founding_hash(seed: int) -> bytes:
    """The hash that stands before round 1."""
    return hashlib.sha256(f"bfl founding {seed}".encode()).digest()


def round_hash(parent: bytes, models: Mapping[Address, Vector], winner: Address) -> bytes:
    """sha256 over the parent, the published models and the winner: what a block hash is on the chain (L14)."""
    content = parent
    for sender, model in sorted(models.items()):
        content += sender + bytes.fromhex(vector_digest(model))
    return hashlib.sha256(content + winner).digest()
