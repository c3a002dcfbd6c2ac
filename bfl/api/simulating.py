"""`bfl.simulate` and `bfl.open_run`: settings, functions and data in, a `Run` out. The command line goes this way."""

import os
import tempfile
import warnings
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from bfl.api.callbacks import Audience, Callback, listed
from bfl.api.given import give_again, named_settings
from bfl.api.options import RunOptions
from bfl.api.run import Run
from bfl.config import RunSettings, all_fields, read_settings
from bfl.errors import BflError, NothingLearnedWarning, RunInterrupted
from bfl.libraries import settle_libraries

if TYPE_CHECKING:
    from bfl.simulation.run import Simulation


def simulate(
    *,
    config: str | Path | None = None,
    out: str | Path | None = None,
    data: Any = None,
    on_round: Callback | Iterable[Callback] = (),
    progress: bool = True,
    allow_plugins: bool = False,
    **settings: Unpack[RunOptions],
) -> Run:
    """Train over simulated devices and edge servers on this machine.

    `settings` are those of `bfl simulate --help` with underscores: rounds=20, devices=30, scheme="bfl". Where the help
    says "your own", a function does too: model=MyNet, filter=my_filter, planner=..., partition=..., attack=(function,
    "all:device=3"). `config` is a TOML file with more of them; what is given here counts more. `data` are arrays or a
    torch data set in place of `dataset`. `out` is the run folder to make; without it the run is in a temporary folder,
    which goes with the `Run`. `on_round` is told of every round (`RoundDone`), and may stop the run with `StopRun`.

    Ctrl-C raises `RunInterrupted`, an error in a callback `CallbackError`; both have the run, which may be resumed.
    """
    callbacks = listed(on_round)
    given = named_settings(settings, data, all_fields())
    read = read_settings(Path(config) if config else None, os.environ, given, allow_plugins)
    if progress:
        from bfl.show.beginning import first_line

        print(first_line(read.rounds, read.data), flush=True)
    begun = begin(read, Path(out) if out else None, allow_plugins)
    if progress:
        introduce(begun)
    return _warned(go(begun, callbacks, progress))


def open_run(path: str | Path, *, allow_plugins: bool = False, **functions: Any) -> Run:
    """The run in a folder, finished or not. Functions and data that it was given in Python have to be given again
    before it can be resumed or audited, or its model be loaded: `bfl.open_run(path, model=MyNet, data=(x, y))`.
    """
    folder = Path(path)
    missing = [name for name in ("config.toml", "metrics.jsonl") if not (folder / name).is_file()]
    if missing:
        raise BflError(f"{folder} is not a run folder: it has no {missing[0]}")
    run = Run(folder, allows_plugins=allow_plugins)
    give_again(functions, {name.replace("_", "-"): value for name, value in run.settings.items()})
    return run


@dataclass(frozen=True)
class Begun:
    """A run before its first round of this call."""

    run: Run
    ready: "Simulation"

    @property
    def lines(self) -> list[str]:
        """What is worth knowing before it begins: which data, what it costs, where it is."""
        from bfl.simulation.cost import memory_told

        dataset, cost = self.ready.dataset, self.ready.cost
        told = [f"data: {dataset.name}, {len(dataset.train):,} samples, {dataset.source}"]
        if cost is not None:
            told.append(f"chain: {cost}")
            told += [f"that is large; {cost.advice}"] * bool(cost.advice)
        elif memory := memory_told(self.ready.settings, self.ready.network):
            told.append(f"memory: {memory}")
        where = " (temporary: run.save(path) keeps it)" * self.run.is_temporary
        return [*told, f"run folder: {self.run.folder}{where}"]


def introduce(begun: Begun) -> None:
    """Say so."""
    print("\n".join(begun.lines), flush=True)


def load() -> None:
    """What takes seconds to load: torch first of all."""
    settle_libraries()
    import_module("bfl.simulation.run")


def begin(settings: RunSettings, out: Path | None, allow_plugins: bool = False) -> Begun:
    """A new run, in a folder of its own: data loaded, network founded. `RunInterrupted` has the run where there is
    already something to go on with.
    """
    settle_libraries()
    run = Run(out or Path(tempfile.mkdtemp(prefix="bfl-run-")), allows_plugins=allow_plugins)
    if out is None:
        run.goes_with_it()
    with _Standing(run):
        from bfl.simulation import run as simulation

        simulation.check_settings(settings)
        return _begun(run, simulation.start(settings, run.folder))


def begin_again(run: Run, rounds: int | None, allow_other_environment: bool) -> Begun:
    """A run of an earlier call or process, at its last finished round."""
    settle_libraries()
    with _Standing(run):
        from bfl.simulation import run as simulation

        run.check_somewhere()
        return _begun(run, simulation.resume(run.folder, rounds, allow_other_environment, run.allows_plugins))


def _begun(run: Run, ready: "Simulation") -> Begun:
    run.network = ready.network
    return Begun(run, ready)


def go(begun: Begun, callbacks: Iterable[Callback] = (), progress: bool = False) -> Run:
    """The rounds that are left. `RunInterrupted` and `CallbackError` leave a folder to go on with."""
    from rich.console import Console

    from bfl.show.progress import RunDisplay, summary_table
    from bfl.simulation import run as simulation
    from clients.models import with_parameters
    from edge_servers.report import RoundReport

    run, ready, console = begun.run, begun.ready, Console()
    rounds = ready.settings.rounds.rounds

    def network() -> Any:
        return with_parameters(ready.network, ready.federation.servers[0].standing.model)

    audience = Audience(tuple(callbacks), run, rounds, network)
    display = RunDisplay(console, rounds, ready.federation.round) if progress else None

    def told(report: RoundReport) -> None:
        if display is not None:
            display.show(report)
        audience.tell(report)

    with _Standing(run), audience:
        with display or nullcontext():
            summary = simulation.run(ready, told, begin=audience.begin)
        if progress:
            console.print(summary_table(summary))
    if summary["status"] == "interrupted":
        raise _interrupted(run)
    return run


@dataclass(frozen=True)
class _Standing:
    """Whatever ends a run early says what there is to go on with, and a temporary folder stays for it."""

    run: Run

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_begun = (self.run.folder / "config.toml").is_file()
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, RunInterrupted):
            raise _interrupted(self.run) if is_begun else RunInterrupted(_NOTHING_YET) from error
        if error is not None and is_begun and self.run.rounds:
            self.run.keep()
            error.add_note(f"The rounds before it are recorded: {_again(self.run)}")


_NOTHING_YET = "interrupted before the run began; nothing was written"


def _interrupted(run: Run) -> RunInterrupted:
    run.keep()
    rounds = len(run.rounds)
    told = f"after round {rounds}" if rounds else "before round 1"
    interrupted = RunInterrupted(f"interrupted {told}; go on with {_again(run)}")
    interrupted.run = run
    return interrupted


def _again(run: Run) -> str:
    return f"bfl.open_run({str(run.folder)!r}).resume()"


def go_on(
    run: Run, rounds: int | None, on_round: Callback | Iterable[Callback], progress: bool, allow_other_environment: bool
) -> Run:
    """`run.resume(...)`."""
    callbacks = listed(on_round)
    run.permit_plugins()
    begun = begin_again(run, rounds, allow_other_environment)
    if progress:
        introduce(begun)
    return _warned(go(begun, callbacks, progress))


def _warned(run: Run) -> Run:
    if run.problem:
        warnings.warn(NothingLearnedWarning(f"nothing was learned: {run.problem}"), stacklevel=3)
    return run
