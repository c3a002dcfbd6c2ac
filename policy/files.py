"""Files that are written whole or not at all, and read within bounds. Standard library only: every package does so."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write, which takes its place in one step: a reader sees the old one or the new one.

    A process that is killed meanwhile leaves the old one, and the part beside it.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)  # were it a link, its target would be written
    yield part
    part.replace(path)


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to fill, which nobody else can read and which takes its name in one step.

    An error removes it. What a process that was killed has left of it, the next one removes.
    """
    part = folder.absolute().with_name(f".{folder.absolute().name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    try:
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """A file's content; `OSError` with what was found where it is longer (Q4)."""
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"found more than {most_bytes:,} bytes, expected at most so many", str(path))
    return content


def read_bounded_text(path: Path, most_bytes: int) -> str:
    """The same as text."""
    return read_bounded(path, most_bytes).decode("utf-8")
