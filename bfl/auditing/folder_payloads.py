"""The payloads in a proof folder."""

from collections.abc import Sequence

from chain.protocol.posts import SignedCall
from chain.wire.lists import decode_list

_SLACK_BYTES = 1 << 20
_MOST_PAYLOADS = 1 << 16


def read_payloads(raw: bytes) -> list[bytes]:
    """The content of a file of payloads: an RLP list."""
    found: list[bytes] = decode_list(raw, _MOST_PAYLOADS)
    return found


def most_payload_bytes(posts: Sequence[SignedCall]) -> int:
    """How large a file of payloads may be beside a block with these posts: each names the size of its own."""
    sizes = [each.size for post in posts for each in post.commitments]
    return sum(sizes) + _SLACK_BYTES
