"""The payloads in a proof folder."""

from collections.abc import Sequence

from chain.errors import ProofError
from chain.protocol.posts import SignedCall
from chain.wire.bounded import decode_rlp
from chain.wire.sidecar import payload_digest

_SLACK_BYTES = 1 << 20


class FolderPayloads:
    """The payloads of a proof folder by their digests; whoever reads one checks it."""

    def __init__(self) -> None:
        self._found: dict[bytes, bytes] = {}

    def add(self, payloads: list[bytes]) -> None:
        """Those of one block."""
        self._found |= {payload_digest(payload): payload for payload in payloads}

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this digest."""
        return self._found.get(digest)

    def has_payload(self, digest: bytes) -> bool:
        """Whether it is in the folder."""
        return digest in self._found


def read_payloads(raw: bytes) -> list[bytes]:
    """The content of a file of payloads: an RLP list."""
    found = decode_rlp(raw)
    if not isinstance(found, list) or not all(isinstance(each, bytes) for each in found):
        raise ProofError("found no list of payloads")
    return found


def most_payload_bytes(posts: Sequence[SignedCall]) -> int:
    """How large a file of payloads may be beside a block with these posts: each names the size of its own."""
    sizes = [each.size for post in posts for each in post.commitments]
    return sum(sizes) + _SLACK_BYTES
