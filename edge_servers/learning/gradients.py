"""The gradients of a round and the closed list that says which of them count (P4)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chain.wire.address import Address
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Transaction

LATE = "late"
"""Why somebody is out that was away, or too slow for the deadline: no offence (D3.6)"""


@dataclass(frozen=True)
class Weight:
    """What a gradient counts for: D_y samples, e_y iterations, in the cluster Y_m of a server."""

    server: int
    samples: int
    iterations: int


@dataclass(frozen=True)
class SignedGradient:
    """A device's own post: the transaction that it signed, and the payload beside it (B8)."""

    raw: bytes
    opened: Transaction
    sidecar: Sidecar


@dataclass(frozen=True)
class Gradient:
    """A training node's cumulative gradient C_y; the weight D_y, e_y never leaves it."""

    sender: Address
    """Address of the training node."""
    node: str
    """Its name for people: "device 3" or "server 0"."""
    server: int
    """The server m in whose Y_m it counts: a device's home, or the server itself."""
    samples: int
    iterations: int
    model_digest: str
    plan_digest: str
    values: NDArray[np.floating]
    signed: SignedGradient | None = None
    """As a device has signed it, and not yet posted."""
    transaction_hash: bytes = b""
    """Its name on the ledger."""

    @property
    def weight(self) -> Weight:
        """All that eqs. 2 and 11 need of it."""
        return Weight(self.server, self.samples, self.iterations)


@dataclass(frozen=True)
class Refusal:
    """A training node that is not in the closed list, and why (P4)."""

    node: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Attendance:
    """A server's roll: whose gradients of its cluster it holds, and who is out and why (D3.6)."""

    held: tuple[Address, ...]
    refused: tuple[Refusal, ...]


@dataclass(frozen=True)
class Close:
    """The leader's closed list: whose gradients count, in order, and whose do not (P4)."""

    accepted: tuple[Address, ...]
    refused: tuple[Refusal, ...]
    rolls: tuple[Address, ...] = ()
    """Servers whose rolls the leader received."""
