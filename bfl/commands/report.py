"""`bfl audit report` and `bfl compare`: what is handed on to somebody else."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from bfl.commands.audit import RUNS
from bfl.errors import BflError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bfl.dashboard.report.comparing import Group


def report(
    run: Annotated[
        Path | None, typer.Argument(help="Run folder; default: the newest under runs/.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="Derive every model again first.")] = True,
) -> None:
    """Write a report of a run that anybody can read: one HTML file, which opens without a program or a network.

    It has the audit's verdict in plain words, the curves, who took part, who lied and how that is known, and what all
    this does not show. Exit code 1 where the run does not fit, 2 where it could not be checked.
    """
    from bfl.dashboard.index.opening import newest_run
    from bfl.dashboard.report.making import read_runs, report_of
    from policy.files import replacing

    if not out.parent.is_dir():
        raise BflError(f"there is no folder {out.parent}; make it, or choose another file with --out")
    (dashboard,) = read_runs([run or newest_run(RUNS)])
    has_chain = dashboard.audit.state.status != "impossible"
    with Console().status("reading the run") as shown:
        told = report_of(dashboard, audit and has_chain, lambda line: shown.update(line))
    with replacing(out) as part:
        part.write_text(told, encoding="utf-8")
    state = dashboard.audit.state
    print(f"report: {out} ({len(told) / 1e3:,.0f} KB), {state.verdict or state.told}")
    if state.exit_code:
        raise typer.Exit(state.exit_code)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, two or more.")],
    out: Annotated[Path, typer.Option(help="Folder for the pictures and the CSV.")] = Path("comparison"),
) -> None:
    """Show several runs beside each other: a table, a PNG for each measure, a CSV. Runs that differ by their seed alone
    are one line with a band. The same as a page: bfl dashboard RUN..., tab Compare.
    """
    from bfl.dashboard.report.comparing import groups_of, write_csv, write_pictures
    from bfl.dashboard.report.making import read_runs
    from bfl.show.plots import can_plot

    if len(runs) < 2:
        raise BflError(f"found {len(runs)} run, expected two or more to compare")
    snapshots = [each.snapshot for each in read_runs(runs)]
    empty = [each.about.name for each in snapshots if not each.rounds]
    if empty:
        raise BflError(f"{empty[0]} has no finished round: there is nothing to compare yet")
    groups = groups_of(snapshots)
    Console().print(_table(groups))
    out.mkdir(parents=True, exist_ok=True)
    write_csv(groups, out / "comparison.csv")
    pictures = write_pictures(groups, out) if can_plot() else []
    print("  ".join(str(each) for each in [out / "comparison.csv", *pictures]))


def _table(groups: "Sequence[Group]") -> Table:
    table = Table(title=f"{sum(len(each.runs) for each in groups)} runs", title_justify="left")
    for column in ("what differs", "runs", "seeds", "rounds", "accuracy %", "latency T s", "offences", "not counted"):
        table.add_column(column, justify="left" if column == "what differs" else "right", overflow="fold")
    for each in groups:
        spread = "" if each.accuracy_spread is None else f" ± {each.accuracy_spread:.2f}"
        table.add_row(
            each.name, str(len(each.runs)), ", ".join(map(str, each.seeds)), str(each.rounds),
            "-" if each.accuracy is None else f"{each.accuracy:.2f}{spread}",
            "-" if each.latency is None else f"{each.latency:.2f}", str(each.offences), str(each.refused),
        )  # fmt: skip
    return table
