"""`bfl sweep` and `bfl simulate --seeds`: many runs from one file, or one run with several seeds."""

import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bfl.commands.command import this_program
from bfl.errors import BflError

if TYPE_CHECKING:
    from bfl.config import RunSettings
    from bfl.sweeps.sweep import SweepRequest, SweepResult
    from bfl.sweeps.table import SweepTable


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml|FOLDER", help="Grid and seeds; or a sweep to go on with.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs and the table.", show_default="runs/sweep-FILE")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=0, help="Runs at a time, each in a process.", show_default="by cores and memory")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the cells and what they will cost; run none.")
    ] = False,
    allow_plugins: Annotated[
        bool, typer.Option("--allow-plugins", help="Run code that the file names (module:function).")
    ] = False,
    allow_other_environment: Annotated[
        bool, typer.Option("--allow-other-environment", help="Go on although torch, threads or machine differ.")
    ] = False,
    log: Annotated[
        str, typer.Option(help="Write each run's numbers also to csv, tensorboard, mlflow, wandb.", show_default=False)
    ] = "",
) -> None:
    """Run every cell of a grid of settings with every seed, and put the results into one table.

    The same command goes on after Ctrl-C, kill -9 or a power cut: finished runs are left alone, begun ones go on from
    their last round. Exit code 0: all runs finished, 1: some failed (the others are in the table), 2: refused.
    """
    from bfl.sweeps.plan import make_plan
    from bfl.sweeps.sweep import SweepRequest
    from bfl.sweeps.sweep_file import read_sweep_file
    from bfl.writers.named import names_in

    source, folder = _where(file, out)
    read = read_sweep_file(source, {} if file.is_dir() else os.environ, allow_plugins)
    writers = names_in(log)
    print(f"sweep {source}: {len(read.chosen())} cells, {len(read.seeds)} seeds; loading ...", flush=True)
    plan = make_plan(read, str(source))
    request = SweepRequest(plan, read.text(), folder, jobs, allow_other_environment, writers)
    if dry_run:
        from bfl.commands.sweeping.dry_run import show_estimate

        show_estimate(request, Console())
        return
    options = {"--out": out, "--jobs": jobs or None, "--log": log}
    words = [word for option, value in options.items() if value for word in (option, str(value))]
    words += ["--allow-plugins"] * allow_plugins + ["--allow-other-environment"] * allow_other_environment
    carry_out(request, shlex.join([this_program(), "sweep", str(file), *words]))


def _where(file: Path, out: Path | None) -> tuple[Path, Path]:
    """The file with the grid, and the folder with the runs."""
    from bfl.sweeps.folder import SWEEP, is_sweep

    if not file.is_dir():
        return file, out or Path("runs") / f"sweep-{file.stem}"
    if not is_sweep(file):
        raise BflError(f"{file} is no sweep: found no {SWEEP} in it; expected a TOML file, or the folder of a sweep")
    if out is not None and out != file:
        raise BflError(f"found --out {out} beside the folder {file}; expected one of them")
    return file / SWEEP, file


def simulate_seeds(
    settings: "RunSettings",
    given: Mapping[str, object],
    seeds: str,
    folder: Path,
    writers: tuple[str, ...],
    allow_plugins: bool,
    dashboard: bool,
) -> None:
    """The same run with several seeds: a sweep with one cell. `given`: by flags."""
    from bfl.sweeps.plan import make_plan, one_cell
    from bfl.sweeps.seeds import read_seeds
    from bfl.sweeps.sweep import SweepRequest
    from clients.plugins import foreign_plugins

    if dashboard:
        raise BflError(f"--seeds makes several runs; show them as a page with: {this_program()} dashboard {folder}")
    if "seed" in given:
        raise BflError(f"found --seed {given['seed']} beside --seeds {seeds}; expected one of them")
    file = one_cell(settings.flat(), read_seeds(seeds, "--seeds"))
    request = SweepRequest(make_plan(file, "simulate --seeds"), file.text(), folder, writers=writers)
    words = ["--allow-plugins"] * (allow_plugins or bool(foreign_plugins(settings.flat())))
    words += ["--log", ",".join(writers)] * bool(writers)
    carry_out(request, shlex.join([this_program(), "sweep", str(folder), *words]))


def carry_out(request: "SweepRequest", again: str) -> None:
    """Run it, show and write the table; `again`: the command that goes on."""
    from bfl.show.task_display import wide_console
    from bfl.sweeps.sweep import default_jobs, run_sweep
    from bfl.sweeps.table import write_tables

    console, plan = wide_console(), request.plan
    jobs = request.jobs or default_jobs(plan)
    print(f"{len(plan.runs)} runs, {plan.rounds:,} rounds, {jobs} runs at a time; folder: {request.folder}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    result = run_sweep(request, console)
    paths = write_tables(result.table, request.folder)
    _show(console, result.table)
    print("  ".join(map(str, [*paths, *_pictures(request.folder, result.table)])))
    _tell_end(result, again)


def _tell_end(result: "SweepResult", again: str) -> None:
    """What is left, and how to go on; the exit code."""
    failures = result.table.failures()
    print("\n".join(failures), end="\n" * bool(failures))
    if result.is_interrupted:
        print(f"Interrupted, {result.left} runs are left. Go on with: {again}")
        raise typer.Exit(130)
    if result.table.failed:
        count = sum(map(len, result.table.failed.values()))
        print(f"{count} of {len(result.table.runs)} runs failed. When the cause is gone, try them again with: {again}")
        raise typer.Exit(1)


def _show(console: Console, table: "SweepTable") -> None:
    from rich.table import Table
    from rich.text import Text

    from bfl.sweeps.table import cells_of, heads

    shown = Table(title=f"{len(table.rows)} cells: mean ± standard deviation over seeds", title_justify="left")
    for place, head in enumerate(heads(table)):
        shown.add_column(head, justify="left" if place < len(table.keys) else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(Text, cells_of(table, row)))
    console.print(shown)


def _pictures(folder: Path, table: "SweepTable") -> list[Path]:
    """Of what has rounds by now."""
    from bfl.commands.sweeping.compare import write_comparison
    from bfl.sweeps.folder import runs_below

    known = {run.name for _, run, state, _ in table.runs if state.rounds}
    runs = [each for each in runs_below(folder) if str(each.relative_to(folder)) in known]
    return write_comparison(runs, folder / "comparison")[1] if len(runs) > 1 else []
