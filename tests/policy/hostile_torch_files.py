"""Torch files that nobody's `torch.save` wrote: honest ones taken apart and put together otherwise."""

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

import torch


def saved(content: Any) -> bytes:
    """What `torch.save` makes of it."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def members_of(raw: bytes) -> dict[str, bytes]:
    """The members of a zip file."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: dict[str, bytes] | list[tuple[str, bytes]], how: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file of these members, in order; a list may have a name twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name), content, how)
    return file.getvalue()


def with_pickle(raw: bytes, content: bytes) -> bytes:
    """The file with another pickle in it."""
    members = members_of(raw)
    name = next(name for name in members if name.endswith("data.pkl"))
    return zipped(members | {name: content})


def calling(name: str, arguments: bytes) -> bytes:
    """A pickle that calls a function of a module with arguments that are opcodes."""
    module, function = name.split()
    return b"\x80\x02c" + f"{module}\n{function}\n".encode() + arguments + b"R."


class Raw:
    """A tensor as `torch.save` pickles one, with any numbers in it."""

    def __init__(self, shape: tuple[int, ...], stride: tuple[int, ...], offset: int = 0, key: str = "0") -> None:
        self.shape, self.stride, self.offset, self.key = shape, stride, offset, key


class _Pickler(pickle.Pickler):
    """Writes `Raw` tensors; `stored` numbers are said to be in each storage."""

    def __init__(self, file: io.BytesIO, stored: int) -> None:
        super().__init__(file, 2)
        self._stored = stored

    def persistent_id(self, found: Any) -> Any:
        if isinstance(found, str) and found.startswith("storage "):
            return ("storage", torch.FloatStorage, found.removeprefix("storage "), "cpu", self._stored)
        return None

    def reducer_override(self, found: Any) -> Any:
        if isinstance(found, Raw):
            place: tuple[Any, ...] = (f"storage {found.key}", found.offset, found.shape, found.stride)
            return torch._utils._rebuild_tensor_v2, (*place, False, OrderedDict())
        return NotImplemented


def described(content: Any, storages: dict[str, bytes], stored: int) -> bytes:
    """A torch file of `Raw` tensors over these storages, of which it says that they hold `stored` numbers."""
    file = io.BytesIO()
    _Pickler(file, stored).dump(content)
    members = {"archive/data.pkl": file.getvalue(), "archive/byteorder": b"little", "archive/version": b"3\n"}
    return zipped(members | {f"archive/data/{key}": content for key, content in storages.items()})
