"""Files of `torch.save`, read as data: what they hold is described before torch makes anything of it.

`torch.load(weights_only=True)` runs no code of a file, but does what it says: a kilobyte asks for gigabytes, by a
bytearray of any size, by strides of 0, by a compressed member. Here the pickle has a few harmless opcodes, and every
tensor is a part of bytes that are in the file.
"""

import math
import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from policy.errors import StoredFileError
from policy.stored_zip import stored_members

ITEM_BYTES = {"Float": 4, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "Bool": 1}
"""Of the kinds of numbers that we write"""
_TENSOR, _ORDERED = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
_STORAGES = {f"torch {kind}Storage": kind for kind in ITEM_BYTES}
_SMALL = ("version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id")
_SMALL_BYTES = 64
_MOST_OPCODES = 1 << 20
_MOST_DIMENSIONS = 16
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_SIZED = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2}
_AS_THEY_ARE = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE")
_MALFORMED = (IndexError, KeyError, TypeError, ValueError, AttributeError)
_MARK = object()


@dataclass(frozen=True)
class StoredTensor:
    """A tensor that was not made: its numbers are some of those in a storage, in order and each once."""

    kind: str
    shape: tuple[int, ...]
    storage: str
    offset: int
    stored: int
    """Numbers in the storage."""


@dataclass(frozen=True)
class TorchFile:
    """What a file holds: the saved object with `StoredTensor`s for tensors, and the bytes of each storage."""

    content: Any
    storages: Mapping[str, memoryview]
    has_notes: bool
    """Whether a dictionary has something beside it, as those of networks have."""


@dataclass(frozen=True)
class _Name:
    """A global of the pickle, which is looked up nowhere."""

    text: str


@dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    count: int


def read_torch_file(raw: bytes) -> TorchFile:
    """What the bytes of a file hold; `StoredFileError` unless it is one that we could have written."""
    members = stored_members(raw)
    top = next(iter(members), "").partition("/")[0]
    parts = {name.removeprefix(f"{top}/"): content for name, content in members.items()}
    storages = {name.removeprefix("data/"): content for name, content in parts.items() if name.startswith("data/")}
    small = {name: content for name, content in parts.items() if name in _SMALL}
    is_ours = all(name.startswith(f"{top}/") for name in members) and all(map(_is_key, storages))
    if not is_ours or len(storages) + len(small) + 1 != len(parts) or "data.pkl" not in parts:
        raise StoredFileError(f"found the members {', '.join(members)!r:.200}, expected those of torch.save")
    is_plain = all(len(content) <= _SMALL_BYTES for content in small.values())
    if not is_plain or bytes(small.get("byteorder", b"")) != b"little":
        raise StoredFileError("found members of torch.save that say something else than it does")
    reader = _PickleReader(storages)
    content = reader.read(bytes(parts["data.pkl"]))
    if reader.used != storages.keys():
        raise StoredFileError("found numbers that belong to no tensor")
    return TorchFile(content, storages, reader.has_notes)


def _is_key(key: str) -> bool:
    return key.isdecimal() and len(key) < 10 and str(int(key)) == key


class _PickleReader:
    """A pickle machine that has dictionaries, lists, tuples, texts and numbers, and calls nothing."""

    def __init__(self, storages: Mapping[str, memoryview]) -> None:
        self._storages = storages
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self.used: set[str] = set()
        self.has_notes = False

    def read(self, raw: bytes) -> Any:
        """The object that a pickle describes."""
        try:
            for count, (opcode, argument, place) in enumerate(pickletools.genops(raw)):
                if opcode.name == "STOP":
                    return self._end(len(raw) - (place or 0) - 1)
                if count > _MOST_OPCODES:
                    raise StoredFileError(f"found more than {_MOST_OPCODES} opcodes")
                self._do(opcode.name, argument)
        except _MALFORMED as error:
            raise StoredFileError(f"found a damaged pickle: {type(error).__name__} {error!s:.100}") from error
        raise StoredFileError("found a pickle without an end")

    def _end(self, bytes_left: int) -> Any:
        if bytes_left or len(self._stack) != 1:
            raise StoredFileError("found a pickle that goes on after its end")
        return self._stack[0]

    def _do(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _AS_THEY_ARE:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(tuple(self._popped(name)))
        elif name in ("APPEND", "APPENDS"):
            self._append(self._popped(name))
        elif name in ("SETITEM", "SETITEMS"):
            self._set(self._popped(name))
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "GLOBAL":
            stack.append(_Name(argument))
        elif name == "BINPERSID":
            stack.append(self._storage(*stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._made(function, arguments))
        elif name == "BUILD":
            self._build(stack.pop())
        elif name != "PROTO":
            raise StoredFileError(f"found the opcode {name}, which torch.save does not write")

    def _popped(self, name: str) -> list[Any]:
        """The arguments of an opcode: so many, or those above the last mark."""
        stack = self._stack
        if name in _SIZED:
            at = len(stack) - _SIZED[name]
            if at < 0:
                raise IndexError("the stack is empty")
        else:
            at = len(stack) - 1
            while stack[at] is not _MARK:
                at -= 1
        found = stack[at:]
        del stack[at:]
        return found if name in _SIZED else found[1:]

    def _append(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise TypeError("only lists are appended to")
        self._stack[-1].extend(items)

    def _set(self, items: list[Any]) -> None:
        target, keys = self._stack[-1], items[::2]
        if type(target) not in (dict, OrderedDict) or any(type(key) not in (str, int) for key in keys):
            raise TypeError("expected texts or numbers as keys of a dictionary")
        if len(set(keys)) != len(keys) or any(key in target for key in keys):
            raise StoredFileError("found a key twice in a dictionary")
        target.update(zip(keys, items[1::2], strict=True))

    def _build(self, state: Any) -> None:
        """A network's dictionary has a note of its version beside it, which nobody needs."""
        if type(self._stack[-1]) is not OrderedDict or type(state) is not dict or state.keys() != {"_metadata"}:
            raise StoredFileError("found an object with a state of its own, expected plain dictionaries")
        self.has_notes = True

    # --- tensors

    def _made(self, function: Any, arguments: Any) -> Any:
        if function == _Name(_ORDERED) and arguments == ():
            return OrderedDict()
        if function != _Name(_TENSOR):
            raise StoredFileError(
                f"found a call of {getattr(function, 'text', 'no name')!r:.80}, expected tensors only"
            )
        return self._tensor(*arguments)

    def _storage(self, word: Any, kind: Any, key: Any, place: Any, count: Any) -> _Storage:
        if (word, place) != ("storage", "cpu") or not isinstance(kind, _Name) or not isinstance(key, str):
            raise StoredFileError("found a reference that is no storage of torch.save")
        found, expected = len(self._storages[key]), _natural(count) * ITEM_BYTES[_STORAGES[kind.text]]
        if found != expected:
            raise StoredFileError(f"storage {key}: found {found} bytes, the file says {expected}")
        self.used.add(key)
        return _Storage(_STORAGES[kind.text], key, count)

    def _tensor(self, storage: Any, offset: Any, shape: Any, stride: Any, gradient: Any, hooks: Any) -> StoredTensor:
        if not isinstance(storage, _Storage) or gradient is not False or type(hooks) is not OrderedDict or hooks:
            raise StoredFileError("found a tensor with more to it than numbers")
        is_plain = type(shape) is type(stride) is tuple and all(type(step) is int for step in stride)
        if not is_plain or len(shape) > _MOST_DIMENSIONS:  # tuples of tuples of ... would be told for ever
            raise TypeError(f"expected shape and stride as tuples of at most {_MOST_DIMENSIONS} numbers")
        count = math.prod(map(_natural, shape))
        if _natural(offset) + count > storage.count or not _is_in_order(shape, stride):
            raise StoredFileError(
                f"found a tensor of shape {list(shape)!s:.80} and stride {list(stride)!s:.80} from number {offset} on "
                f"in {storage.count} numbers, expected each number once and in order"
            )
        return StoredTensor(storage.kind, shape, storage.key, offset, storage.count)


def _natural(found: Any) -> int:
    if type(found) is not int or not 0 <= found < 1 << 62:
        raise ValueError(f"found {type(found).__name__}, expected a whole number from 0 on")
    return found


def _is_in_order(shape: tuple[int, ...], stride: tuple[Any, ...]) -> bool:
    """Whether numbers follow each other as in C; the stride of a dimension with one index is nobody's business."""
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True
