"""Compressed bytes of strangers become no more than they may."""

import zlib

import pytest

from chain.errors import CodecError
from chain.wire.bounded import unpack


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
