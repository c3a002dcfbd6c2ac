"""Files that are written whole or not at all. Standard library only: every package writes so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write, which takes its place in one step: a reader sees the old one or the new one.

    A process that is killed meanwhile leaves the old one, and the part beside it.
    """
    part = path.with_name(f"{path.name}.part")
    yield part
    part.replace(path)
