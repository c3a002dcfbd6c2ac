"""`bfl sweep --dry-run`: the cells, and what they will take."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bfl.show.text import printable, size_text
from bfl.sweeps.display import duration_text
from bfl.sweeps.estimate import estimate
from bfl.sweeps.folder import SweepFolder
from bfl.sweeps.sweep import SweepRequest, default_jobs


def show_estimate(request: SweepRequest, console: Console) -> None:
    """A row per cell, and the sum."""
    plan, folder = request.plan, SweepFolder(request.folder)
    for line in folder.check_unchanged(plan):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    jobs = request.jobs or default_jobs(plan)
    costs = estimate(plan, folder)
    table = Table(title=f"{len(plan.cells)} cells, {len(plan.runs)} runs", title_justify="left")
    for head in ("cell", "runs left", "rounds left", "s/round", "time", "disk", "time is from"):
        table.add_column(head, justify="left" if head in ("cell", "time is from") else "right", overflow="fold")
    for each in costs:
        own = ", ".join(f"{key} {value or 'none'}" for key, value in each.cell.own.items()) or "all"
        table.add_row(
            Text(printable(own)), str(each.runs), f"{each.rounds:,}",
            "?" if each.round_s is None else f"{each.round_s:.2f}",
            "?" if each.seconds is None else duration_text(each.seconds),
            size_text(each.disk_bytes) if each.disk_bytes else "-", Text(printable(each.how)),
        )  # fmt: skip
    console.print(table)
    known = [each.seconds for each in costs if each.seconds is not None]
    total, disk = sum(known) / jobs, sum(each.disk_bytes for each in costs)
    more = " for the cells whose time is known" * (len(known) < len(costs))
    print(f"in all about {duration_text(total)} with {jobs} runs at a time{more}, chains of {size_text(disk)}")
    print(f"folder: {request.folder}; nothing was run in it")
