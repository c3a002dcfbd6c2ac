"""What a person sees of a run: a live line on a terminal, plain lines in a pipe, a table at the end."""

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from edge_servers.report import RoundReport


class RunDisplay:
    """Progress of a run, as a context manager; `show` is called after every round."""

    def __init__(self, console: Console, rounds: int, done: int) -> None:
        self._console = console
        self._rounds = rounds
        self._told = "starting"
        self._live: Progress | None = None
        if console.is_terminal:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
            )
            self._live = Progress(*columns, console=console)
            self._task = self._live.add_task("starting", total=rounds, completed=done)

    def __enter__(self) -> "RunDisplay":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, report: RoundReport) -> None:
        """A finished round, and whoever is not in its closed list."""
        if report.scores:
            self._told = f"accuracy {100 * report.scores.accuracy:.2f} %  loss {report.scores.loss:.4f}"
        seconds = sum(s for phase, s in report.seconds.items() if phase != "evaluate")
        if self._live:
            self._live.update(self._task, completed=report.round, description=f"{self._told}  {seconds:.2f} s/round")
        else:
            told = self._told if report.scores else "not evaluated"
            print(f"round {report.round}/{self._rounds}  {told}  {seconds:.2f} s", flush=True)
        for told in _incident_lines(report):
            self._console.print(Text(f"round {report.round}: {told}", style="yellow"), soft_wrap=True)
        for refusal in report.refused:
            told = f"round {report.round}: {refusal.node} is out ({refusal.reason}): {refusal.detail}"
            self._console.print(Text(told, style="yellow"), soft_wrap=True)  # as it is: a device wrote it


def _incident_lines(report: RoundReport) -> list[str]:
    """Who lied, was away or passed over, and what became of it."""
    said = [f"server {m} was passed over as leader, the next in rank went on" for m in report.failed_leaders]
    said += [f"{name} was absent, the others computed what it did not post" for name in report.absent]
    wrong = [offence for offence in report.offences if not offence.is_absence]
    for who in dict.fromkeys(offence.offender for offence in wrong):
        first = next(offence for offence in wrong if offence.offender == who)
        said.append(f"{first.detail} ({first.kind})")
    offenders = {offence.name for offence in wrong}
    said += [f"server {m} is excluded by a majority" for m in report.excluded if f"server {m}" in offenders]
    return said


def _latency_text(terms: dict[str, float]) -> str:
    """What a round would take in the field, with a word on what the terms are: they differ by orders of magnitude."""
    on_a_clock = f"T_wall {terms['T_wall']:.2f} s on a clock"
    return f"T {terms['T']:.2f} s summed over all devices, {on_a_clock}, per round (simulated)"


def summary_table(summary: dict[str, Any]) -> Table:
    """The end of a run in one look."""
    table = Table(title=f"{summary['scheme']} on {summary['dataset']}", show_header=False, title_justify="left")
    accuracy, loss = summary["accuracy"], summary["loss"]
    rows = {
        "status": f"{summary['status']}, {summary['rounds']} of {summary['rounds-planned']} rounds",
        "accuracy": f"{100 * accuracy:.2f} % (mean of the last five evaluations)" if accuracy is not None else "-",
        "loss": f"{loss:.4f}" if loss is not None else "-",
        "network": f"{summary['edges']} edge servers, {summary['devices']} devices, {summary['partition']} data",
        "model": f"{summary['parameters']:,} parameters",
        "time": f"{summary['wall-seconds']:.1f} s in all, {summary['seconds-per-round'] or 0:.3f} s per round "
        "without evaluation",
        "refused": f"{summary['refused']} gradients",
        "planner": f"{summary['planner']}, {summary['offloaded'] or 0:.1f} devices offload in a round",
    }
    for kind, terms in summary["latency"].items():
        rows[f"latency, {kind}"] = _latency_text(terms)
    if summary["blocks"]:
        rows["offences"] = f"{summary['offences']} found"
        if summary["absent"]:
            rows["absent"] = f"{summary['absent']} times a server was away, which is no offence"
        rows["chain"] = f"{summary['blocks']} sealed rounds, head 0x{summary['head'][:16]}..."
    for name, value in rows.items():
        table.add_row(name, value)
    return table
