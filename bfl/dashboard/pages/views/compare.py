"""Several runs beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.figures import key_figures
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, percent, seconds_text, whole
from bfl.dashboard.pages.views.tables import Cell, Column, Table
from bfl.dashboard.pages.views.words import STATUS


@dataclass(frozen=True)
class CompareView:
    """Runs that are compared, and those that could be."""

    choices: tuple[tuple[str, bool, int], ...]
    """Name, whether it is compared, its colour."""
    table: Table
    names: tuple[str, ...]
    last: int


def compare_view(snapshots: Sequence[Snapshot], names: Sequence[str]) -> CompareView:
    """`names`: of all runs that this server shows."""
    compared = [each.about.name for each in snapshots]
    columns = (
        Column("run"), Column("status"), Column("scheme"), Column("data"), Column("partition"), Column("planner"),
        Column("seed", "num"), Column("servers", "num"), Column("devices", "num"), Column("rounds", "num"),
        Column("accuracy", "num", "mean of the last five evaluations"), Column("latency", "num", "last round"),
        Column("offences", "num"), Column("refused", "num"),
    )  # fmt: skip
    return CompareView(
        choices=tuple((name, name in compared, compared.index(name) if name in compared else -1) for name in names),
        table=Table("runs", columns, tuple(_row(each) for each in snapshots)),
        names=tuple(compared),
        last=max((len(each.rounds) for each in snapshots), default=0),
    )


def _row(snapshot: Snapshot) -> tuple[Cell, ...]:
    about, found = snapshot.about, key_figures(snapshot)
    accuracy = UNKNOWN if found.accuracy_summary is None else f"{percent(found.accuracy_summary)} %"
    return (
        Cell(about.name, Links(about.name)("/")),
        Cell(STATUS[snapshot.status][0]),
        Cell(about.scheme or UNKNOWN),
        Cell(about.dataset or UNKNOWN),
        Cell(about.partition or UNKNOWN),
        Cell(about.planner or UNKNOWN),
        Cell(UNKNOWN if about.seed is None else str(about.seed)),
        Cell(whole(about.edges)),
        Cell(whole(about.devices)),
        Cell(whole(len(snapshot.rounds))),
        Cell(accuracy),
        Cell(seconds_text(found.latency_paper)),
        Cell(whole(found.offences), tone="bad" if found.offences else ""),
        Cell(whole(found.refused)),
    )
