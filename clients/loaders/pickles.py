"""CIFAR-10's files are pickles, and a pickle is a program. This reads the one form they have and runs nothing of it.

Every instruction is looked at before the first is carried out; the few that make objects make ours, which only hold
what they are given.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clients.errors import DataError

MOST_BYTES = 64 << 20
_MOST_INSTRUCTIONS = 2_000_000
_HARMLESS = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "POP", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST", "TUPLE",
    "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE", "NEWTRUE", "NEWFALSE", "INT",
    "BININT", "BININT1", "BININT2", "LONG1", "STRING", "SHORT_BINSTRING", "BINSTRING", "BINUNICODE",
    "SHORT_BINUNICODE", "BINBYTES", "SHORT_BINBYTES", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET",
    "LONG_BINGET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
})  # fmt: skip
_PLACES = ("PUT", "BINPUT", "LONG_BINPUT")
_MOST_TUPLES = 30_000
"""A tuple in a tuple in a tuple is a key whose hash goes as deep: a million of them end the process"""


class _Array:
    """What stands for numpy's array until its form and its bytes have been compared."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Kind:
    """What stands for numpy's dtype: its name."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name.decode("latin-1") if isinstance(name, bytes) else name

    def __setstate__(self, _state: Any) -> None:
        """Byte order and the like: bytes have none."""


class _Encoder:
    """How Python 3 writes bytes for Python 2: as the text whose code they are. One for each file."""

    def __init__(self) -> None:
        self._room = MOST_BYTES

    def __call__(self, text: Any, _encoding: Any) -> bytes:
        """The same text may be asked for again and again."""
        made = text.encode("latin-1") if isinstance(text, str) else b""
        self._room -= len(made)
        if self._room < 0:
            raise ValueError(f"more than {MOST_BYTES:,} bytes of texts")
        return made

    def __setstate__(self, _state: Any) -> None:
        """There is no state: with this method nothing can be set on it."""


_OURS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


class _Reader(pickle.Unpickler):
    def __init__(self, raw: bytes) -> None:
        super().__init__(io.BytesIO(raw), encoding="bytes")
        self._known = {**_OURS, ("_codecs", "encode"): _Encoder()}

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._known[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_batch(path: Path) -> dict[str, Any]:
    """The dictionary of one file, arrays of bytes as numpy's; `DataError` for anything else."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        if len(raw) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        _check_instructions(raw)
        content = _Reader(raw).load()
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__}")
        return {_text(key): _plain(value) for key, value in content.items()}
    except (
        pickle.UnpicklingError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        EOFError,
        OverflowError,
        RecursionError,
        MemoryError,
    ) as error:
        raise DataError(
            f"{path}: found what is no file of CIFAR-10 ({error!s:.200}), expected a dictionary with data and labels; "
            "fetch cifar-10-python.tar.gz again"
        ) from error


def _check_instructions(raw: bytes) -> None:
    tuples = 0
    for count, (code, argument, _) in enumerate(pickletools.genops(raw)):
        tuples += code.name.startswith("TUPLE")
        if tuples > _MOST_TUPLES:
            raise ValueError(f"more than {_MOST_TUPLES:,} tuples")
        if code.name not in _HARMLESS or count > _MOST_INSTRUCTIONS:
            raise ValueError(f"the instruction {code.name} in a pickle")
        if code.name in _PLACES and int(argument or 0) > _MOST_INSTRUCTIONS:  # it would make a list that long
            raise ValueError(f"the place {argument} in a pickle")


def _text(key: Any) -> str:
    if not isinstance(key, str | bytes):
        raise ValueError(f"a key that is a {type(key).__name__}")
    return key.decode("latin-1") if isinstance(key, bytes) else key


def _plain(value: Any) -> Any:
    return _bytes_array(value.state) if isinstance(value, _Array) else value


def _bytes_array(state: Any) -> NDArray[np.uint8]:
    """(version, shape, kind, is it in Fortran's order, bytes), as numpy writes arrays."""
    _, shape, kind, is_fortran, content = state
    is_shape = isinstance(shape, tuple) and all(type(each) is int and each >= 0 for each in shape)
    if not is_shape or not isinstance(kind, _Kind) or kind.name != "u1" or not isinstance(content, bytes):
        raise ValueError("an array that is not of bytes")
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape(shape, order="F" if is_fortran else "C")
