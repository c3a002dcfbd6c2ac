"""A majority signs what this node refuses (D3.5): then one of the two computes wrongly, and nobody here can tell which.

Refusing is cheap and says nothing: anybody may send a wrong block. Only the signatures of a strict majority of the
servers under a block that was looked at and refused are a divergence; a block that is merely missing is caught up with.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from chain.errors import (
    ChainError,
    FinalityError,
    InvalidBlockError,
    MalformedBlockError,
    MalformedTransactionError,
    MissingSidecarError,
    TimestampError,
    TransactionRefusedError,
    TransactionRootError,
    UnknownParentError,
)
from chain.wire.address import Address
from chain.wire.headers import Header

_MOST = 64
Signers = Callable[[], Mapping[bytes, Collection[Address]]]
_NO_VERDICT = (
    # the bytes may be somebody's who has put another body under the header
    MalformedBlockError,
    MalformedTransactionError,
    TransactionRootError,
    # it may fit later, or something is missing here
    TimestampError,
    UnknownParentError,
    MissingSidecarError,
    # two majorities: a conflict, which stops the node by itself
    FinalityError,
)


@dataclass(frozen=True)
class Majority:
    """A strict majority's signatures for a block in one attempt."""

    round: int
    attempt: int
    block_hash: bytes
    signers: frozenset[Address]


@dataclass(frozen=True)
class Divergence:
    """What a majority signed, why this node refuses it, and what it has instead."""

    signed: Majority
    reason: str
    own: Header
    """The block of that round here, or the last one where there is none."""

    def __str__(self) -> str:
        signed, own = self.signed, self.own
        return (
            f"DIVERGED at round {signed.round}: found block 0x{signed.block_hash.hex()}, which {len(signed.signers)} "
            f"servers have signed in attempt {signed.attempt} ({', '.join(map(str, sorted(signed.signers)))}) and this "
            f"node refuses ({self.reason}); expected one that follows from its own chain, which is at block "
            f"{own.block_number}, 0x{own.hash.hex()}. Nothing is posted or signed from here. Compare software and "
            "machine with those of the others (bfl doctor), mend what differs, and start node and server again"
        )


class RefusedBlocks:
    """Why the last few blocks were refused. Where there are too many, one that fewest servers have signed is forgotten:
    nobody pushes out what a majority stands behind.
    """

    def __init__(self) -> None:
        self._reasons: OrderedDict[bytes, str] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def __len__(self) -> int:
        return len(self._reasons)

    def reason(self, block_hash: bytes) -> str | None:
        """Why a block was refused; None for one that was not, or is forgotten."""
        return self._reasons.get(block_hash)

    def note(self, block_hash: bytes, error: ChainError, signers: Signers) -> bool:
        """Remember a refusal, if it is about the block and not about its bytes or what is missing here; whether it is.

        `signers`: who has signed blocks that are not here; asked for where there are too many.
        """
        if not isinstance(error, InvalidBlockError | TransactionRefusedError) or isinstance(error, _NO_VERDICT):
            return False
        self._reasons[block_hash] = str(error)
        if len(self._reasons) > _MOST:
            signed = signers()
            del self._reasons[min(self._reasons, key=lambda each: len(signed.get(each, ())))]  # of several the oldest
        return True

    def forget(self, block_hash: bytes) -> None:
        """The block has been accepted after all."""
        self._reasons.pop(block_hash, None)
