"""`bfl audit report`: what is handed on to somebody else."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bfl.commands.audit import RUNS
from bfl.errors import BflError


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
