"""What processes take of a machine, as the kernel says, and whether that grows."""

import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
_FLAT = 0.02
"""What grows by less than this share of itself in a third of the time is flat"""
ONE = 1.0
"""So many files or threads are none: a connection may be open in the moment of a look"""


@dataclass(frozen=True)
class Taken:
    """What a process and whatever it has started in its session take."""

    resident_mb: float = 0.0
    files: float = 0.0
    threads: float = 0.0
    cpu_s: float = 0.0

    def __add__(self, other: "Taken") -> "Taken":
        return Taken(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def taken_by(sessions: Iterable[int]) -> dict[int, Taken]:
    """By the id of a session; nothing by one that has ended."""
    found = dict.fromkeys(sessions, Taken())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[3]) in found and fields[0] not in "ZX":
                found[int(fields[3])] += _taken(entry, fields)
        except OSError:  # it has just ended
            continue
    return found


def _taken(entry: Path, fields: Sequence[str]) -> Taken:
    pages = int((entry / "statm").read_text(encoding="utf-8").split()[1])
    cpu_s = (int(fields[11]) + int(fields[12])) * _TICK_S
    return Taken(pages * _PAGE_MB, sum(1 for _ in (entry / "fd").iterdir()), int(fields[17]), cpu_s)


def folder_mb(folder: Path) -> float:
    """What the files of a folder take."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # a journal comes and goes
            continue
    return total / 1e6


@dataclass(frozen=True)
class Growth:
    """How a measure changed from round to round, in the first and in the last third of the rounds."""

    first: float
    """Per round."""
    last: float
    at_end: float
    rounds: float
    """Of a third."""
    slack: float = 0.0
    """What may be added in a third in any case."""

    @property
    def is_flat(self) -> bool:
        """Whether the last third added next to nothing, or took away."""
        return self.last * self.rounds <= max(_FLAT * abs(self.at_end), self.slack, 1e-9)

    @property
    def is_steady(self) -> bool:
        """Whether each round of the last third added no more than one of the first: what keeps a chain must grow."""
        return self.last <= 1.1 * max(self.first, 0.0) or self.is_flat


def growth(rounds: Sequence[float], values: Sequence[float], slack: float = 0.0) -> Growth:
    """Slopes of the first and the last third of the samples, by least squares; each third has two at least."""
    third = max(2, len(rounds) // 3)
    if len(rounds) < 2:
        raise ValueError(f"found {len(rounds)} samples, expected two at least")
    first = statistics.linear_regression(rounds[:third], values[:third]).slope
    last = statistics.linear_regression(rounds[-third:], values[-third:]).slope
    return Growth(first, last, statistics.fmean(values[-third:]), rounds[-1] - rounds[-third], slack)
