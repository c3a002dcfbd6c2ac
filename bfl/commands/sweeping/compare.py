"""`bfl compare`: runs and sweeps beside each other."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bfl.errors import BflError

if TYPE_CHECKING:
    from bfl.dashboard.report.comparing import Group


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN|SWEEP...", help="Run folders, and folders of sweeps.")],
    out: Annotated[Path, typer.Option(help="Folder for the pictures, the CSV and the page.")] = Path("comparison"),
) -> None:
    """Show several runs beside each other: a table, a PNG for each measure, a CSV, and all of it as one HTML file. Runs
    that differ by their seed alone are one line with a band. The same live: bfl dashboard RUN..., tab Compare.
    """
    from bfl.show.task_display import wide_console
    from bfl.sweeps.folder import runs_in

    folders = [each for given in runs for each in runs_in(given)]
    if len(folders) < 2:
        raise BflError(f"found {len(folders)} run, expected two or more to compare, or the folder of a sweep")
    groups, paths = write_comparison(folders, out)
    wide_console().print(_table(groups))
    print("  ".join(map(str, paths)))


def write_comparison(folders: Sequence[Path], out: Path) -> tuple[list["Group"], list[Path]]:
    """The groups of these runs, and the files about them."""
    from bfl.dashboard.report.compare_page import comparison_page
    from bfl.dashboard.report.comparing import groups_of, write_csv, write_pictures
    from bfl.dashboard.report.making import read_runs
    from bfl.show.plots import can_plot
    from policy.files import replacing

    snapshots = [each.snapshot for each in read_runs(folders)]
    empty = [each.about.name for each in snapshots if not each.rounds]
    if empty:
        raise BflError(f"{empty[0]} has no finished round: there is nothing to compare yet")
    groups = groups_of(snapshots)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(groups, out / "comparison.csv")
    with replacing(out / "comparison.html") as part:
        part.write_text(comparison_page(groups), encoding="utf-8")
    pictures = write_pictures(groups, out) if can_plot() else []
    return groups, [out / "comparison.csv", out / "comparison.html", *pictures]


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
