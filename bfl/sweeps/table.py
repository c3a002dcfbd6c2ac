"""The one table of a sweep: a row per cell with mean and spread over its seeds; and a row per run, to compute on."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bfl.show.text import printable
from bfl.sweeps.folder import RunState, SweepFolder
from bfl.sweeps.plan import Cell, PlannedRun, SweepPlan
from policy.files import replacing

Summary = Mapping[str, Any]
_LARGEST = 1e100
"""Of a number in a summary: a file may say infinity, or a whole number that is no float"""
TABLE, TABLE_CSV, RUNS_CSV = "table.md", "table.csv", "runs.csv"


@dataclass(frozen=True)
class Measure:
    """A number of a run, from its summary."""

    name: str
    unit: str
    of: Callable[[Summary], float | None]
    digits: int = 2
    told: str = "always"
    """In tables for people: always, never, or somewhere: where some run has more than none; a CSV has all"""

    @property
    def title(self) -> str:
        """Its name with its unit."""
        return f"{self.name} {self.unit}".strip()


def _number(*keys: str, times: float = 1.0) -> Callable[[Summary], float | None]:
    def find(summary: Summary) -> float | None:
        found: Any = summary
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        is_number = isinstance(found, int | float) and not isinstance(found, bool) and -_LARGEST < found < _LARGEST
        return times * found if is_number else None

    return find


MEASURES = (
    Measure("accuracy", "%", _number("accuracy", times=100.0)),
    Measure("loss", "", _number("loss"), 4, "never"),
    Measure("T", "s", _number("latency", "paper", "T")),
    Measure("T_wall", "s", _number("latency", "paper", "T_wall")),
    Measure("T real", "s", _number("latency", "real", "T"), told="never"),
    Measure("T_wall real", "s", _number("latency", "real", "T_wall"), told="never"),
    Measure("offloading", "devices", _number("offloaded"), 1, "never"),
    Measure("offences", "", _number("offences"), 1, "somewhere"),
    Measure("refused", "", _number("refused"), 1, "somewhere"),
    Measure("time", "s/round", _number("seconds-per-round"), 3),
)
"""What a column can be; those that no run has are left out"""


@dataclass(frozen=True)
class Spread:
    """A measure over the seeds of a cell."""

    mean: float
    sd: float | None
    """Standard deviation of a sample; None of one run"""
    low: float
    high: float
    count: int

    @classmethod
    def over(cls, values: Sequence[float]) -> "Spread | None":
        """None where there are no values."""
        if not values:
            return None
        sd = stdev(values) if len(values) > 1 else None
        return cls(fmean(values), sd, min(values), max(values), len(values))

    def told(self, digits: int) -> str:
        """83.10 ± 0.42."""
        return f"{self.mean:,.{digits}f}" + ("" if self.sd is None else f" ± {self.sd:,.{digits}f}")


@dataclass(frozen=True)
class Row:
    """A cell in the table."""

    cell: Cell
    finished: int
    failed: int
    spreads: Mapping[str, Spread]
    """By the measure's name"""


@dataclass(frozen=True)
class SweepTable:
    """All cells, and all runs."""

    rows: tuple[Row, ...]
    runs: tuple[tuple[Cell, PlannedRun, RunState, str], ...]
    """With why it failed"""

    @property
    def measures(self) -> list[Measure]:
        """Those that some run has."""
        return [each for each in MEASURES if any(each.name in row.spreads for row in self.rows)]

    @property
    def told(self) -> list[Measure]:
        """Those in tables for people."""
        return [
            each for each in self.measures if each.told == "always" or (each.told == "somewhere" and self._has(each))
        ]

    def _has(self, measure: Measure) -> bool:
        return any(row.spreads[measure.name].high > 0 for row in self.rows if measure.name in row.spreads)

    @property
    def keys(self) -> list[str]:
        """The settings that set cells apart."""
        return list(self.rows[0].cell.own) if self.rows else []

    @property
    def failed(self) -> dict[str, list[str]]:
        """Names of the runs that did not come to their end, by why."""
        found: dict[str, list[str]] = {}
        for _, run, _, why in self.runs:
            if why:
                found.setdefault(why, []).append(run.name)
        return found

    def failures(self) -> list[str]:
        """The same, a line for each reason."""
        return [f"FAILED {_some(names)}: {printable(why.splitlines()[0])}" for why, names in self.failed.items()]


def make_table(plan: SweepPlan, folder: SweepFolder, failures: Mapping[str, str]) -> SweepTable:
    """From the runs' own summaries; `failures`: why, by the run's name."""
    runs = tuple((cell, run, folder.state(run), failures.get(run.name, "")) for cell in plan.cells for run in cell.runs)
    return SweepTable(tuple(_row(cell, [each for each in runs if each[0] is cell]) for cell in plan.cells), runs)


def _row(cell: Cell, runs: Sequence[tuple[Cell, PlannedRun, RunState, str]]) -> Row:
    summaries = [state.summary for _, _, state, _ in runs if state.state == "finished"]
    found = {
        each.name: Spread.over([value for summary in summaries if (value := each.of(summary)) is not None])
        for each in MEASURES
    }
    spreads = {name: spread for name, spread in found.items() if spread is not None}
    return Row(cell, len(summaries), sum(bool(why) for *_, why in runs), spreads)


def heads(table: SweepTable) -> list[str]:
    """The columns of the table for people."""
    return [*table.keys, "runs", *(each.title for each in table.told)]


def cells_of(table: SweepTable, row: Row) -> list[str]:
    """A row of it."""
    failed = f", {row.failed} failed" if row.failed else ""
    spreads = [(row.spreads.get(each.name), each.digits) for each in table.told]
    numbers = ["-" if spread is None else spread.told(digits) for spread, digits in spreads]
    return [
        *(printable(row.cell.own[key]) or "none" for key in table.keys),
        f"{row.finished}/{len(row.cell.runs)}{failed}",
        *numbers,
    ]


_LEGEND = (
    "Mean ± standard deviation over the seeds. Accuracy of a run: mean of its last five evaluations. "
    "T, T_wall: simulated seconds of a round as the paper counts them, over all devices and on a clock."
)


def markdown(table: SweepTable) -> str:
    """The table with what it means."""
    columns, count = heads(table), len(table.keys)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * count + "---:|" * (len(columns) - count)]
    rows = [[_in_markdown(each) for each in cells_of(table, row)] for row in table.rows]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", _LEGEND]
    lines += [""] * bool(table.failed) + [f"- {_in_markdown(line)}" for line in table.failures()]
    return "\n".join(lines) + "\n"


def _in_markdown(text: str) -> str:
    """What a file says is no table and no HTML of ours."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def write_tables(table: SweepTable, folder: Path) -> list[Path]:
    """table.md for people, table.csv with a row per cell, runs.csv with a row per run."""
    with replacing(folder / TABLE) as part:
        part.write_text(markdown(table), encoding="utf-8")
    _write_csv(folder / TABLE_CSV, _cell_rows(table))
    _write_csv(folder / RUNS_CSV, _run_rows(table))
    return [folder / name for name in (TABLE, TABLE_CSV, RUNS_CSV)]


def _cell_rows(table: SweepTable) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for row in table.rows:
        content: dict[str, object] = {**row.cell.own, "runs": len(row.cell.runs), "finished": row.finished}
        for each in table.measures:
            spread = row.spreads.get(each.name)
            values = (None,) * 4 if spread is None else (spread.mean, spread.sd, spread.low, spread.high)
            content |= {f"{each.title} {what}": value for what, value in zip(_SPREAD, values, strict=True)}
        rows.append(content)
    return rows


_SPREAD = ("mean", "sd", "low", "high")


def _run_rows(table: SweepTable) -> list[dict[str, object]]:
    return [
        {**cell.own, "seed": run.seed, "status": "failed" if why else state.state, "rounds": state.rounds}
        | {each.title: each.of(state.summary) for each in table.measures}
        | {"head": state.summary.get("head", ""), "folder": run.name}
        for cell, run, state, why in table.runs
    ]


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
