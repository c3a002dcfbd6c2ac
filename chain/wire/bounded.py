"""Bytes of strangers, decoded in linear time and within bounds: whoever wrote them does not choose what they cost."""

import zlib
from typing import Any

from rlp.codec import consume_length_prefix
from rlp.exceptions import DecodingError

from chain.errors import CodecError

MOST_ITEMS = 1 << 20
"""Of one RLP text, lists included: a block of 10,000 posts has a hundredth of it"""
DEEPEST = 128
"""Lists within lists; nothing of ours has more than four"""


def decode_rlp(data: bytes, most_items: int = MOST_ITEMS, deepest: int = DEEPEST) -> Any:
    """As `rlp.decode`, which copies a list once per item of it, and follows nested lists until the stack is full."""
    if not isinstance(data, bytes):
        raise DecodingError(f"found {type(data).__name__}, expected bytes of RLP", data)
    reader = _Reader(data, most_items)
    try:
        item, end = reader.item(0, len(data), deepest)
    except IndexError as error:
        raise DecodingError("found RLP that is cut off", data) from error
    if end != len(data):
        raise DecodingError(f"found {len(data) - end} bytes after the RLP item, expected none", data)
    return item


class _Reader:
    """Counts the items while it reads them."""

    def __init__(self, data: bytes, most_items: int) -> None:
        self._data, self._left, self._most = data, most_items, most_items

    def item(self, at: int, end: int, deepest: int) -> tuple[Any, int]:
        """The item that begins at `at` and may go on to `end`, and where it ends."""
        if not self._left:
            raise DecodingError(f"found more than {self._most} RLP items, expected at most so many", self._data)
        self._left -= 1
        _, kind, length, start = consume_length_prefix(self._data, at)
        stop = start + length
        if stop > end:
            raise DecodingError(f"found {end - start} bytes of an RLP item of {length}", self._data)
        if kind is bytes:
            return self._data[start:stop], stop
        if not deepest:
            raise DecodingError("found RLP lists nested too deeply", self._data)
        items = []
        while start < stop:
            item, start = self.item(start, stop, deepest - 1)
            items.append(item)
        return items, stop


def unpack(compressed: bytes, most_bytes: int) -> bytes:
    """The reverse of `zlib.compress`; `CodecError` where it is cut off, goes on after its end or becomes too much."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(compressed, most_bytes + 1)
    except zlib.error as error:
        raise CodecError(f"found no zlib stream: {error}") from error
    if len(content) > most_bytes:
        raise CodecError(f"found more than {most_bytes} bytes when unpacked, expected at most so many")
    if not unpacking.eof or unpacking.unused_data:
        raise CodecError("found a zlib stream that is cut off, or bytes after its end")
    return content
