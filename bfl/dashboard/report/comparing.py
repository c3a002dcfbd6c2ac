"""Several runs beside each other: those that differ by their seed alone are one group, with mean and band."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from bfl.dashboard.charts.lines import Chart, Line
from bfl.dashboard.facts import RoundFact, Snapshot
from bfl.dashboard.index.figures import key_figures

_NOT_TOLD = {
    "seed",
    "out",
    "data-dir",
    "threads",
    "engine",
    "chunk",
    "rounds",
    "keep-payloads",
    "nodes",
    "evaluate-every",
}
"""Settings that make no other experiment"""
_SPEAKING = ("scheme", "partition", "dataset", "planner")
"""Settings whose values say what they are, beside others"""
Measure = Callable[[RoundFact], float | None]


def _accuracy(fact: RoundFact) -> float | None:
    return None if fact.accuracy is None else 100 * fact.accuracy


MEASURES: dict[str, tuple[str, Measure]] = {
    "accuracy": ("%", _accuracy),
    "loss": ("", lambda fact: fact.loss),
    "latency": ("s", lambda fact: fact.latency.get("paper", {}).get("T")),
}
"""What is compared: by name, its unit and where it comes from"""


@dataclass(frozen=True)
class Point:
    """A round of a group."""

    round: int
    mean: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Group:
    """Runs of one experiment."""

    name: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    curves: dict[str, list[Point]]
    rounds: int
    accuracy: float | None
    """Mean of the runs' means of their last five evaluations, in percent."""
    accuracy_spread: float | None
    """Standard deviation of those, as of a sample; None of one run."""
    latency: float | None
    offences: int
    refused: int


def groups_of(snapshots: Sequence[Snapshot]) -> list[Group]:
    """In the order of their first runs."""
    settings = [_settings(each) for each in snapshots]
    keys = sorted({key for each in settings for key in each if len({other.get(key) for other in settings}) > 1})
    found: dict[tuple[str | None, ...], list[Snapshot]] = {}
    for each, known in zip(snapshots, settings, strict=True):
        found.setdefault(tuple(known.get(key) for key in keys), []).append(each)
    return [_group(_name(keys, values, members), members) for values, members in found.items()]


def _settings(snapshot: Snapshot) -> dict[str, str]:
    about = snapshot.about
    own = {"scheme": about.scheme, "dataset": about.dataset, "partition": about.partition, "planner": about.planner,
           "devices": str(about.devices), "edges": str(about.edges)}  # fmt: skip
    return own | {key: str(value) for key, value in about.settings.items() if key not in _NOT_TOLD}


def _name(keys: Sequence[str], values: Sequence[str | None], members: Sequence[Snapshot]) -> str:
    """What sets it apart; its run's name where nothing does."""
    of_key = dict(zip(keys, values, strict=True))
    bare = [str(of_key[key]) for key in _SPEAKING if of_key.get(key)] if len(keys) > 1 else []
    rest = [f"{key} {value or 'none'}" for key, value in of_key.items() if not (bare and value and key in _SPEAKING)]
    told = ", ".join((*bare, *rest))
    return told or (members[0].about.name if len(members) == 1 else "all runs")


def _group(name: str, members: Sequence[Snapshot]) -> Group:
    figures = [key_figures(each) for each in members]
    last = [100 * each.accuracy_summary for each in figures if each.accuracy_summary is not None]
    latency = [value for each in members for fact in each.rounds if (value := MEASURES["latency"][1](fact)) is not None]
    return Group(
        name=name,
        runs=tuple(each.about.name for each in members),
        seeds=tuple(each.about.seed for each in members if each.about.seed is not None),
        curves={measure: _curve(members, of) for measure, (_, of) in MEASURES.items()},
        rounds=max((len(each.rounds) for each in members), default=0),
        accuracy=fmean(last) if last else None,
        accuracy_spread=stdev(last) if len(last) > 1 else None,
        latency=fmean(latency) if latency else None,
        offences=sum(each.offences for each in figures),
        refused=sum(each.refused for each in figures),
    )


def _curve(members: Sequence[Snapshot], of: Measure) -> list[Point]:
    found: dict[int, list[float]] = {}
    for each in members:
        for fact in each.rounds:
            if (value := of(fact)) is not None:
                found.setdefault(fact.round, []).append(value)
    return [Point(k, fmean(values), min(values), max(values), len(values)) for k, values in sorted(found.items())]


def comparison_charts(groups: Sequence[Group]) -> list[Chart]:
    """A chart for each measure that somebody has; a band from the lowest to the highest of a group's runs."""
    charts = []
    for measure, (unit, _) in MEASURES.items():
        lines = [
            Line(
                each.name,
                [(float(point.round), point.mean) for point in each.curves[measure]],
                spread=[(float(p.round), p.low, p.high) for p in each.curves[measure]] if len(each.runs) > 1 else (),
            )
            for each in groups
            if each.curves[measure]
        ]
        if lines:
            told = f"mean over the runs of each group; the band goes from the lowest to the highest of them: {measure}"
            charts.append(Chart(measure, told, unit, lines))
    return charts


def write_csv(groups: Sequence[Group], path: Path) -> None:
    """A row for each measure, group and round."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("measure", "group", "round", "mean", "low", "high", "runs"))
        for each in groups:
            for measure, points in each.curves.items():
                rows.writerows((measure, each.name, p.round, p.mean, p.low, p.high, p.runs) for p in points)


_TOLD = {"accuracy": "test accuracy", "loss": "test loss", "latency": "T of a round, simulated, all devices"}
"""Measures as a picture names them"""


def _with_last(line: Line) -> str:
    """A line's name and where it ends."""
    found = [y for _, y in line.points if y is not None]
    return f"{line.name}  {found[-1]:.4g}" if found else line.name


def write_pictures(groups: Sequence[Group], folder: Path) -> list[Path]:
    """A PNG for each measure."""
    from bfl.show.plots import Banded, plot_banded

    paths = []
    for chart in comparison_charts(groups):
        lines = [Banded(_with_last(each), each.points, each.spread) for each in chart.lines]
        label = f"{_TOLD[chart.title]} ({chart.y_label})" if chart.y_label else _TOLD[chart.title]
        title = "mean over seeds; band: lowest to highest" if any(each.spread for each in lines) else ""
        paths.append(plot_banded(lines, "round", label, title, folder / f"{chart.title}.png"))
    return paths
