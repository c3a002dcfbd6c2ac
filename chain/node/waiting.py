"""Blocks of which a stored payload is missing here (B4): neither valid nor invalid, asked for until it comes."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from chain.protocol.availability import missing_payloads
from chain.protocol.posts import Commitment, PayloadSource, SignedCall
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar

_MOST = 4
"""Each may hold the payloads of a whole round"""


@dataclass(frozen=True)
class WaitingBlock:
    """A block whose header fits its parent, and whose posts are signed; nothing of it is executed."""

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
