"""The idx files in which MNIST and its kin come, plain or gzipped."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clients.errors import DataError

_UBYTE = 0x08
_MOST_BYTES = 1 << 30  # unpacked; the largest of MNIST and its kin has 0.6 GB


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of one idx file. A damaged or truncated file is refused with its name."""
    raw = _read_bytes(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _UBYTE or raw[3] not in (1, 3):
        raise DataError(
            f"{path}: found header {raw[:4].hex() or 'nothing'}, expected 00000801 or 00000803 (idx of bytes); "
            "the file is damaged or not an idx file: fetch it again"
        )
    dimensions = raw[3]
    if len(raw) < 4 + 4 * dimensions:
        raise DataError(f"{path}: found {len(raw)} bytes, expected a header of {4 + 4 * dimensions}; fetch it again")
    shape = tuple(int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(dimensions))
    body = raw[4 + 4 * dimensions :]
    expected = math.prod(shape)
    if len(body) != expected:
        raise DataError(
            f"{path}: found {len(body):,} bytes of data, expected {expected:,} for shape {shape}; "
            "the file is truncated or damaged: fetch it again"
        )
    return np.frombuffer(body, np.uint8).reshape(shape)


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_packed else path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); fetch it again") from error
    if len(raw) > _MOST_BYTES:
        raise DataError(f"{path}: found more than {_MOST_BYTES:,} bytes, expected an idx file; fetch it again")
    return raw
