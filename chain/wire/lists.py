"""RLP: written quickly, and lists from outside read so that how many items, how deep, is known first (Q6).

`rlp.decode` adds the bytes of a list up anew with every item: 4 MB of items of one byte take it minutes. Here each byte
is looked at once, and the first item too many ends it.
"""

from typing import Any

from rlp import DecodingError
from rlp.codec import consume_length_prefix

_STRING, _LIST, _SHORT = 0x80, 0xC0, 56


def encode_rlp(item: Any) -> bytes:
    """Bytes, or lists of them, as RLP. `rlp.encode` asks every item what it is; this is several times as fast."""
    if isinstance(item, bytes):
        size = len(item)
        return item if size == 1 and item[0] < _STRING else _length(size, _STRING) + item
    content = b"".join(map(encode_rlp, item))
    return _length(len(content), _LIST) + content


def _length(size: int, kind: int) -> bytes:
    if size < _SHORT:
        return bytes((kind + size,))
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((kind + _SHORT - 1 + len(digits),)) + digits


def split_list(data: bytes, most: int) -> list[bytes]:
    """The items of the list that `data` is, still encoded; `DecodingError` if it is none, or has more."""
    parts: list[bytes] = []
    is_list, at, end = _prefix(data, 0, len(data))
    if not is_list or end != len(data):
        raise DecodingError(f"found no RLP list of {len(data)} bytes", data)
    while at < end:
        if len(parts) == most:
            raise DecodingError(f"found more than {most} items in a list", data)
        _, _, behind = _prefix(data, at, end)
        parts.append(data[at:behind])
        at = behind
    return parts


def decode_list(data: bytes, most: int, depth: int = 1) -> list[Any]:
    """The list that `data` is; `DecodingError` if it is none, has more than `most` items (those of lists in it
    included) or is more than `depth` lists deep. What it costs is bounded by `most`, whatever is sent.
    """
    is_list, at, end = _prefix(data, 0, len(data))
    if not is_list or end != len(data):
        raise DecodingError(f"found no RLP list of {len(data)} bytes", data)
    found: list[Any] = []
    open_lists, count = [(found, end)], 0
    while open_lists:
        into, end = open_lists[-1]
        if at == end:
            open_lists.pop()
            continue
        if (count := count + 1) > most:
            raise DecodingError(f"found more than {most} items in a list", data)
        is_list, first, behind = _prefix(data, at, end)
        if is_list:
            if len(open_lists) == depth:
                raise DecodingError(f"found lists more than {depth} deep", data)
            open_lists.append(([], behind))
            into.append(open_lists[-1][0])
            at = first
        else:
            into.append(data[first:behind])
            at = behind
    return found


def _prefix(data: bytes, at: int, end: int) -> tuple[bool, int, int]:
    """(whether a list begins here, where its content does, where it ends); nothing goes beyond what it is in."""
    try:
        _, kind, length, first = consume_length_prefix(data, at)
    except IndexError as error:
        raise DecodingError("found too few bytes", data) from error
    if first + length > end:
        raise DecodingError(f"found {end - first} bytes of an item of {length}", data)
    return kind is list, first, first + length
