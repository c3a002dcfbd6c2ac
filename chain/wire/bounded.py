"""Compressed bytes of strangers: whoever wrote them does not choose how much they become (Q4)."""

import zlib

from chain.errors import CodecError


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
