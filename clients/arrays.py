"""Arrays in Flower messages. What comes from outside is measured before it is believed.

`numpy.load` would also open zip archives, evaluate headers and allocate whatever a header claims; this reads the one
form that Flower writes and nothing else, without copying.
"""

import math
import re
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY\x01\x00"
_NUMBERS = (b"<f2", b"<f4", b"<f8", b"|i1", b"<i2", b"<i4", b"<i8", b"|u1", b"<u2", b"<u4", b"<u8")
_SHAPE = rb"\(((?:\d{1,30}(?:, \d{1,30}){0,7},?)?)\)"
_HEADER = re.compile(rb"\{'descr': '([<|][fiu]\d)', 'fortran_order': False, 'shape': " + _SHAPE + rb", \} *\n")
_LONGEST_HEADER = 512


def one_array(key: str, values: NDArray[Any]) -> ArrayRecord:
    """A record with one array."""
    return ArrayRecord({key: Array(np.ascontiguousarray(values))})


def read_array(record: Any, key: str) -> NDArray[Any]:
    """The array `key` of a record, read-only; `ValueError` where it is missing, damaged or not what it says it is."""
    data = getattr(record.get(key) if isinstance(record, ArrayRecord) else None, "data", None)
    if not isinstance(data, bytes):
        raise ValueError(f"found no array '{key}'")
    if not data.startswith(_MAGIC):
        raise ValueError(f"array '{key}' starts with {data[:8]!r}, expected numpy's format 1.0")
    length = int.from_bytes(data[8:10], "little")
    header = _HEADER.fullmatch(data[10 : 10 + length]) if length <= _LONGEST_HEADER else None
    if header is None or header[1] not in _NUMBERS:
        raise ValueError(f"array '{key}' has no plain header")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(part) for part in header[2].split(b",") if part)
    body = memoryview(data)[10 + length :]
    if len(body) != dtype.itemsize * math.prod(shape):
        raise ValueError(f"array '{key}' has {len(body)} bytes, expected {dtype} numbers of shape {shape}")
    return np.frombuffer(body, dtype).reshape(shape)
