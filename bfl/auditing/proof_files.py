"""The files of a proof folder, which somebody else made: ordinary ones, of bounded size, in the folder itself (Q4).

A link could show another file of whoever verifies, a pipe would never end, a file with holes would fill the memory.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path

from chain.errors import ProofError

MOST_FILES = 64
_MOST_BYTES = {"block": 64 << 20, "payloads": 2 << 30, "model": 4 << 30, "receipts": 256 << 20}
"""By the beginning of a name; what is read whole has narrower bounds, once they are known"""
_OTHERWISE = 1 << 20
_HEADER_BYTES = 1040
_MOST_HEADERS_BYTES = 1 << 30
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def file_names(folder: Path) -> set[str]:
    """What is in the folder."""
    with os.scandir(folder) as entries:
        names = {entry.name for entry in islice(entries, MOST_FILES + 1)}
    if len(names) > MOST_FILES:
        raise ProofError(f"{folder}: found more than {MOST_FILES} files, expected those of one proof")
    return names


def most_bytes(name: str, round_: int) -> int:
    """How large a file of the proof of a round may be."""
    if name == "headers.rlp":
        return min(_MOST_HEADERS_BYTES, _HEADER_BYTES * (round_ + 3))
    return _MOST_BYTES.get(re.split(r"[-.]", name)[0], _OTHERWISE)


def read_file(path: Path, most: int) -> bytes:
    """The content of an ordinary file."""
    with _opened(path, most) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ProofError(f"{path.name}: found more than {most:,} bytes, expected at most so many")
    return content


def file_sha256(path: Path, most: int) -> str:
    """The digest of an ordinary file, which is not held in memory."""
    with _opened(path, most) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _opened(path: Path, most: int) -> Iterator[BufferedReader]:
    try:
        _check_ordinary(path, path.lstat().st_mode)  # opening a device may do something
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            found = os.fstat(file.fileno())
            _check_ordinary(path, found.st_mode)
            if found.st_size > most:
                raise ProofError(f"{path.name}: found {found.st_size:,} bytes, expected at most {most:,}")
            yield file
    except OSError as error:
        raise ProofError(f"{path.name} cannot be read: {error.strerror}") from error


def _check_ordinary(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise ProofError(f"{path.name}: found {kind}, expected an ordinary file in the folder itself")
