"""Several runs beside each other: those that differ by their seed alone are one group."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.charts.lines import Chart
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.figures import key_figures
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, percent, seconds_text, whole
from bfl.dashboard.pages.views.tables import Cell, Column, Table
from bfl.dashboard.pages.views.words import STATUS
from bfl.dashboard.report.comparing import Group, comparison_charts, groups_of


@dataclass(frozen=True)
class CompareView:
    """Runs that are compared, and those that could be."""

    choices: tuple[tuple[str, bool], ...]
    """Name, and whether it is compared."""
    charts: tuple[Chart, ...]
    groups: Table
    runs: Table


def compare_view(snapshots: Sequence[Snapshot], names: Sequence[str], to: Links) -> CompareView:
    """`names`: of all runs that this server shows."""
    compared, groups = {each.about.name for each in snapshots}, groups_of(snapshots)
    return CompareView(
        choices=tuple((name, name in compared) for name in names),
        charts=tuple(comparison_charts(groups)),
        groups=_groups(groups),
        runs=_runs(snapshots, to),
    )


def _groups(groups: Sequence[Group]) -> Table:
    columns = (
        Column("group", "wide"), Column("runs", "num"), Column("seeds", "num"), Column("rounds", "num"),
        Column("accuracy", "num", "mean of the last five evaluations, over the runs"),
        Column("±", "num", "standard deviation over the runs"),
        Column("latency", "num", "paper's model, mean of all rounds"), Column("offences", "num"),
        Column("refused", "num"),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(each.name),
            Cell(whole(len(each.runs)), title=", ".join(each.runs)),
            Cell(", ".join(map(str, each.seeds)) or UNKNOWN),
            Cell(whole(each.rounds)),
            Cell(UNKNOWN if each.accuracy is None else f"{each.accuracy:.2f} %"),
            Cell("" if each.accuracy_spread is None else f"{each.accuracy_spread:.2f}"),
            Cell(seconds_text(each.latency)),
            Cell(whole(each.offences), tone="bad" if each.offences else ""),
            Cell(whole(each.refused)),
        )
        for each in groups
    )
    return Table("groups of runs", columns, rows)


def _runs(snapshots: Sequence[Snapshot], to: Links) -> Table:
    columns = (
        Column("run"), Column("status"), Column("scheme"), Column("data"), Column("partition"), Column("planner"),
        Column("seed", "num"), Column("servers", "num"), Column("devices", "num"), Column("rounds", "num"),
        Column("accuracy", "num", "mean of the last five evaluations"), Column("latency", "num", "of the last round"),
        Column("offences", "num"),
    )  # fmt: skip
    return Table("runs", columns, tuple(_run(each, to) for each in snapshots))


def _run(snapshot: Snapshot, to: Links) -> tuple[Cell, ...]:
    about, found = snapshot.about, key_figures(snapshot)
    accuracy = UNKNOWN if found.accuracy_summary is None else f"{percent(found.accuracy_summary)} %"
    return (
        Cell(about.name, Links(about.name if to.run else "")("/")),
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
    )
