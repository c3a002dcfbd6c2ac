"""Bytes of strangers cost what they weigh: linear time, bounded items, bounded depth, bounded unpacking."""

import time
import zlib
from typing import Any

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st
from rlp.exceptions import DecodingError

from chain.errors import CodecError
from chain.wire.bounded import decode_rlp, unpack

ITEMS: Any = st.recursive(st.binary(max_size=80), lambda inner: st.lists(inner, max_size=5), max_leaves=30)


@given(ITEMS)
def test_it_reads_what_rlp_writes(item: Any) -> None:
    assert decode_rlp(rlp.encode(item, infer_serializer=False) if isinstance(item, list) else rlp.encode(item)) == item


@given(st.binary(max_size=60))
def test_it_refuses_what_rlp_refuses_and_agrees_on_the_rest(data: bytes) -> None:
    try:
        expected = rlp.decode(data)
    except (DecodingError, IndexError):
        with pytest.raises(DecodingError):
            decode_rlp(data)
    else:
        assert decode_rlp(data) == expected


def test_a_list_of_many_items_takes_linear_time() -> None:
    """`rlp.decode` copies the list for each item: a million of them would take it minutes."""
    body = b"\x01" * 1_000_000
    began = time.monotonic()
    assert len(decode_rlp(rlp.codec.length_prefix(len(body), 192) + body)) == 1_000_000
    assert time.monotonic() - began < 20


def test_more_items_than_allowed_are_refused() -> None:
    assert decode_rlp(rlp.encode([b"a", b"b"]), most_items=3) == [b"a", b"b"]
    with pytest.raises(DecodingError, match="found more than 3 RLP items"):
        decode_rlp(rlp.encode([b"a", b"b", b"c"]), most_items=3)
    with pytest.raises(DecodingError, match="found more than 3 RLP items"):
        decode_rlp(rlp.encode([[[[]]]]), most_items=3)


def test_lists_nested_too_deeply_are_refused() -> None:
    assert decode_rlp(rlp.encode([[b"a"]]), deepest=2) == [[b"a"]]
    for encoded, deepest in ((rlp.encode([[b"a"]]), 1), (b"\xc0", 0), (b"\xd0" * 100_000, 128)):
        with pytest.raises(DecodingError):
            decode_rlp(encoded, deepest=deepest)


@pytest.mark.parametrize("data", [b"", b"\x82a", b"\xc2a", b"\xbf" + b"\xff" * 8, b"\xf8", b"aa", "text", None])
def test_what_is_cut_off_or_goes_on_is_refused(data: Any) -> None:
    with pytest.raises(DecodingError):
        decode_rlp(data)


def test_unpacking_stops_at_its_bound() -> None:
    packed = zlib.compress(b"\0" * 1000)
    assert unpack(packed, 1000) == bytes(1000)
    with pytest.raises(CodecError, match="found more than 999 bytes when unpacked"):
        unpack(packed, 999)
    with pytest.raises(CodecError, match="found more than 1000 bytes"):
        unpack(zlib.compress(bytes(100 << 20)), 1000)


@pytest.mark.parametrize("data", [b"", b"no zlib", zlib.compress(b"abc")[:-1], zlib.compress(b"abc") + b"!"])
def test_what_is_no_whole_zlib_stream_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        unpack(data, 1000)
