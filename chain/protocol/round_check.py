"""What a node's owner asks of a block before it is mined or imported (P13)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from chain.errors import RoundRefusedError
from chain.protocol.genesis import Genesis
from chain.protocol.posts import PayloadSource, SignedCall, attempt_in
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.headers import Header


@dataclass(frozen=True)
class RoundBody:
    """A block as `check_round` sees it."""

    header: Header
    parent: Header
    posts: tuple[SignedCall, ...]
    statuses: tuple[int, ...]
    """1 where the registry accepted the post."""
    source: PayloadSource
    """Has the payloads that the block keeps."""

    @property
    def round(self) -> int:
        """Round k is block k + 1 (P1)."""
        return self.header.block_number - FOUNDING_BLOCK

    @property
    def attempt(self) -> int:
        """The attempt at the round that it has the posts of (D3.1)."""
        return attempt_in(self.executed)

    @property
    def executed(self) -> Iterable[tuple[SignedCall, int]]:
        """Each post with what came of it."""
        return zip(self.posts, self.statuses, strict=True)

    @property
    def name(self) -> tuple[Any, ...]:
        """Names this body: the same transactions may have other statuses at another time."""
        return (self.parent.hash, self.statuses, *(post.transaction.hash for post in self.posts))

    def check_published(self) -> None:
        """Raise `RoundRefusedError` unless the builder publishes the round's model in it, under its own signature.

        Without this anybody could seal an empty block in the leader's name. Whether the model follows from the
        gradients is for edge servers to replay; a node that serves devices and auditors checks this much.
        """
        builder = self.header.coinbase
        for post, status in self.executed:
            if status == 1 and post.call is not None and post.call.name == "model" and post.sender == builder:
                return
        raise RoundRefusedError(
            f"block {self.header.block_number} has no model of its builder {builder}: "
            "a round ends with its leader's model"
        )


class ChainReader(PayloadSource, Protocol):
    """What `check_round` may ask of the node that asks it: blocks, headers, payloads, and the registry's views."""

    @property
    def genesis(self) -> Genesis:
        """The network's rules."""

    def block(self, which: int | bytes) -> Block | None:
        """A canonical block by number, or any block by hash."""

    def header(self, which: int | bytes) -> Header | None:
        """A canonical header by number, or any header by hash."""

    def ask(self, name: str, *arguments: Any, header: Header | None = None) -> Any:
        """The answer of a view of the registry, after `header` or (None) in the pending state."""


CheckRound = Callable[[RoundBody, ChainReader], None]
"""Raises `RoundRefusedError` for a block that must not be mined or imported"""
