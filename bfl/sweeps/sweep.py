"""A sweep from its plan to its table (start here): what is finished is left alone, what was begun goes on."""

import os
import queue
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bfl.sweeps.display import SweepDisplay
from bfl.sweeps.folder import RunState, SweepFolder
from bfl.sweeps.orders import Order
from bfl.sweeps.plan import PlannedRun, SweepPlan
from bfl.sweeps.processes import Event, Processes
from bfl.sweeps.table import SweepTable, make_table

_RUN_BYTES = 1 << 30
"""Of memory: torch, py-evm, the images and a small model"""
_LOOK_S = 0.5


@dataclass(frozen=True)
class SweepRequest:
    """What somebody asks for."""

    plan: SweepPlan
    text: str
    """The file, as the folder keeps it"""
    folder: Path
    jobs: int = 0
    """Runs at a time; 0: what the machine takes"""
    allow_other_environment: bool = False
    writers: tuple[str, ...] = ()
    """Where the numbers of runs go besides their folders, by name"""


@dataclass(frozen=True)
class SweepResult:
    """How it ended."""

    table: SweepTable
    is_interrupted: bool

    @property
    def left(self) -> int:
        """Runs that are not finished."""
        return sum(state.state != "finished" for _, _, state, _ in self.table.runs)


def run_sweep(request: SweepRequest, console: Console) -> SweepResult:
    """Make all runs that are not finished; Ctrl-C ends every one after its round."""
    plan, folder = request.plan, SweepFolder(request.folder)
    with ExitStack() as undo:
        folder.take(undo)
        for line in folder.check_unchanged(plan):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        folder.write_plan(request.text)
        states = {run.name: folder.state(run) for run in plan.runs}
        left = [run for run in plan.runs if states[run.name].state != "finished"]
        failures: dict[str, str] = {}
        is_interrupted = False
        if left:
            display = _display(console, plan, states)
            try:
                with display:
                    _work(request, folder, left, display, failures)
            except KeyboardInterrupt:
                is_interrupted = True
        return SweepResult(make_table(plan, folder, failures), is_interrupted)


def _display(console: Console, plan: SweepPlan, states: dict[str, RunState]) -> SweepDisplay:
    done = sum(each.rounds for each in states.values())
    finished = sum(each.state == "finished" for each in states.values())
    return SweepDisplay(console, len(plan.runs), plan.rounds, finished, done)


def _work(
    request: SweepRequest,
    folder: SweepFolder,
    left: Sequence[PlannedRun],
    display: SweepDisplay,
    failures: dict[str, str],
) -> None:
    orders = [_order(request, folder, run) for run in left]
    open_ = set(range(len(left)))
    with Processes(orders, request.jobs or default_jobs(request.plan)) as processes:
        while open_:
            try:
                event = processes.events.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            _take(event, left[event.run], folder, display, failures)
            if event.status and event.status != "killed":
                open_.discard(event.run)


def _take(event: Event, run: PlannedRun, folder: SweepFolder, display: SweepDisplay, failures: dict[str, str]) -> None:
    if event.round is not None:
        display.round(run, event.round, event.accuracy)
    elif event.status == "killed":
        display.line(f"{run.name}: {event.why}; another one goes on with it")
    elif event.status == "finished":
        summary = folder.state(run).summary
        accuracy = summary.get("accuracy")
        _remove_empty(folder.log(run))
        told = "finished" if accuracy is None else f"accuracy {100 * accuracy:.2f} %"
        nothing = f", NOTHING LEARNED: {event.why}" if event.why else ""
        display.ended(run, event.status, f"{told}, {summary.get('wall-seconds', 0):.1f} s{nothing}")
    else:
        failures[run.name] = event.why or event.status
        display.ended(run, event.status, f"FAILED: {failures[run.name]}")


def _remove_empty(log: Path) -> None:
    if log.is_file() and not log.stat().st_size:
        log.unlink()


def _order(request: SweepRequest, folder: SweepFolder, run: PlannedRun) -> Order:
    log = folder.log(run)
    log.parent.mkdir(parents=True, exist_ok=True)
    return Order(
        run.settings.flat(), str(folder.run_folder(run)), str(log), request.allow_other_environment, request.writers
    )


def default_jobs(plan: SweepPlan) -> int:
    """As many as there are cores for, with the threads that each run computes with, and memory for."""
    cores = len(os.sched_getaffinity(0))
    threads = max((run.settings.training.threads or cores for run in plan.runs), default=1)
    return max(1, min(cores // threads, _free_bytes() // _RUN_BYTES))


def _free_bytes() -> int:
    """Of memory, as Linux says; where it does not, as much as anybody wants."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 1 << 50
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) << 10 if found else 1 << 50
