"""`bfl network lab`: a whole network as real processes of this computer, from its kits to its audit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bfl.commands.network import stop_by_exception
from bfl.errors import BflError

if TYPE_CHECKING:
    from bfl.network.lab import LabParams, LabResult


def lab(
    out: Annotated[Path, typer.Option(help="Folder for kits, logs, chains and the summary; new or empty.")],
    edges: Annotated[int, typer.Option(min=1, max=9, help="Edge PCs.")] = 3,
    devices: Annotated[int, typer.Option(min=1, max=30, help="Devices.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to seal.")] = 10,
    dataset: Annotated[str, typer.Option(help="synthetic, or a data set that this computer has.")] = "synthetic",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the network, such as planner=a2c; repeatable."),
    ] = None,
    namespaces: Annotated[
        bool, typer.Option("--namespaces", help="Each machine with an address of its own (Linux, root).")
    ] = False,
) -> None:
    """Rehearse a network on this computer: kits, every machine with its own processes, rounds, an audit. Exit code 0
    only if every edge has all rounds, the same chain, and an audit that fits. Everything it starts ends with it.
    """
    from bfl.network.lab import LabParams, run_lab

    stop_by_exception()
    params = LabParams(out, edges, devices, rounds, dataset, namespaces, _settings(set_ or ()))
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} rounds"))
    with Progress(*columns, TextColumn("{task.fields[word]}"), TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("lab", total=rounds, word="")
        result = run_lab(params, bar.console.print, lambda done, word: bar.update(task, completed=done, word=word))
    console.print(_table(params, result))
    if not result.is_well(rounds):
        raise BflError(f"the rehearsal did not end well; see {out}/kits/NAME/log and {out}/audit-NAME.txt")


def _settings(words: Sequence[str]) -> dict[str, str | int | float]:
    found: dict[str, str | int | float] = {}
    for word in words:
        key, is_set, value = word.partition("=")
        if not is_set:
            raise BflError(f"found --set {word!r}, expected KEY=VALUE")
        found[key] = _number(value)
    return found


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _table(params: "LabParams", result: "LabResult") -> Table:
    accuracy = "" if result.accuracy is None else f"accuracy {100 * result.accuracy:.1f} %"
    again = ", ".join(f"{name} ({starts} starts)" for name, starts in result.restarts.items())
    told = "; ".join(each for each in (accuracy, f"started again: {again}" if again else "") if each)
    title = f"{params.edges} edges, {params.devices} devices: {result.seconds:.0f} s"
    table = Table(title=title, title_justify="left", caption=told, caption_justify="left")
    for column in ("edge", "rounds", "head", "audit"):
        table.add_column(column)
    verdicts = {0: "fits", 1: "DOES NOT FIT", 2: "not all could be checked"}
    for name, count in result.rounds.items():
        verdict = verdicts.get(result.audits[name], f"exit code {result.audits[name]}")
        table.add_row(name, str(count), result.heads[name][:14] or "none", verdict)
    return table
