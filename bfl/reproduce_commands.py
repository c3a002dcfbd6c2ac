"""`bfl reproduce`: the paper's figures as pictures, tables and verdicts."""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bfl.errors import BflError
from bfl.experiments.bench import QUICK, Bench, Budget
from bfl.experiments.catalogue import ALL, ENTRIES, find_figure, names_of
from bfl.watch import Watch

if TYPE_CHECKING:
    from rich.table import Table

    from bfl.experiments.figure import Result

STYLES = {"holds": "green", "does not hold": "red", "cannot be compared": "yellow"}
FIGURES_HELP = "Which figure: " + ", ".join(entry.name for entry in ENTRIES) + f"; or {ALL}."


def reproduce(
    figure: Annotated[str, typer.Argument(metavar=f"FIGURE|{ALL}", help=FIGURES_HELP)],
    quick: Annotated[bool, typer.Option("--quick", help="A look: short trainings, one seed, 100 states.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for pictures, tables and agents.", show_default="runs/reproduce[-quick]"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Trainings of every learned agent.", show_default="3, quick: 1")
    ] = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Train the rivals anew in every world of a sweep, not once.")
    ] = False,
) -> None:
    """Make the paper's policy figures again, and say which of its claims hold.

    Every figure is a picture, a CSV file and a page with the measurements and a verdict on each claim. Trained agents
    and measured points are kept in the folder: after Ctrl-C the same command goes on.
    """
    names = names_of(figure)
    budget = _budget(quick, seeds, retrain)
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    console = Console()
    command = _command(figure, quick, out, seeds, retrain)
    try:
        results = _made(names, Bench(folder, budget, Watch(console)), command)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Go on with: {command}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    if figure == ALL:
        from bfl.experiments.pages import write_summary

        write_summary(results, folder, command, budget)
    console.print(verdicts_table(results))
    console.print(f"pictures, tables, pages: {folder}", markup=False, highlight=False, soft_wrap=True)


def verdicts_table(results: "list[Result]") -> "Table":
    """All claims in one look."""
    from rich.table import Table
    from rich.text import Text

    table = Table("figure", "the paper claims", "we measured", "verdict", title="The paper's claims")
    for result in results:
        for index, finding in enumerate(result.findings):
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


def _command(figure: str, quick: bool, out: Path | None, seeds: int | None, retrain: bool) -> str:
    """What was typed, to be typed again."""
    words = [
        os.environ.get("RUN_SH", "bfl"),
        "reproduce",
        figure,
        *["--quick"] * quick,
        *(["--out", str(out)] if out else []),
    ]
    return shlex.join([*words, *(["--seeds", str(seeds)] if seeds else []), *["--retrain"] * retrain])


def _made(names: list[str], bench: Bench, command: str) -> "list[Result]":
    """Measure and write one figure after the other; what is missing is refused before the first training."""
    from bfl.plots import pyplot
    from policy.errors import PolicyError

    pyplot()
    try:
        figures = [find_figure(name) for name in names]
        for found in figures:
            found.check()
        return [_written(found.measured(bench), bench, command) for found in figures]
    except PolicyError as error:
        raise BflError(str(error)) from error
    except ModuleNotFoundError as error:
        raise BflError(f"{error.name} is not installed; get it with: pip install 'bfl[simulation]'") from error


def _written(result: "Result", bench: Bench, command: str) -> "Result":
    from bfl.experiments.pages import write_figure

    write_figure(result, bench.folder, command, bench.budget)
    bench.watch.say(f"{result.name}: {bench.folder / result.name}.png, .csv, .md")
    return result
