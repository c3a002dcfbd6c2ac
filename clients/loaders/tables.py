"""Tables: `--dataset csv --data-dir wine.csv --label-column quality`: a file, or a folder with train.csv and test.csv.

Every column but the label (and the group) is a feature and must be numbers. Features are standardised by mean and
standard deviation of the lines to train on, in double precision, line after line: the same file gives the same bytes.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from numpy.typing import NDArray

from clients.data import Dataset, Samples
from clients.errors import DataError
from clients.loaders.splits import class_names, kept_for_test, numbered
from clients.parameters import DataParams, did_you_mean

MOST_BYTES, MOST_COLUMNS, MOST_LINE = 2 << 30, 100_000, 8 << 20
_LARGEST = 1e30
"""Of a standardised number: a model computes in single precision"""
Features = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Where in a line the label, the group and the features are."""

    names: tuple[str, ...]
    label: int
    group: int | None
    features: tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """The lines of one file."""

    features: Features  # (lines, columns)
    labels: list[str]
    groups: list[str]
    columns: Columns

    def __len__(self) -> int:
        return len(self.labels)


def csv_file(folder: Path | None, seed: int, settings: DataParams) -> Dataset:
    """A table of numbers with a column of labels, from the file or folder of --data-dir."""
    if folder is None:
        raise DataError("dataset csv: found no --data-dir, expected a file: --dataset csv --data-dir FILE.csv")
    if folder.is_dir():
        train, test = (read_table(folder / name, settings) for name in ("train.csv", "test.csv"))
        if train.columns.names != test.columns.names:
            raise DataError(f"{folder / 'test.csv'}: its columns are not those of train.csv; give both the same header")
    else:
        train, test = read_table(folder, settings), None
    where = str(folder)
    names = class_names(train.labels + (test.labels if test else []), settings, where)
    labels = numbered(train.labels, names)
    column = train.columns.names[train.columns.label]
    source = f"{where}, label column {column}, {len(train.columns.features)} features, classes {', '.join(names):.200}"
    if test is not None:
        features, groups = train.features, train.groups
        tested, tested_labels = test.features, numbered(test.labels, names)
    else:
        is_test = kept_for_test(labels, names, seed, where)
        features, tested, tested_labels = train.features[~is_test], train.features[is_test], labels[is_test]
        labels, groups = labels[~is_test], [g for g, out in zip(train.groups, is_test, strict=False) if not out]
    mean, std = _finite_scale(features, train.columns, where)
    tested = (tested - mean) / std
    if not (abs(tested) < _LARGEST).all():
        raise DataError(
            f"{where}: found numbers to test with that are {_LARGEST:g} times as large as those to train on"
        )
    return Dataset(
        name="csv",
        train=_samples((features - mean) / std, labels),
        test=_samples(tested, tested_labels),
        classes=len(names),
        source=source,
        labels_per_device=min(2, len(names)),
        groups=np.unique(groups, return_inverse=True)[1].astype(np.int64) if groups else None,
    )


def _samples(features: Features, labels: NDArray[np.int64]) -> Samples:
    return Samples(torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels))


def _finite_scale(features: Features, columns: Columns, where: str) -> tuple[Features, Features]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = scale_of(features)
    wrong = np.flatnonzero(~(np.isfinite(mean) & np.isfinite(std)))
    if len(wrong):
        name = columns.names[columns.features[wrong[0]]]
        raise DataError(
            f"{where}, column {name!r:.80}: found numbers that are too large to be squared, expected some below 1e150; "
            "scale it, or leave it out with --drop-columns"
        )
    return mean, std


def scale_of(features: Features) -> tuple[Features, Features]:
    """Mean and standard deviation of each column; 1 for one that never changes."""
    mean = features.sum(0) / len(features)
    std = np.sqrt(((features - mean) ** 2).sum(0) / len(features))
    return mean, np.where(std > 1e-12 * np.maximum(1.0, abs(mean)), std, 1.0)


def read_table(path: Path, settings: DataParams) -> Table:
    """The lines of a file; `DataError` names the line and the column of what is no number."""
    lines = _lines(path)
    try:
        number, first = next(lines)
    except StopIteration:
        raise DataError(f"{path}: found no lines, expected a table with a header") from None
    has_header = _is_header(first) if settings.header == "auto" else settings.header == "yes"
    names = [name.strip() for name in first] if has_header else [str(n + 1) for n in range(len(first))]
    columns = _columns(names, settings, path)
    rows: list[list[float]] = []
    labels: list[str] = []
    groups: list[str] = []

    def take(number: int, line: Sequence[str]) -> None:
        if len(line) != len(names):
            raise DataError(f"{path}, line {number}: found {len(line)} columns, expected {len(names)}")
        rows.append(_numbers(line, columns, path, number))
        labels.append(_word(line, columns.label, columns, path, number))
        if columns.group is not None:
            groups.append(_word(line, columns.group, columns, path, number))

    if not has_header:
        take(number, first)
    for number, line in lines:
        take(number, line)
    if not rows:
        raise DataError(f"{path}: found a header and no lines, expected samples")
    return Table(np.array(rows, dtype=np.float64), labels, groups, columns)


@dataclass
class _BoundedLines:
    """The lines of a file for `csv`, which holds a whole line, and all that one with quotes goes on over."""

    path: Path
    file: TextIO
    room: int = MOST_LINE

    def __iter__(self) -> "_BoundedLines":
        return self

    def __next__(self) -> str:
        line = self.file.readline(self.room + 1)
        self.room -= len(line)
        if self.room < 0:
            raise DataError(f"{self.path}: found a line of more than {MOST_LINE:,} characters, expected a table")
        if not line:
            raise StopIteration
        return line


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of every line that is not empty."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{path}: found {size:,} bytes, expected at most {MOST_BYTES:,}; take fewer lines")
        with path.open(encoding="utf-8-sig", newline="") as file:
            bounded = _BoundedLines(path, file)
            reader = csv.reader(bounded, strict=True)
            for line in reader:
                bounded.room = MOST_LINE
                if len(line) > MOST_COLUMNS:
                    raise DataError(f"{path}, line {reader.line_num}: found more than {MOST_COLUMNS:,} columns")
                if line and any(cell.strip() for cell in line):
                    yield reader.line_num, line
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); expected a file, or a folder with train.csv and test.csv"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: is no CSV in UTF-8 ({error}); save it anew as CSV with commas") from error


def _is_header(first: Sequence[str]) -> bool:
    return not any(_is_number(cell) for cell in first)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _columns(names: Sequence[str], settings: DataParams, path: Path) -> Columns:
    if len(set(names)) < len(names):
        double = Counter(names).most_common(1)[0][0]
        raise DataError(f"{path}: found two columns called {double!r:.80}, expected a name for each")
    wanted = settings.label_column or ("label" if "label" in names else names[-1])
    label = _find(wanted, "label-column", names, path)
    group = _find(settings.group_column, "group-column", names, path) if settings.group_column else None
    left_out = [each.strip() for each in settings.drop_columns.split(",") if each.strip()]
    other = {label, group, *(_find(name, "drop-columns", names, path) for name in left_out)}
    features = tuple(n for n in range(len(names)) if n not in other)
    if not features:
        raise DataError(
            f"{path}: found {len(names)} columns and no feature beside the label, expected some; is it separated by "
            "commas?"
        )
    return Columns(tuple(names), label, group, features)


def _find(name: str, key: str, names: Sequence[str], path: Path) -> int:
    if name in names:
        return names.index(name)
    if name.isdecimal() and 1 <= int(name) <= len(names):
        return int(name) - 1
    shown = ", ".join(names[:20])
    raise DataError(f'{path}: --{key} "{name}": found columns {shown}{did_you_mean(name, names)}')


def _numbers(line: Sequence[str], columns: Columns, path: Path, number: int) -> list[float]:
    try:
        values = [float(line[n]) for n in columns.features]
    except ValueError:
        values = [math.nan]
    if all(map(math.isfinite, values)) and not any("_" in line[n] for n in columns.features):
        return values
    column = next(n for n in columns.features if not _is_number(line[n]))
    cell, name = line[column].strip(), columns.names[column]
    where = f"{path}, line {number}, column {name!r:.80}"
    if cell.lower() in ("", "na", "n/a", "nan", "null", "none", "?", "-"):
        raise DataError(
            f"{where}: found {cell!r}, a missing value, expected a number; fill it in or remove the line "
            f"(pandas: fillna, dropna), or leave the column out: --drop-columns {name}"
        )
    if cell.lower().lstrip("+-") in ("inf", "infinity"):
        raise DataError(
            f"{where}: found {cell!r:.80}, expected a finite number; write one, remove the line, or leave the column "
            f"out: --drop-columns {name}"
        )
    raise DataError(
        f"{where}: found {cell!r:.80}, expected a number; make a column of numbers for each category "
        f"(pandas.get_dummies does), or leave it out: --drop-columns {name}"
    )


def _word(line: Sequence[str], column: int, columns: Columns, path: Path, number: int) -> str:
    word = line[column].strip()
    if not word:
        raise DataError(f"{path}, line {number}, column {columns.names[column]!r:.80}: found nothing, expected a label")
    return word
