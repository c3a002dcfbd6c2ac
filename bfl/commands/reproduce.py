"""`bfl reproduce`: the paper's figures as pictures, tables and verdicts."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bfl.commands.command import this_program
from bfl.errors import BflError
from bfl.experiments.catalogue import ALL, ENTRIES, figure_names, find_figure
from bfl.experiments.context import QUICK, Budget, ExperimentContext
from bfl.show.task_display import TaskDisplay
from policy.extras import install_command

if TYPE_CHECKING:
    from rich.table import Table

    from bfl.experiments.figure import FigureResult

STYLES = {"holds": "green", "does not hold": "red", "cannot be compared": "yellow"}
MOST_JOBS = 4
"""Every run holds its own copy of the images: about 1 GB"""
FIGURES_HELP = "Which figure: " + ", ".join(entry.name for entry in ENTRIES) + f"; or {ALL}."


def reproduce(
    figure: Annotated[str, typer.Argument(metavar=f"FIGURE|{ALL}", help=FIGURES_HELP)],
    quick: Annotated[bool, typer.Option("--quick", help="A look: short trainings and runs, one seed.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for pictures, tables, agents and runs.", show_default="runs/reproduce[-quick]"
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Trainings of every agent, runs of every scheme.", show_default="3, quick: 1"),
    ] = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Train the rivals anew in every world of a sweep, not once.")
    ] = False,
    dataset: Annotated[
        str,
        typer.Option("--dataset", help="Images to learn from instead of the figure's own.", show_default="its own"),
    ] = "",
    data_dir: Annotated[
        str, typer.Option("--data-dir", help="Folder with their files; without --dataset, with SVHN's.")
    ] = "",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", help="Federated runs at a time.", show_default=f"one per core, at most {MOST_JOBS}"),
    ] = None,
) -> None:
    """Make the paper's figures again, and say which of its claims hold.

    Every figure is a picture, a CSV file and a page with the measurements and a verdict on each claim. Trained agents,
    finished runs and measured points are kept in the folder: after Ctrl-C the same command goes on.
    """
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    if folder.exists() and not folder.is_dir():
        raise BflError(f"--out: found the file {folder}, expected a folder")
    console = Console()
    context = ExperimentContext(folder, _budget(quick, seeds, retrain), TaskDisplay(console), _jobs(jobs))
    command = _command(figure, quick, out, seeds, retrain, dataset, data_dir, jobs)
    try:
        results = _reproduce(figure, (dataset, data_dir), context, command)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Go on with: {command}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    console.print(verdicts_table(results))
    console.print(f"pictures, tables, pages: {folder}", markup=False, highlight=False, soft_wrap=True)


def _reproduce(figure: str, images: tuple[str, str], context: ExperimentContext, command: str) -> "list[FigureResult]":
    """One figure, or all of them and their summary; `all` leaves out figures whose images are missing."""
    if figure != ALL:
        return _make_figures(figure_names(figure), images, context, command, None)
    from bfl.experiments.figure_files import write_summary

    skipped: dict[str, str] = {}
    results = _make_figures(figure_names(ALL), images, context, command, skipped)
    write_summary(results, context.folder, command, context.budget, skipped)
    return results


def verdicts_table(results: "list[FigureResult]") -> "Table":
    """Every claim with its measurement and verdict, figure by figure."""
    from rich.table import Table
    from rich.text import Text

    table = Table("figure", "the paper claims", "we measured", "verdict", title="The paper's claims")
    for result in results:
        for index, finding in enumerate(result.verdicts):
            name = result.name if index == 0 else ""
            verdict = Text(finding.verdict, style=STYLES[finding.verdict])
            table.add_row(name, Text(finding.claim), Text(finding.measured), verdict)
        table.add_section()
    return table


def _budget(quick: bool, seeds: int | None, retrain: bool) -> Budget:
    if seeds is not None and seeds < 1:
        raise BflError(f"--seeds: found {seeds}, expected at least 1")
    plain = QUICK if quick else Budget()
    return replace(plain, seeds=seeds or plain.seeds, is_retrained=retrain)


def _jobs(wanted: int | None) -> int:
    if wanted is not None and wanted < 1:
        raise BflError(f"--jobs: found {wanted}, expected at least 1")
    return wanted or min(MOST_JOBS, len(os.sched_getaffinity(0)))


def _command(
    figure: str,
    quick: bool,
    out: Path | None,
    seeds: int | None,
    retrain: bool,
    dataset: str,
    data_dir: str,
    jobs: int | None,
) -> str:
    """What was typed, to be typed again."""
    valued = {"--out": out, "--seeds": seeds, "--dataset": dataset, "--data-dir": data_dir, "--jobs": jobs}
    words = [this_program(), "reproduce", figure, *["--quick"] * quick]
    words += [word for option, value in valued.items() if value for word in (option, str(value))]
    return shlex.join([*words, *["--retrain"] * retrain])


def _make_figures(
    names: list[str], images: tuple[str, str], context: ExperimentContext, command: str, skipped: dict[str, str] | None
) -> "list[FigureResult]":
    """Measure and write one figure after the other; what is missing is refused before the first training.

    Figures whose images are missing go to `skipped`, with the reason, where there is such a list.
    """
    from bfl.experiments.images import MissingDataError
    from bfl.show.plots import pyplot
    from policy.errors import PolicyError

    pyplot()
    try:
        figures = []
        for name in names:
            figure = find_figure(name, *images)
            try:
                figure.check()
                figures.append(figure)
            except MissingDataError as error:
                if skipped is None:
                    raise
                skipped[name] = str(error)
                context.display.print_line(f"{name}: left out. {error}")
        return [_write_result(found.measure(context), context, command) for found in figures]
    except PolicyError as error:
        raise BflError(str(error)) from error
    except ModuleNotFoundError as error:
        raise BflError(f"{error.name} is not installed; get it with: {install_command('simulation')}") from error


def _write_result(result: "FigureResult", context: ExperimentContext, command: str) -> "FigureResult":
    from bfl.experiments.figure_files import write_figure

    write_figure(result, context.folder, command, context.budget)
    context.display.print_line(f"{result.name}: {context.folder / result.name}.png, .csv, .md")
    return result
