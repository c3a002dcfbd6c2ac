"""Agents over numbers of devices, as tables for a terminal, a CSV file, a page and a picture."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from bfl.experiments.figure_files import markdown_table
from bfl.show.plots import can_plot, plot_lines
from policy.agents import OPTIMUM
from policy.evaluation import Ratio, Score, ratio

PLUS_MINUS = "± is the standard deviation over training seeds where there are several, else half of the 95 % interval."


@dataclass(frozen=True)
class AgentRow:
    """An agent over numbers of devices; one score for each training seed."""

    agent: str
    scores: dict[int, list[Score]]

    @property
    def seeds(self) -> int:
        """Training seeds."""
        return max((len(found) for found in self.scores.values()), default=0)

    @property
    def decide_ms(self) -> float:
        """Milliseconds of a decision, states taken in chunks, the mean over numbers of devices."""
        return float(np.mean([score.decide_ms for found in self.scores.values() for score in found]))

    def latency_text(self, devices: int) -> str:
        """T / N, the mean over seeds, and how far off it may be."""
        found = self.scores.get(devices)
        if not found:
            return "-"
        return _mean_text([score.mean_s for score in found], found[0].half_width_s)

    def ratios(self, devices: int, yardstick: "AgentRow") -> list[Ratio]:
        """Over the yardstick on the same states, for each seed."""
        best = yardstick.scores[devices][0].per_state_s
        return [ratio(score.per_state_s, best) for score in self.scores.get(devices, [])]

    def ratio_text(self, devices: int, yardstick: "AgentRow") -> str:
        """The ratios as text: mean and how far off it may be."""
        found = self.ratios(devices, yardstick)
        return _mean_text([each.value for each in found], found[0].half_width) if found else "-"

    def wall_text(self, devices: int) -> str:
        """Mean T_wall as text, - if there is none."""
        found = self.scores.get(devices)
        return f"{np.mean([score.wall_s for score in found]):.2f}" if found else "-"


def _mean_text(values: list[float], half_width: float) -> str:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else half_width
    return f"{np.mean(values):.3f} ± {spread:.3f}"


def latency_table(rows: Sequence[AgentRow], devices: Sequence[int], title: str) -> Table:
    """T / N by agent and number of devices."""
    table = Table("agent", *_columns(devices), "ms per state", title=f"T/N in s; {title}", title_justify="left")
    for row in rows:
        table.add_row(row.agent, *(row.latency_text(n) for n in devices), f"{row.decide_ms:.2f}")
    return table


def ratio_table(rows: Sequence[AgentRow], yardstick: AgentRow, devices: Sequence[int]) -> Table:
    """Every agent over the near-optimum on the same states."""
    table = Table("agent", *_columns(devices), title=f"over the {OPTIMUM}", title_justify="left")
    for row in rows:
        table.add_row(row.agent, *(row.ratio_text(n, yardstick) for n in devices))
    return table


def _columns(devices: Sequence[int]) -> list[str]:
    return [f"N = {n}" for n in devices]


def write_page(
    path: Path, rows: Sequence[AgentRow], yardstick: AgentRow | None, devices: Sequence[int], title: str, command: str
) -> None:
    """The tables in Markdown."""
    columns = _columns(devices)
    lines = [[row.agent, str(row.seeds), *map(row.latency_text, devices), f"{row.decide_ms:.2f}"] for row in rows]
    parts = [
        f"T/N in s; {title}. {PLUS_MINUS} Made with `{command}`.",
        markdown_table(["agent", "seeds", *columns, "ms per state"], lines),
    ]
    if yardstick:
        over = [[row.agent, *(row.ratio_text(n, yardstick) for n in devices)] for row in rows]
        parts += [f"T/N over that of the {OPTIMUM} on the same states:", markdown_table(["agent", *columns], over)]
    walls = [[row.agent, *map(row.wall_text, devices)] for row in rows]
    parts += ["T_wall in s, which none of them minimises:", markdown_table(["agent", *columns], walls)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def write_csv(path: Path, rows: Sequence[AgentRow], yardstick: AgentRow | None) -> None:
    """One line for each agent, number of devices and training seed."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["mean_s", "half_width_s", "over_optimum", "over_optimum_half_width", "wall_s", "decide_ms"]
        writer.writerow(["agent", "devices", "seed", "states", *names])
        for row in rows:
            for devices, found in row.scores.items():
                over = row.ratios(devices, yardstick) if yardstick else [None] * len(found)
                for seed, (score, each) in enumerate(zip(found, over, strict=True)):
                    relative = [f"{each.value:.5f}", f"{each.half_width:.5f}"] if each else ["", ""]
                    numbers = [f"{score.mean_s:.6f}", f"{score.half_width_s:.6f}", *relative]
                    last = [f"{score.wall_s:.4f}", f"{score.decide_ms:.3f}"]
                    writer.writerow([row.agent, devices, seed, score.per_state_s.size, *numbers, *last])


def write_picture(path: Path, rows: Sequence[AgentRow], title: str) -> str:
    """T / N over the number of devices; what to add to a list of files."""
    if not can_plot():
        return ""
    lines = {
        row.agent: [(float(n), float(np.mean([s.mean_s for s in found]))) for n, found in row.scores.items()]
        for row in rows
    }
    plot_lines(lines, "devices N", "T / N (s)", f"Latency per device, {title}", path, dashed=OPTIMUM)
    return ", evaluation.png"
