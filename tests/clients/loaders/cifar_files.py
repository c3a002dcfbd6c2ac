"""CIFAR-10's files in small, as Python 2 wrote them: instruction by instruction."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAMES = (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")


def text(word: bytes) -> bytes:
    if len(word) < 256:
        return b"U" + bytes([len(word)]) + word
    return b"T" + struct.pack("<I", len(word)) + word


def number(value: int) -> bytes:
    return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)


def array(data: NDArray[np.uint8]) -> bytes:
    """numpy.core.multiarray._reconstruct, then its state."""
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"tR"
    kind = b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR("
    kind += number(3) + text(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + number(0) + b"tb"
    shape = number(data.shape[0]) + number(data.shape[1]) + b"\x86"
    return made + b"(" + number(1) + shape + kind + b"\x89" + text(data.tobytes()) + b"tb"


def batch(data: NDArray[np.uint8], labels: list[int]) -> bytes:
    items = text(b"data") + array(data) + text(b"labels") + b"](" + b"".join(map(number, labels)) + b"e"
    items += text(b"batch_label") + text(b"made for a test")
    return b"\x80\x02}(" + items + b"u."


def made_batch(name: str, each: int) -> tuple[NDArray[np.uint8], list[int]]:
    rng = np.random.default_rng(NAMES.index(name))
    labels = [n % 10 for n in range(each)]
    pixels = rng.integers(0, 100, (each, 3072)).astype(np.uint8)
    return (pixels + 15 * np.array(labels, np.uint8)[:, None]).astype(np.uint8), labels


def write_cifar(folder: Path, each: int = 20) -> Path:
    place = folder / "cifar-10-batches-py"
    place.mkdir(parents=True)
    for name in NAMES:
        (place / name).write_bytes(batch(*made_batch(name, each)))
    return folder
