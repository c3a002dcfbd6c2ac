"""What a sweep will take, before it is made: time by rounds that were made, disk by the size of the models."""

import json
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from bfl.config import RunSettings
from bfl.sweeps.folder import METRICS, SweepFolder
from bfl.sweeps.orders import Order
from bfl.sweeps.plan import Cell, SweepPlan
from bfl.sweeps.processes import Processes

TRIED_ROUNDS = 2
MOST_TRYING_S = 60.0
_MOST_LINES, _MOST_LINE = 200, 1 << 20


@dataclass(frozen=True)
class CellCost:
    """Of the runs of a cell that are not finished."""

    cell: Cell
    runs: int
    rounds: int
    round_s: float | None
    """Of one round; None where nobody knows"""
    disk_bytes: int
    """Of their chains"""
    how: str
    """Where the time is from"""

    @property
    def seconds(self) -> float | None:
        """Of all its rounds, one after the other."""
        return None if self.round_s is None else self.rounds * self.round_s


def estimate(plan: SweepPlan, folder: SweepFolder) -> list[CellCost]:
    """Cells without a round are tried for two, in a folder that is thrown away, as long as that takes a minute."""
    end = time.monotonic() + MOST_TRYING_S
    costs = []
    for cell in plan.cells:
        states = [(run, folder.state(run)) for run in cell.runs]
        left = [(run, state) for run, state in states if state.state != "finished"]
        rounds = sum(run.settings.rounds.rounds - state.rounds for run, state in left)
        found = [s for run in cell.runs if (s := _recorded_s(folder.run_folder(run) / METRICS)) is not None]
        round_s, how = (fmean(found), "its rounds so far") if found else (None, "nobody has tried")
        if round_s is None and time.monotonic() < end:
            round_s, how = _tried_s(cell.runs[0].settings, end)
        costs.append(CellCost(cell, len(left), rounds, round_s, len(left) * _disk_bytes(cell.runs[0].settings), how))
    return costs


def _recorded_s(metrics: Path) -> float | None:
    """Of a round, after the first, which also warms up."""
    try:
        with metrics.open("rb") as file:
            lines = [json.loads(line) for line in islice(iter(lambda: file.readline(_MOST_LINE), b""), _MOST_LINES)]
        seconds = [sum(line["seconds"].values()) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # no run, or a damaged one
        return None
    return fmean(seconds[1:] or seconds) if seconds else None


def _tried_s(settings: RunSettings, end: float) -> tuple[float | None, str]:
    with TemporaryDirectory(prefix="bfl-sweep-") as name:
        folder = Path(name) / "run"
        with Processes([Order(settings.flat(), str(folder), str(Path(name) / "log"))], 1) as processes:
            while True:
                event = processes.events.get(timeout=max(1.0, MOST_TRYING_S + end - time.monotonic()))
                if event.status == "failed":
                    return None, f"FAILS: {event.why}"
                if event.status == "finished" or event.round == TRIED_ROUNDS:
                    break
        return _recorded_s(folder / METRICS), f"{TRIED_ROUNDS} rounds, tried now"


def _disk_bytes(settings: RunSettings) -> int:
    """Of one run's chain."""
    if not settings.rounds.is_on_chain:
        return 0
    from bfl.simulation.cost import run_cost
    from clients.data import dataset_of
    from clients.models import network_for

    data = settings.data
    dataset = dataset_of(data)
    return run_cost(settings, network_for(dataset, settings.training, data.seed), settings.rounds.rounds).total
