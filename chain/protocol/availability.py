"""Which payloads a block keeps (B3), and which of them are missing: a block counts only where they are (B4)."""

from collections.abc import Iterable, Sequence

from chain.errors import CodecError, SidecarDigestError, SidecarSizeError, UnwantedSidecarError
from chain.protocol.posts import Commitment, PayloadSource, SignedCall
from chain.wire.address import Address
from chain.wire.documents import ClosedList
from chain.wire.sidecar import Sidecar


def kept_payloads(posts: Sequence[SignedCall], builder: Address, source: PayloadSource) -> list[Commitment]:
    """The payloads of a block: of founding, plan, close and model, every gradient that the closed list does not refuse
    as unavailable, and the rolls that it cites. The closed list is the one that the builder's model names; where that
    is missing, itself is needed first.
    """
    left_out = _left_out(posts, builder, source)
    found = (
        each for post in posts if post.is_stored and post.transaction.hash not in left_out for each in post.commitments
    )
    return list(dict.fromkeys(found))


def _left_out(posts: Sequence[SignedCall], builder: Address, source: PayloadSource) -> set[bytes]:
    """Gradient transactions that the leader says it does not hold, and rolls that it has not received."""
    calls = [post.call for post in posts if post.call is not None and post.sender == builder]
    closes = {bytes(call["close_digest"]) for call in calls if call.name == "model"}
    rolls = _hashes_of(posts, "roll")
    if len(closes) != 1 or (payload := source.payload(closes.pop())) is None:
        return rolls
    try:
        closed = ClosedList.decode(payload)
    except CodecError:
        return rolls
    return (set(closed.unavailable) & _hashes_of(posts, "gradient")) | (rolls - set(closed.rolls))


def _hashes_of(posts: Sequence[SignedCall], kind: str) -> set[bytes]:
    return {post.transaction.hash for post in posts if post.call is not None and post.call.name == kind}


def missing_payloads(posts: Sequence[SignedCall], builder: Address, source: PayloadSource) -> list[Commitment]:
    """What a block needs and is not here."""
    return [each for each in kept_payloads(posts, builder, source) if not source.has_payload(each.digest)]


def checked_sidecars(post: SignedCall, sidecars: Iterable[Sidecar]) -> dict[bytes, Sidecar]:
    """The payloads that came with a post, by digest; sizes are compared before a byte is hashed."""
    left = {each.digest: each for each in post.commitments}
    found: dict[bytes, Sidecar] = {}
    for sidecar in sidecars:
        size = len(sidecar.payload)
        if not left:
            raise UnwantedSidecarError(f"found a payload of {size} bytes more than the post commits to")
        if size not in {each.size for each in left.values()}:
            named = " or ".join(str(each.size) for each in left.values())
            raise SidecarSizeError(f"found a payload of {size} bytes, its post names {named}")
        commitment = left.pop(sidecar.digest, None)
        if commitment is None:
            named = ", ".join(f"0x{digest.hex()}" for digest in left)
            raise SidecarDigestError(f"found a payload with digest 0x{sidecar.digest.hex()}, its post names {named}")
        if size != commitment.size:  # that of the founding's other payload
            raise SidecarSizeError(f"found a payload of {size} bytes, its post names {commitment.size}")
        found[sidecar.digest] = sidecar
    return found
