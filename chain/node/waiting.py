"""What is not in the store: payloads of pending posts (B1, B2) and of blocks that wait for them (B4), and why blocks
were refused (D3.5).
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from chain.protocol.availability import missing_payloads
from chain.protocol.posts import Commitment, PayloadSource, SignedCall
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar

_MOST = 4
"""Blocks that wait; each may hold the payloads of a whole round"""
_KEPT_ITERATES_PER_SERVER = 2
MOST_REFUSED, _MOST_TOLD = 64, 1000
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


class PoolPayloads:
    """What is held beside the pool: one per sender and slot, of founded sizes; of iterates the last ones only."""

    def __init__(self) -> None:
        self._stored: dict[bytes, Sidecar] = {}
        self._iterates: OrderedDict[bytes, Sidecar] = OrderedDict()
        self.evidence: dict[bytes, Sidecar] = {}
        """Of iterates that somebody has found wrong: kept with the block that has their flag (B3)."""
        self.sought: set[bytes] = set()
        """Digests of such iterates whose payloads are not here."""

    def find(self, digest: bytes) -> Sidecar | None:
        """A payload that is here with a pending post."""
        return self._stored.get(digest) or self._iterates.get(digest) or self.evidence.get(digest)

    def hold(self, post: SignedCall, sidecar: Sidecar, servers: int) -> None:
        """Take a payload that came with a post, in a network of so many servers."""
        if post.is_stored:
            self._stored[sidecar.digest] = sidecar
            return
        self._iterates[sidecar.digest] = sidecar
        while len(self._iterates) > _KEPT_ITERATES_PER_SERVER * max(1, servers):
            self._iterates.popitem(last=False)

    def take(self, sidecar: Sidecar) -> None:
        """A payload that came later than the post that names it."""
        (self.evidence if sidecar.digest in self.sought else self._stored)[sidecar.digest] = sidecar
        self.sought.discard(sidecar.digest)

    def missing(self, posts: Iterable[SignedCall]) -> list[Commitment]:
        """What pending posts name and is not here yet; an iterate's is not missed unless it is sought as evidence."""
        named = [(each, post.is_stored) for post in posts for each in post.commitments]
        return [
            each
            for each, is_stored in named
            if (is_stored and each.digest not in self._stored) or each.digest in self.sought
        ]

    def follow(self, posts: Iterable[SignedCall]) -> None:
        """A new head: what the posts that are left do not name goes."""
        named = {each.digest for post in posts for each in post.commitments}
        self._stored = {digest: sidecar for digest, sidecar in self._stored.items() if digest in named}
        self._iterates, self.evidence, self.sought = OrderedDict(), {}, set()


@dataclass(frozen=True)
class WaitingBlock:
    """A block of which a stored payload is missing: neither valid nor invalid. Its header fits its parent and its posts
    are signed; nothing of it is executed.
    """

    header: Header
    posts: tuple[SignedCall, ...]

    def missing(self, source: PayloadSource) -> list[Commitment]:
        """The payloads that it waits for."""
        return missing_payloads(self.posts, self.header.coinbase, source)


class WaitingBlocks:
    """The last few of them, with the payloads of theirs that have come; never remembered as invalid."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, WaitingBlock] = OrderedDict()
        self._sidecars: dict[bytes, Sidecar] = {}

    def __contains__(self, block_hash: bytes) -> bool:
        return block_hash in self._blocks

    def __iter__(self) -> Iterator[WaitingBlock]:
        return iter(list(self._blocks.values()))

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, block: WaitingBlock) -> None:
        """Wait for a block's payloads; the oldest one is given up for it, of the same builder if there is one."""
        self._blocks[block.header.hash] = block
        if len(self._blocks) > _MOST:
            *others, _ = self._blocks.values()
            own = [each for each in others if each.header.coinbase == block.header.coinbase]
            del self._blocks[(own or others)[0].header.hash]

    def remove(self, block_hash: bytes) -> None:
        """It came, or it is invalid."""
        self._blocks.pop(block_hash, None)

    def take(self, sidecar: Sidecar) -> None:
        """A payload of one of them."""
        self._sidecars[sidecar.digest] = sidecar

    def sidecar(self, digest: bytes) -> Sidecar | None:
        """A payload that has come for one of them."""
        return self._sidecars.get(digest)

    def forget(self) -> None:
        """Let go of payloads that none of them names: their blocks came, are invalid or were given up."""
        named = {each.digest for block in self._blocks.values() for post in block.posts for each in post.commitments}
        self._sidecars = {digest: each for digest, each in self._sidecars.items() if digest in named}


class RefusedBlocks:
    """Why the last few blocks were refused: anybody may send a wrong one, so alone it says nothing.

    Where there are too many, one that fewest servers have signed is forgotten: nobody pushes out what a majority stands
    behind.
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
        self._reasons[block_hash] = str(error)[:_MOST_TOLD]
        if len(self._reasons) > MOST_REFUSED:
            signed = signers()
            del self._reasons[min(self._reasons, key=lambda each: len(signed.get(each, ())))]  # of several the oldest
        return True

    def forget(self, block_hash: bytes) -> None:
        """The block has been accepted after all."""
        self._reasons.pop(block_hash, None)
