"""idx files for tests, written from the format's description."""

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    """Two zero bytes, 08 for bytes, the number of dimensions, each dimension as big-endian 32 bits, the data."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


def write_mnist(folder: Path, train: int = 6, test: int = 4, zipped: bool = False, fill: int = 0) -> Path:
    """A folder with the four files: images of 28 x 28 in which every byte is `fill`, labels 0, 1, 2 ..."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in zip(NAMES, (train, train, test, test), strict=True):
        shape = (count, 28, 28) if "images" in name else (count,)
        array = np.full(shape, fill, np.uint8) if "images" in name else np.arange(count, dtype=np.uint8) % 10
        raw = idx_bytes(array)
        path = folder / (f"{name}.gz" if zipped else name)
        path.write_bytes(gzip.compress(raw) if zipped else raw)
    return folder
