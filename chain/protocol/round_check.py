"""What a node's owner asks of a block before it is mined or imported (P13)."""

from collections.abc import Callable
from dataclasses import dataclass

from chain.errors import RoundRefusedError
from chain.protocol.consensus import SignedCall
from chain.wire.headers import Header


@dataclass(frozen=True)
class RoundBody:
    """A block as `check_round` sees it."""

    header: Header
    parent: Header
    posts: tuple[SignedCall, ...]
    statuses: tuple[int, ...]
    """1 where the registry accepted the post."""


CheckRound = Callable[[RoundBody], None]


def check_published(body: RoundBody) -> None:
    """Raise `RoundRefusedError` unless the block's builder publishes the round's model in it, under its own signature.

    Without this anybody could seal an empty block in the leader's name. Whether the model follows from the gradients is
    for edge servers to replay; a node that serves devices and auditors checks this much.
    """
    for post, status in zip(body.posts, body.statuses, strict=True):
        if status == 1 and post.call is not None and post.call.name == "model" and post.sender == body.header.coinbase:
            return
    raise RoundRefusedError(
        f"block {body.header.block_number} has no model of its builder {body.header.coinbase}: "
        "a round ends with its leader's model"
    )
