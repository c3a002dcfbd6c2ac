"""Records of a round with something changed, as a test hands them to a replay."""

from dataclasses import replace

from chain.client.payloads import MemoryShelf
from chain.protocol.posts import Post
from chain.protocol.slots import Slot
from chain.wire.documents import ClosedList
from chain.wire.sidecar import Sidecar
from edge_servers.replay.record import RoundRecord


def posts_of(record: RoundRecord) -> list[Post]:
    return [post for by_sender in record.posts.values() for post in by_sender.values()]


def without(record: RoundRecord, slot: int, sender: bytes | None = None) -> RoundRecord:
    """The record without a slot, or without one sender's post in it."""
    kept = [post for post in posts_of(record) if post.slot != slot or (sender is not None and post.sender != sender)]
    return RoundRecord.of(record.round, kept)


def with_payload(record: RoundRecord, slot: int, payload: bytes, sender: bytes | None = None) -> RoundRecord:
    """The record with another payload in a slot, of one sender or of the only one."""
    sidecar = Sidecar(payload)
    changed = [
        replace(post, digest=sidecar.digest, size=len(payload), source=MemoryShelf([sidecar]))
        if post.slot == slot and sender in (None, post.sender)
        else post
        for post in posts_of(record)
    ]
    return RoundRecord.of(record.round, changed)


def with_close(
    record: RoundRecord,
    accepted: tuple[bytes, ...],
    *refused: tuple[str, str],
    rolls: tuple[bytes, ...] | None = None,
) -> RoundRecord:
    """The record with another closed list, which cites the rolls that the real one does unless told otherwise."""
    cited = record.closed_list.rolls if rolls is None else rolls
    return with_payload(record, Slot.CLOSE, ClosedList(record.round, accepted, refused, rolls=cited).encode())
