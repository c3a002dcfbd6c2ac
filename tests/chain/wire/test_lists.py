"""RLP lists from outside: what `rlp` reads we read, and what is too much is refused before it is built."""

import time
from typing import Any

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st
from rlp.exceptions import RLPException

from chain.wire.lists import decode_list, encode_rlp, split_list
from tests.chain.rlp_made import listed

NESTED = st.lists(st.recursive(st.binary(max_size=70), lambda inner: st.lists(inner, max_size=4), max_leaves=20))
BOMB_BYTES = 4 << 20
AT_ONCE_S = 1.0


def nested(depth: int) -> bytes:
    raw = b"\xc0"
    for _ in range(depth - 1):
        raw = listed(raw)
    return raw


@given(NESTED)
def test_a_list_is_what_rlp_says_it_is(content: list[Any]) -> None:
    raw = rlp.encode(content)
    assert decode_list(raw, 1000, depth=100) == content
    assert split_list(raw, 1000) == [rlp.encode(each) for each in content]


@given(st.binary(max_size=60))
def test_what_rlp_refuses_is_refused(raw: bytes) -> None:
    try:
        expected = rlp.decode(raw)
    except (RLPException, IndexError):
        expected = None
    try:
        found = decode_list(raw, 1000, depth=100)
    except RLPException:
        found = None
    assert found == (expected if isinstance(expected, list) else None)


def test_one_item_too_many_is_refused() -> None:
    raw = rlp.encode([b"a", [b"b", b"c"], b"d"])
    assert decode_list(raw, 5, depth=2) == [b"a", [b"b", b"c"], b"d"]
    with pytest.raises(RLPException, match="found more than 4 items"):
        decode_list(raw, 4, depth=2)
    assert len(split_list(raw, 3)) == 3
    with pytest.raises(RLPException, match="found more than 2 items"):
        split_list(raw, 2)


def test_one_list_too_deep_is_refused() -> None:
    assert decode_list(nested(3), 10, depth=3) == [[[]]]
    for depth in (4, 3000):
        with pytest.raises(RLPException, match="more than 3 deep"):
            decode_list(nested(depth), 10**6, depth=3)


@pytest.mark.parametrize("item", [b"\x01", b"\x80", b"\xc0", b"\xc1\xc0"])
def test_megabytes_of_small_items_cost_nothing(item: bytes) -> None:
    raw = listed(item * (BOMB_BYTES // len(item)))
    before_s = time.process_time()
    for read in (decode_list, split_list):
        with pytest.raises(RLPException, match=r"found more than 4096 items|deep"):
            read(raw, 4096)
    assert time.process_time() - before_s < AT_ONCE_S


def test_an_item_does_not_reach_beyond_its_list() -> None:
    with pytest.raises(RLPException, match="found 1 bytes of an item of 2"):
        decode_list(b"\xc4\xc2\x82ab", 10, depth=2)
    for read in (decode_list, split_list):
        for raw in (b"\xc2\x82ab", b"\xc1", b"\xc0\xc0", b"\x82ab", b""):
            with pytest.raises(RLPException):
                read(raw, 10)


@given(NESTED)
def test_it_writes_what_rlp_writes(items: list[Any]) -> None:
    assert encode_rlp(items) == rlp.encode(items, infer_serializer=False)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 255, 256, 65_535, 65_536])
def test_bytes_of_every_length_are_written_as_rlp_writes_them(size: int) -> None:
    for item in (bytes(size), b"\x7f" * size, b"\x80" * size):
        assert encode_rlp(item) == rlp.encode(item)
        assert encode_rlp([item]) == rlp.encode([item])
