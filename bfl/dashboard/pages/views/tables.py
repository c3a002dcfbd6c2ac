"""Tables: every page has some, all are drawn by one macro, and none is longer than a page of rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, short_hash

ROWS = 50
MOST_TEXT = 120
COLOURS = 8


@dataclass(frozen=True)
class Cell:
    """A value. All of it may come from a stranger."""

    text: str
    href: str = ""
    mark: str = ""
    """Before the text: "server" with `server`, "device", "home"; empty for none."""
    server: int | None = None
    """Whose colour the mark has."""
    share: float | None = None
    """Of a bar, from 0 to 1."""
    tone: str = ""
    """ "bad" for offences alone, "good" for what fits, "warn", "muted"."""
    title: str = ""
    rest: "tuple[Cell, ...]" = ()
    """More of the same cell."""


@dataclass(frozen=True)
class Column:
    """`kind`: "num" to the right, "mono", "wide" takes what room is left, "" else."""

    label: str
    kind: str = ""
    title: str = ""


@dataclass(frozen=True)
class Pager:
    """Which rows of how many; links are empty at the ends."""

    told: str
    previous: str = ""
    next: str = ""


@dataclass(frozen=True)
class Table:
    """Rows have as many cells as there are columns."""

    name: str
    """For its place on the page, and for screen readers."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    empty: str = "nothing yet"
    pager: Pager | None = None


@dataclass(frozen=True)
class Slice:
    """A page of a list."""

    number: int
    first: int
    """Index of the first entry."""
    end: int
    total: int

    def pager(self, to: Links, path: str, **query: str | int) -> Pager:
        """Links to the pages beside this one."""
        if not self.total:
            return Pager("")
        told = f"{self.first + 1:,} to {self.end:,} of {self.total:,}"
        back = to(path, **query, page=self.number - 1) if self.first else ""
        return Pager(told, back, to(path, **query, page=self.number + 1) if self.end < self.total else "")


def slice_of(total: int, page: int, rows: int = ROWS) -> Slice:
    """Pages are numbered from 1; one behind the last is the last."""
    number = max(1, min(page, -(-total // rows)))
    return Slice(number, (number - 1) * rows, min(total, number * rows), total)


def who(name: str, to: Links, tone: str = "") -> Cell:
    """A participant with its sign; an address without a name is cut."""
    role, _, number = name.partition(" ")
    if not to.who(name):
        return Cell(short_hash(name) if name.startswith("0x") else name or UNKNOWN, title=name, tone=tone)
    server = int(number) if role == "server" else None
    return Cell(name, to.who(name), role, server, tone=tone)


def server(number: int | None, to: Links) -> Cell:
    """A server by number; unknown below zero."""
    return Cell(UNKNOWN) if number is None or number < 0 else who(f"server {number}", to)


def device(number: int | None, to: Links) -> Cell:
    """A device by number."""
    return Cell(UNKNOWN) if number is None or number < 0 else who(f"device {number}", to)


def several(names: Sequence[str], to: Links, most: int = 12) -> Cell:
    """Some participants in one cell."""
    cells = [who(name, to) for name in names[:most]]
    if len(names) > most:
        cells.append(Cell(f"and {len(names) - most:,} more", tone="muted"))
    return Cell("", rest=tuple(cells)) if cells else Cell(UNKNOWN, tone="muted")


def hash_cell(text: str, href: str = "") -> Cell:
    """A hash, cut."""
    return Cell(short_hash(text) or UNKNOWN, href, "hash", title=text)


def bar(value: int, most: int) -> Cell:
    """A count with a bar beside it."""
    return Cell(f"{value:,}", share=value / most if most else 0.0)
