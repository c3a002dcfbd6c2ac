"""Settings of simulated devices as texts: how fast they are, and in which rounds they are there. No numpy here."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from policy.errors import PolicyError

MOST_TEXT = 32_000
"""Characters of a trace: it is written into the founding block"""
_LOGNORMAL = "lognormal:"
SLOWEST, FASTEST, _WIDEST = 1e-3, 1e3, 3.0
_SPAN = re.compile(r"(\d{1,9})(-(\d{0,9}))?(/(\d{1,9}))?")
_DEVICE = re.compile(r"\d{1,9}")
_COLUMNS = ("device", "from", "to", "every")


@dataclass(frozen=True)
class Span:
    """Rounds in which a device is there; again and again where it has a period."""

    first: int
    last: int | None
    """None: to the end."""
    every: int = 0
    """Rounds of a period; 0 without one."""

    def has(self, round_: int) -> bool:
        """Whether a round is in it."""
        since = round_ - self.first
        if since < 0 or self.last is None:
            return since >= 0
        return (since % self.every if self.every else since) <= self.last - self.first

    def __str__(self) -> str:
        to = "" if self.last is None else self.last
        told = str(self.first) if self.first == self.last else f"{self.first}-{to}"
        return f"{told}/{self.every}" if self.every else told


Trace = Mapping[int, Sequence[Span]]
"""When devices are there; those that are not in it always are"""


def read_trace(text: str) -> Trace:
    """The trace of a text such as `0:1-10,31-40;3:5-8/20`; `PolicyError` says what is wrong with it."""
    if len(text) > MOST_TEXT:
        raise PolicyError(f"found a trace of {len(text):,} characters, expected at most {MOST_TEXT:,}")
    trace: dict[int, list[Span]] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        device, colon, spans = part.partition(":")
        if not colon or not _DEVICE.fullmatch(device.strip()) or not spans.strip():
            raise PolicyError(
                f"found {part!r:.60}, expected DEVICE:FROM-TO such as 3:5-8, or 3:5-8/20 (every 20 rounds)"
            )
        trace.setdefault(int(device), []).extend(_span(each.strip()) for each in spans.split(","))
    return trace


def _span(text: str) -> Span:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise PolicyError(
            f"found {text!r:.60}, expected rounds such as 5-8, 5- (to the end) or 5-8/20 (every 20 rounds)"
        )
    first, last = int(found[1]), int(found[3]) if found[3] else None if found[2] else int(found[1])
    return _checked(first, last, int(found[5] or 0), text)


def _checked(first: int, last: int | None, every: int, said: str) -> Span:
    if first < 1 or (last is not None and last < first):
        raise PolicyError(f"found rounds {said!r:.60}, expected them from 1 on, and the last not before the first")
    if every and (last is None or every <= last - first):
        raise PolicyError(f"found rounds {said!r:.60}, expected a period longer than the rounds in it")
    return Span(first, last, every)


def trace_of_csv(text: str, name: str) -> str:
    """The rows device,from,to[,every] of a file as the text that a run records; `to` may be empty: to the end."""
    try:
        read = list(csv.reader(StringIO(text.removeprefix("\ufeff"), newline="")))
    except csv.Error as error:
        raise PolicyError(f"{name}: is no CSV ({error}), expected device,from,to[,every] as numbers") from error
    rows = [[cell.strip() for cell in row] for row in read if any(cell.strip() for cell in row)]
    if rows and rows[0][:3] == list(_COLUMNS[:3]):
        rows = rows[1:]
    spans: dict[int, list[Span]] = {}
    for number, row in enumerate(rows, 1):
        cells = [*row, ""][: len(_COLUMNS)] if len(row) == 3 else row
        is_whole = [cell.isdecimal() and len(cell) < 10 for cell in cells]
        if (
            len(cells) != 4
            or not all(is_whole[:2])
            or any(cell and not ok for cell, ok in zip(cells, is_whole, strict=True))
        ):
            raise PolicyError(
                f"{name}, row {number}: found {','.join(row)!r:.60}, expected device,from,to[,every] as numbers"
            )
        device, first, last, every = (int(cell) if cell else None for cell in cells)
        spans.setdefault(device or 0, []).append(_checked(first or 0, last, every or 0, ",".join(row)))
    return ";".join(f"{n}:{','.join(map(str, found))}" for n, found in sorted(spans.items()))


def read_speeds(text: str) -> tuple[float, ...] | float:
    """Factors that are dealt to the devices in turn, or the sigma of a log-normal one; () where all are alike."""
    try:
        if text.startswith(_LOGNORMAL):
            sigma = float(text.removeprefix(_LOGNORMAL))
            if not 0 <= sigma <= _WIDEST:
                raise ValueError
            return sigma
        factors = tuple(float(part) for part in text.split(",") if part.strip())
        if not all(SLOWEST <= factor <= FASTEST for factor in factors):
            raise ValueError
    except ValueError:
        raise PolicyError(
            f"found {text!r:.60}, expected factors of the CPU such as 1,1,0.1 ({SLOWEST:g} to {FASTEST:g}, dealt in "
            f"turn), or {_LOGNORMAL}SIGMA with at most {_WIDEST:g}"
        ) from None
    return factors
