"""`bfl network lab`: a whole network as real processes of this computer, from its kits to its audit."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from bfl.commands.network import stop_by_exception
from bfl.errors import BflError

if TYPE_CHECKING:
    from bfl.network.lab.outcome import LabResult
    from bfl.network.lab.params import LabParams

_WORD = 60
"""Most characters of what is said beside the bar"""


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
    """Rehearse a network on this computer: kits, every machine with its own processes, rounds, audits. Exit code 0 only
    if every edge has all rounds, the same chain, an audit that fits, and nobody was accused. What ends by itself is
    started again, as a service would be. Everything it starts ends with it.
    """
    from bfl.network.lab.params import LabParams
    from bfl.network.lab.rehearsal import run_lab

    stop_by_exception()
    params = LabParams(out, edges, devices, rounds, dataset, namespaces, _settings(set_ or ()))
    console = Console()
    display = _Display(console, rounds)
    with display.bar if console.is_terminal else nullcontext():
        result = run_lab(params, display)
    _show(params, result, console)
    if result.faults(rounds):
        raise BflError("the rehearsal did not end well: see its verdict above")


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


class _Display:
    """A line that lives on a terminal; in a pipe one for each round."""

    def __init__(self, console: Console, rounds: int) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.completed}/{task.total} rounds"), BarColumn(20))
        self.bar = Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[word]}"), console=console)
        self._task = self.bar.add_task("lab", total=rounds, word="")
        self._rounds, self._told = rounds, 0

    def say(self, line: str) -> None:
        """A step, or something that has happened."""
        self.bar.update(self._task, word="")
        self._print(line)

    def show(self, rounds: int, word: str) -> None:
        """Rounds that are sealed, and what there is to say of now."""
        self.bar.update(self._task, completed=rounds, word=escape(word[:_WORD]))
        if rounds > self._told and not self.bar.console.is_terminal:
            self._print(f"round {rounds} of {self._rounds} is sealed: {word}")
        self._told = rounds

    def _print(self, line: str) -> None:
        now = time.strftime("%H:%M:%S")
        self.bar.console.print(Text(f"{now} {line}"), soft_wrap=True)


def _show(params: "LabParams", result: "LabResult", console: Console) -> None:
    from bfl.network.lab.outcome import audit_word

    table = Table(title=f"{params.edges} edges, {params.devices} devices", title_justify="left")
    for column in ("edge", "rounds", "head", "audit", "accusations"):
        table.add_column(column)
    for name, count in result.rounds.items():
        accused = str(len(result.accused[name]) or "none")
        table.add_row(name, str(count), result.heads[name][:14], audit_word(result.audits[name]), accused)
    console.print(table)
    for name, told in _told(params, result).items():
        console.print(Text(f"{name:<14} {told}"), soft_wrap=True)


def _told(params: "LabParams", result: "LabResult") -> dict[str, str]:
    """What stands under the table, line by line."""
    faults = result.faults(params.rounds)
    well = f"WELL: {params.rounds} rounds at every edge, one head, every audit fits, nobody accused or excluded"
    again = ", ".join(f"{name} {count} x" for name, count in result.restarts.items())
    steps = ", ".join(f"{name} {seconds:.0f}" for name, seconds in result.seconds.items())
    out = ", ".join(f"{count} {reason}" for reason, count in result.left_out.items())
    return {
        "verdict": "NOT WELL: " + "; ".join(faults) if faults else well,
        "seconds": f"{sum(result.seconds.values()):.0f}: {steps}",
        "accuracy": "not known" if result.accuracy is None else f"{100 * result.accuracy:.1f} %",
        "started again": again or "nothing",
        "left out": out or "no gradient",
        "logs": f"{params.kits}/NAME/log, {params.out}/NAME.out",
        "audits": f"{params.out}/audit-NAME.txt",
        "summary": f"{params.out}/summary.json",
    }
