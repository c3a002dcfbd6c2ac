"""What the runs came to: a JSON line each, so that a crash of the script loses none, and the tables made of them."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CALM = "no fault, since the founding"
"""The row of what a network was like before the first strike"""
_MORE_S = 2.0
"""The goal: a dead leader costs the deadline at which it is missed, and so much more"""


@dataclass(frozen=True)
class DeadLeader:
    """What a leader that died in a phase cost."""

    phase: str
    noticed_at: str
    """The deadline at which the others miss it."""
    deadline_s: float
    """That deadline, from the beginning of the attempt."""
    into_s: float
    """How long the attempt had run when it died."""
    cost_s: float
    """From the kill to the next final block, less a calm round."""

    @property
    def late_s(self) -> float:
        """What it cost beyond the wait for the deadline."""
        return self.cost_s - (self.deadline_s - self.into_s)


@dataclass(frozen=True)
class Run:
    """One strike, and what came of it."""

    row: str
    calm_s: float = 0.0
    """A round without a fault, on the same network."""
    seconds: float = 0.0
    """More than the same rounds take without a fault."""
    attempts: int = 0
    """Leaders that were passed over."""
    accused: int = 0
    lost: int = 0
    died: tuple[str, ...] = ()
    """Processes that ended without being told to."""
    stuck: str = ""
    """Why the network did not get over it; empty if it did."""
    missed: str = ""
    """Why the strike was not what the row is about; empty if it was."""
    leader: DeadLeader | None = None
    note: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Whether it is one of the row's runs."""
        return not self.missed


def append(path: Path, run: Run) -> None:
    """Add a run to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def read(paths: Iterable[Path]) -> list[Run]:
    """The runs in some files; a last line that a crash cut off is left out."""
    found = []
    for path in paths:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        found += [_run_of(json.loads(line)) for line in lines if line.endswith("\n")]
    return found


def _run_of(line: dict[str, Any]) -> Run:
    leader = None if line["leader"] is None else DeadLeader(**line["leader"])
    return Run(**{**line, "leader": leader, "died": tuple(line["died"])})


def done(runs: Sequence[Run], row: str) -> int:
    """How many runs of a row there are."""
    return sum(run.row == row and run.counts for run in runs)


def told(run: Run) -> str:
    """One run in a line."""
    if run.stuck:
        return f"STUCK: {run.stuck}"
    parts = [f"{run.seconds:.1f} s lost, {run.attempts} attempts, {run.accused} accused, {run.lost} blocks lost"]
    parts += [f"ended by themselves: {', '.join(run.died)}"] * bool(run.died)
    parts += [f"missed: {run.missed}"] * bool(run.missed)
    if run.leader is not None:
        parts.append(f"leader dead in {run.leader.phase}: {run.leader.cost_s:.1f} s, {run.leader.late_s:+.1f} s late")
    return "; ".join(parts)


def fault_table(runs: Sequence[Run], rows: Sequence[str]) -> str:
    """What each fault cost. Whoever is accused or lost counts in missed runs too."""
    lines = ["| fault | n | attempts lost | seconds lost, median (worst) | accused | blocks lost | stuck |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        of_row = [run for run in runs if run.row == row]
        counted = [run for run in of_row if run.counts]
        if not of_row:
            continue
        seconds = [run.seconds for run in counted if not run.stuck]
        lost = f"{statistics.median(seconds):.0f} ({max(seconds):.0f})" if seconds else "-"
        sums = [sum(run.accused for run in of_row), sum(run.lost for run in of_row), sum(map(_is_stuck, of_row))]
        cells = [len(counted), sum(run.attempts for run in counted), lost, *sums]
        lines.append(f"| {row} | {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", _bound(runs)])


def _is_stuck(run: Run) -> bool:
    return bool(run.stuck)


def _bound(runs: Sequence[Run]) -> str:
    """By the rule of three: n runs without an event bound its chance."""
    accused, count = sum(run.accused for run in runs), sum(run.row != CALM for run in runs)
    died = sum(len(run.died) for run in runs)
    ended = f"{died} processes ended by themselves."
    if accused or not count:
        return f"{accused} accusations in {count} faults; {ended}"
    return f"{count} faults and no accusation: the chance of one per fault is below {300 / count:.1f} % (95 %); {ended}"


def phase_table(runs: Sequence[Run], phases: Sequence[str]) -> str:
    """What a dead leader cost, by the phase it died in."""
    lines = ["| leader dead in | n | missed at the deadline of | that is, s | cost in s, median (worst) | goal |"]
    lines[0] += " beyond the deadline, median (worst) |"
    lines.append("|---|---|---|---|---|---|---|")
    for phase in phases:
        found = [run.leader for run in runs if run.leader is not None and run.leader.phase == phase and not run.stuck]
        if found:
            deadline_s = found[0].deadline_s
            costs, late = [each.cost_s for each in found], [each.late_s for each in found]
            cells = [phase, len(found), found[0].noticed_at, f"{deadline_s:g}", _middle(costs)]
            lines.append(f"| {' | '.join(map(str, cells))} | {deadline_s + _MORE_S:g} | {_middle(late)} |")
    return "\n".join(lines)


def _middle(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({max(values):.1f})"
