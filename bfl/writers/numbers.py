"""What all writers write of a round, and what they call the run."""

from collections.abc import Mapping
from pathlib import Path

from bfl.errors import BflError


def numbers_of(row: Mapping[str, object]) -> dict[str, float]:
    """The numbers of a flat row, without its round; what was not measured is left out."""
    return {
        name: float(value)
        for name, value in row.items()
        if name != "round" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def name_of(folder: Path) -> str:
    """What a run is called elsewhere; of a sweep with its cell's name."""
    return f"{folder.parent.name},{folder.name}" if folder.name.startswith("seed=") else folder.name


def missing(package: str, extra: str) -> BflError:
    """A package that a writer needs and this machine has not."""
    return BflError(f"{package} is not installed; get it with: pip install '.[{extra}]' (in a clone of bfl)")
