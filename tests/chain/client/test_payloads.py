"""Payloads from somebody else (B4): fetched in ranges, bounded before they are read, believed by their digest only."""

from collections.abc import Callable

import pytest

from chain.client.payloads import RANGE_BYTES, FetchRange, MemoryShelf, PayloadCache, fetch_payload
from chain.errors import NodeUnreachableError, SidecarDigestError, SidecarSizeError
from chain.wire.sidecar import Sidecar, payload_digest

SMALL = b"a payload"
LARGE = bytes(range(256)) * (2 * RANGE_BYTES // 256) + b"end"


class Peer:
    """Whoever answers with ranges of one payload; remembers what it was asked for."""

    def __init__(self, payload: bytes, whole: int | None = None, most: int = RANGE_BYTES) -> None:
        """`whole`: the size it says the payload has; `most`: bytes in one of its answers."""
        self.asked: list[tuple[int, int]] = []
        self._payload, self._whole, self._most = payload, len(payload) if whole is None else whole, most

    def __call__(self, digest: bytes, start: int, length: int) -> tuple[int, bytes]:
        self.asked.append((start, length))
        assert len(self.asked) < 10, "it is asked for ever"
        return self._whole, self._payload[start : start + min(length, self._most)]


# --- what is fetched


def test_a_small_payload_comes_in_one_answer() -> None:
    peer = Peer(SMALL)
    assert fetch_payload(payload_digest(SMALL), peer) == SMALL
    assert peer.asked == [(0, RANGE_BYTES)]


def test_a_large_payload_comes_in_ranges() -> None:
    peer = Peer(LARGE)
    assert fetch_payload(payload_digest(LARGE), peer, len(LARGE)) == LARGE
    assert [start for start, _ in peer.asked] == [0, RANGE_BYTES, 2 * RANGE_BYTES]


def test_an_empty_payload_is_one() -> None:
    assert fetch_payload(payload_digest(b""), Peer(b"")) == b""


def test_a_payload_that_is_not_there_is_none() -> None:
    assert fetch_payload(payload_digest(SMALL), lambda *_: None) is None


def test_a_payload_that_vanishes_half_way_is_none_and_its_beginning_stays() -> None:
    answers = iter([(len(LARGE), LARGE[:RANGE_BYTES]), None])
    begun = bytearray()
    assert fetch_payload(payload_digest(LARGE), lambda *_: next(answers), begun=begun) is None
    assert begun == LARGE[:RANGE_BYTES]


# --- resuming


def test_a_broken_fetch_is_resumed_where_it_broke() -> None:
    begun, peer = bytearray(), Peer(LARGE)

    def break_off(digest: bytes, start: int, length: int) -> tuple[int, bytes]:
        if start:
            raise NodeUnreachableError("gone")
        return peer(digest, start, length)

    with pytest.raises(NodeUnreachableError):
        fetch_payload(payload_digest(LARGE), break_off, begun=begun)
    assert begun == LARGE[:RANGE_BYTES]
    other = Peer(LARGE)
    assert fetch_payload(payload_digest(LARGE), other, begun=begun) == LARGE
    assert other.asked[0] == (RANGE_BYTES, RANGE_BYTES)


def test_a_beginning_that_was_a_lie_is_thrown_away() -> None:
    begun = bytearray(b"lies")
    with pytest.raises(SidecarDigestError):
        fetch_payload(payload_digest(SMALL), Peer(SMALL), begun=begun)
    assert begun == b""
    assert fetch_payload(payload_digest(SMALL), Peer(SMALL), begun=begun) == SMALL


# --- refusals


def test_another_payload_is_refused_by_its_digest() -> None:
    digest = payload_digest(SMALL)
    with pytest.raises(SidecarDigestError, match=f"^found another payload than the one with digest 0x{digest.hex()}$"):
        fetch_payload(digest, Peer(b"A payload"))


@pytest.mark.parametrize("whole", [len(SMALL) - 1, 1 << 60])
def test_a_size_other_than_the_posts_is_refused_before_more_is_asked_for(whole: int) -> None:
    peer = Peer(SMALL, whole)
    with pytest.raises(SidecarSizeError, match=f"found a payload of {whole} bytes, its post names {len(SMALL)}"):
        fetch_payload(payload_digest(SMALL), peer, len(SMALL))
    assert len(peer.asked) == 1


def _changing(sizes: list[int]) -> FetchRange:
    """Somebody who says another size each time."""
    left = iter(sizes)
    return lambda _, start, length: (next(left), LARGE[start : start + length])


@pytest.mark.parametrize(
    ("fetch", "message"),
    [
        (Peer(SMALL, whole=4), "found 9 bytes from 0 on of a payload of 4"),
        (Peer(SMALL, whole=10), "found 9 bytes from 0 on of a payload of 10"),
        (Peer(SMALL, most=4), "found 4 bytes from 0 on of a payload of 9"),
        (Peer(b"", whole=5), "found 0 bytes from 0 on of a payload of 5"),
        (Peer(b"", whole=-1), "found 0 bytes from 0 on of a payload of -1"),
        (lambda *_: (RANGE_BYTES + 1, bytes(RANGE_BYTES + 1)), f"found {RANGE_BYTES + 1} bytes from 0 on"),
        (_changing([len(LARGE), 3]), f"found {RANGE_BYTES} bytes from {RANGE_BYTES} on of a payload of 3"),
    ],
)
def test_answers_that_cannot_be_ranges_of_it_are_refused(fetch: FetchRange, message: str) -> None:
    with pytest.raises(SidecarSizeError, match=message):
        fetch_payload(payload_digest(SMALL), fetch)


def test_an_endless_answer_ends_at_the_size_that_the_post_names() -> None:
    """Somebody who has always more to say, and says the whole is as large as what was founded."""
    asked: list[int] = []

    def endless(_: bytes, start: int, length: int) -> tuple[int, bytes]:
        asked.append(start)
        assert len(asked) < 10, "it is asked for ever"
        return len(LARGE), bytes(length)

    with pytest.raises(SidecarSizeError, match=f"found {RANGE_BYTES} bytes from {2 * RANGE_BYTES} on"):
        fetch_payload(payload_digest(LARGE), endless, len(LARGE))
    assert asked == [0, RANGE_BYTES, 2 * RANGE_BYTES]


# --- the cache


def _never() -> bytes | None:
    raise AssertionError("it was fetched again")


def _fetched(payload: bytes | None) -> Callable[[], bytes | None]:
    return lambda: payload


def test_a_payload_that_was_found_is_not_fetched_again() -> None:
    cache = PayloadCache()
    assert cache.find(b"digest", _fetched(SMALL)) == SMALL
    assert cache.find(b"digest", _never) == SMALL


def test_what_was_not_there_is_asked_for_again() -> None:
    cache = PayloadCache()
    assert cache.find(b"digest", _fetched(None)) is None
    assert cache.find(b"digest", _fetched(SMALL)) == SMALL


def test_the_cache_keeps_the_last_payloads_up_to_its_memory() -> None:
    cache = PayloadCache(most_bytes=10)
    for name in (b"a", b"b"):
        cache.find(name, _fetched(name * 4))
    cache.find(b"a", _never)  # used again: b is the oldest now
    cache.find(b"c", _fetched(b"c" * 4))
    assert cache.find(b"a", _never) == b"aaaa"
    assert cache.find(b"c", _never) == b"cccc"
    assert cache.find(b"b", _fetched(None)) is None


def test_a_payload_larger_than_the_cache_is_handed_on_and_drives_nothing_out() -> None:
    cache = PayloadCache(most_bytes=10)
    cache.find(b"a", _fetched(b"aaaa"))
    assert cache.find(b"large", _fetched(bytes(11))) == bytes(11)
    assert cache.find(b"large", _fetched(None)) is None
    assert cache.find(b"a", _never) == b"aaaa"


# --- the shelf


def test_a_shelf_has_what_was_put_on_it_by_digest() -> None:
    shelf = MemoryShelf()
    assert (shelf.payload(payload_digest(SMALL)), shelf.has_payload(payload_digest(SMALL))) == (None, False)
    shelf.put(Sidecar(SMALL))
    assert (shelf.payload(payload_digest(SMALL)), shelf.has_payload(payload_digest(SMALL))) == (SMALL, True)
    assert not shelf.has_payload(payload_digest(b"another"))
