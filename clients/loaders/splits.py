"""What every loader of files needs: labels as numbers, and which samples are kept for the test."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clients.errors import DataError
from clients.parameters import DataParams
from policy.streams import Purpose, stream

TEST_PART = 5
"""One of so many samples of each class is for the test, where the files do not say"""
MOST_CLASSES = 1_000
_LONGEST_NUMBER = 40
"""Digits of a label that is a number; `int` refuses thousands of them"""


def class_names(found: Sequence[str], settings: DataParams, where: str) -> list[str]:
    """The classes in their order: as the settings name them, else all that were found, numbers by size."""
    names = [name.strip() for name in settings.class_names.split(",") if name.strip()]
    present = set(found)
    if not names:
        names = sorted(present, key=lambda name: (0, int(name), name) if _is_whole(name) else (1, 0, name))
    unknown = sorted(present - set(names))
    if unknown or len(set(names)) != len(names):
        raise DataError(
            f"{where}: found labels {', '.join(unknown[:5])}, expected those of --class-names {settings.class_names}"
        )
    if not 2 <= len(names) <= MOST_CLASSES:
        raise DataError(
            f"{where}: found {len(names):,} different labels, expected 2 to {MOST_CLASSES:,} classes; a number to "
            "predict must be put into classes first"
        )
    return names


def _is_whole(name: str) -> bool:
    return len(name) <= _LONGEST_NUMBER and name.removeprefix("-").isdecimal()


def numbered(found: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Each label as its place among the names."""
    places = {name: place for place, name in enumerate(names)}
    return np.array([places[label] for label in found], dtype=np.int64)


def kept_for_test(labels: NDArray[np.int64], names: Sequence[str], seed: int, where: str) -> NDArray[np.bool_]:
    """Which samples are for the test: a fifth of each class, at least one, drawn by the seed."""
    rng = stream(seed, Purpose.SPLIT)
    chosen = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        if len(of_class) < 2:
            raise DataError(
                f"{where}: found one sample of class {names[label]!r:.80}, expected at least two: one to train on, one "
                "to test with; is its label misspelt, or the first line a header (--header yes)?"
            )
        chosen[rng.permutation(of_class)[: max(1, len(of_class) // TEST_PART)]] = True
    return chosen
