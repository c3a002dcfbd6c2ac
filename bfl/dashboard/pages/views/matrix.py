"""Who offloads where, device by round: what can be shown without a script, and what the script begins with."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.facts import ITSELF, RoundFact, Snapshot
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.network import FIRST_HATCHED, SERVER_COLOURS
from bfl.dashboard.pages.views.tables import Cell, Column, Table, who

MOST_ROUNDS, MOST_DEVICES = 60, 24
TABLE_ROUNDS, TABLE_DEVICES = 12, 50
_WIDE, _HIGH, _LEFT, _BELOW = 16, 11, 62, 16


@dataclass(frozen=True)
class Tiles:
    """All cells of one colour as one path."""

    name: str
    colour: int
    """-1: trains itself."""
    is_hatched: bool
    path: str


@dataclass(frozen=True)
class MatrixView:
    """The newest rounds of the first devices."""

    devices: int
    rounds: int
    width: int
    height: int
    tiles: tuple[Tiles, ...]
    winners: str
    rows: tuple[tuple[int, str], ...]
    """Place and label."""
    columns: tuple[tuple[int, str], ...]
    legend: tuple[tuple[str, int, bool], ...]
    """Label, colour, whether hatched."""
    part: str
    """What of it is drawn here; empty where it is all."""
    table: Table


def matrix_view(snapshot: Snapshot, to: Links) -> MatrixView:
    """Of the last rounds."""
    shown, devices = snapshot.rounds[-MOST_ROUNDS:], min(snapshot.about.devices, MOST_DEVICES)
    width, height = _LEFT + _WIDE * max(1, len(shown)), _HIGH * max(1, devices) + _BELOW
    is_all = devices == snapshot.about.devices and len(shown) == len(snapshot.rounds)
    return MatrixView(
        devices=snapshot.about.devices,
        rounds=len(snapshot.rounds),
        width=width,
        height=height,
        tiles=tuple(_tiles(shown, devices)),
        winners="".join(_diamond(column, fact, devices) for column, fact in enumerate(shown)),
        rows=tuple((row * _HIGH + 8, f"device {row}") for row in range(devices)),
        columns=tuple(_column_labels(shown)),
        legend=tuple(
            (f"server {each}", each % SERVER_COLOURS, each >= FIRST_HATCHED)
            for each in range(min(snapshot.about.edges, 24))
        ),
        part="" if is_all else f"the last {len(shown)} rounds of the first {devices} devices",
        table=_table(snapshot, to),
    )


def _tiles(shown: Sequence[RoundFact], devices: int) -> list[Tiles]:
    paths: dict[int, list[str]] = {}
    for column, fact in enumerate(shown):
        found = [] if fact.assignment is None else fact.assignment[:devices].tolist()
        for row, target in enumerate(found):
            x, y = _LEFT + column * _WIDE, row * _HIGH
            paths.setdefault(target, []).append(f"M{x} {y}h{_WIDE - 2}v{_HIGH - 2}h-{_WIDE - 2}z")
    return [
        Tiles(
            "itself" if target == ITSELF else f"server {target}",
            -1 if target == ITSELF else target % SERVER_COLOURS,
            target >= FIRST_HATCHED,
            "".join(path),
        )
        for target, path in sorted(paths.items())
    ]


def _diamond(column: int, fact: RoundFact, devices: int) -> str:
    if fact.winner is None or fact.winner >= devices:
        return ""
    x, y = _LEFT + column * _WIDE + (_WIDE - 2) // 2, fact.winner * _HIGH + 1
    return f"M{x} {y}l3.5 3.5l-3.5 3.5l-3.5 -3.5z"


def _column_labels(shown: Sequence[RoundFact]) -> list[tuple[int, str]]:
    return [
        (_LEFT + column * _WIDE + _WIDE // 2, str(fact.round))
        for column, fact in enumerate(shown)
        if fact.round % 10 == 0 or (fact.round == 1 and len(shown) > 4)
    ]


def _table(snapshot: Snapshot, to: Links) -> Table:
    """Numbers of servers; a dot where a device trains itself."""
    shown = snapshot.rounds[-TABLE_ROUNDS:]
    columns = (Column("device"), *(Column(str(each.round), "num") for each in shown))
    rows = tuple(
        (who(f"device {device}", to), *(_cell(each, device) for each in shown))
        for device in range(min(snapshot.about.devices, TABLE_DEVICES))
    )
    return Table("who offloads where", columns, rows if shown else ())


def _cell(fact: RoundFact, device: int) -> Cell:
    found = fact.assignment
    if found is None or device >= len(found):
        return Cell("?", title="not known")
    target = int(found[device])
    sign = " ◆" if fact.winner == device else ""
    title = "trains itself" if target == ITSELF else f"server {target}"
    return Cell(("·" if target == ITSELF else str(target)) + sign, title=title)
