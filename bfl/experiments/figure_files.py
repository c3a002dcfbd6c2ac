"""A measured figure as files: a picture, rows for other programs, a page for people."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from bfl.experiments.context import Budget
from bfl.experiments.figure import ClaimVerdict, FigureResult, TextTable

COLUMNS = ["figure", "agent", "quantity", "x", "mean_s", "half_width_s", "seeds", "states"]


def write_figure(result: FigureResult, folder: Path, command: str, budget: Budget) -> None:
    """Write FIGURE.png, FIGURE.csv and FIGURE.md."""
    folder.mkdir(parents=True, exist_ok=True)
    result.draw(folder / f"{result.name}.png")
    with (folder / f"{result.name}.csv").open("w", encoding="utf-8", newline="") as file:
        table = result.csv or _agent_table(result)
        csv.writer(file).writerows([table.header, *table.lines])
    (folder / f"{result.name}.md").write_text(_page(result, command, budget), encoding="utf-8")


def _agent_table(result: FigureResult) -> TextTable:
    """The CSV table of a figure whose rows are latencies of agents, in seconds."""
    lines = []
    for row in result.rows:
        value = row.value
        numbers = [f"{row.x:g}", f"{value.mean:.6g}", f"{value.half_width:.6g}", str(value.seeds), str(value.states)]
        lines.append([result.name, row.agent, row.quantity, *numbers])
    return TextTable(COLUMNS, lines)


def write_summary(
    results: Sequence[FigureResult], folder: Path, command: str, budget: Budget, skipped: Mapping[str, str]
) -> None:
    """summary.md: what the paper claims of all figures; `skipped` says why some could not be made."""
    parts = ["# The paper's figures, measured again", _made_with(command, budget)]
    for result in results:
        parts += [f"## [{result.title}]({result.name}.md)", *[f"{result.spent}."] * bool(result.spent)]
        parts += [claims_table(result.verdicts)]
    if skipped:
        parts += ["## Not made", "\n".join(f"- {name}: {why}" for name, why in skipped.items())]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def claims_table(verdicts: Sequence[ClaimVerdict]) -> str:
    """Claims, measurements and verdicts in Markdown."""
    return markdown_table(
        ["the paper claims", "we measured", "verdict"],
        [[finding.claim, finding.measured, f"**{finding.verdict}**"] for finding in verdicts],
    )


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _page(result: FigureResult, command: str, budget: Budget) -> str:
    parts = [
        f"# {result.title}",
        f"![{result.title}]({result.name}.png)",
        f"Made with `{command}`: {result.spent}." if result.spent else _made_with(command, budget),
        "## Measurements",
        markdown_table(result.table.header, result.table.lines),
        "\n".join(f"- {note}" for note in result.notes),
        "## The paper's claims",
        claims_table(result.verdicts),
    ]
    return "\n\n".join(parts) + "\n"


def _made_with(command: str, budget: Budget) -> str:
    seeds = f"{budget.seeds} training seed{'s' * (budget.seeds > 1)}"
    part = "" if budget.effort == 1 else f" ({100 * budget.effort:g} % of the whole training: a quick look)"
    optimum = f"near-optimum in the first {budget.optimum_states}"
    return f"Made with `{command}`: {seeds}{part}, {budget.states} states, {optimum}."
