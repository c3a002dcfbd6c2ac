"""`bfl policy evaluate`: agents beside each other and the near-optimum, as tables, a CSV file and a picture."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bfl.errors import BflError
from bfl.experiments.pages import markdown
from bfl.plots import can_plot, plot_lines
from bfl.policy_comparison import shelved
from bfl.watch import Watch
from policy.agents import LEARNERS, OPTIMUM, Agent, fixed_agent, policy_agent
from policy.evaluation import Score, evaluated, ratio
from policy.parameters import LatencyParams
from policy.shelf import Shelf

OURS = "a2c"
ONE_WORLD = ("a2c-paper",)
"""Agents whose networks serve the number of devices they were trained for"""


@dataclass(frozen=True)
class Question:
    """What is evaluated, in which worlds."""

    weights: tuple[Path, ...]
    devices: tuple[int, ...]
    servers: int
    channels: int
    states: int
    agents: tuple[str, ...]
    shelf: Path
    effort: float
    out: Path

    def world(self, devices: int) -> LatencyParams:
        """A world with so many devices."""
        return LatencyParams(devices=devices, servers=self.servers, channels=self.channels)


@dataclass(frozen=True)
class Row:
    """An agent over numbers of devices; one score for each training seed."""

    agent: str
    scores: dict[int, list[Score]]

    def mean_s(self, devices: int) -> float:
        """T / N, the mean over seeds."""
        return float(np.mean([score.mean_s for score in self.scores[devices]]))

    def spread_s(self, devices: int) -> float:
        """Standard deviation over seeds, or half of the 95 % interval if there is one seed."""
        found = self.scores[devices]
        return float(np.std([s.mean_s for s in found], ddof=1)) if len(found) > 1 else found[0].half_width_s


def evaluate_agents(question: Question, console: Console) -> list[Row]:
    """Evaluate, show, write."""
    _check(question)
    rows = [_row(question, name, console) for name in question.agents]
    question.out.mkdir(parents=True, exist_ok=True)
    _write_csv(question.out / "evaluation.csv", rows)
    table = latency_table(rows, question)
    console.print(table)
    yardstick = next((row for row in rows if row.agent == OPTIMUM), None)
    if yardstick:
        console.print(ratio_table(rows, yardstick, question))
    (question.out / "evaluation.md").write_text(_markdown(rows, yardstick, question), encoding="utf-8")
    if can_plot() and len(question.devices) > 1:
        lines = {row.agent: [(float(n), row.mean_s(n)) for n in row.scores] for row in rows}
        title = f"Latency per device, {question.states:,} fresh states, M = {question.servers}, G = {question.channels}"
        plot_lines(lines, "devices N", "T / N (s)", title, question.out / "evaluation.png", dashed=OPTIMUM)
    print(f"table: {question.out / 'evaluation.csv'}, evaluation.md, evaluation.png")
    return rows


def _check(question: Question) -> None:
    if question.states < 2 or question.effort <= 0:
        raise BflError("expected --states of at least 2 and --effort above 0")
    for path in question.weights:
        policy_agent(path)  # what cannot be read is refused before anything is computed
    for devices in question.devices:
        question.world(devices)


def _row(question: Question, name: str, console: Console) -> Row:
    seeds = _agents(question, name, console)
    scores: dict[int, list[Score]] = {}
    worlds = [n for n in question.devices if name not in ONE_WORLD or n == LEARNERS[name].devices[0]]
    total = len(worlds) * len(seeds) * question.states
    with Watch(console).part(f"evaluate {name}") as told:
        done = 0

        def hear(states: int) -> None:
            nonlocal done
            done += states
            told(done / total, f"{done:,} of {total:,} states")

        for devices in worlds:
            world = question.world(devices)
            scores[devices] = [evaluated(name, agent, world, question.states, told=hear) for agent in seeds]
    return Row(name, scores)


def _agents(question: Question, name: str, console: Console) -> list[Agent]:
    """An agent for each training seed there is."""
    if name == OURS and question.weights:
        return [policy_agent(path) for path in question.weights]
    fixed = fixed_agent(name)
    if fixed:
        return [fixed]
    world = LatencyParams(servers=question.servers, channels=question.channels)
    return [shelved(Shelf(question.shelf, world, question.effort), name, 0, console)[0]]


def latency_table(rows: Sequence[Row], question: Question) -> Table:
    """T / N by agent and number of devices."""
    title = f"T/N in s, mean ± 95 % interval or spread over seeds; {question.states:,} fresh states"
    table = Table("agent", *(f"N = {n}" for n in question.devices), "ms per state", title=title, title_justify="left")
    for row in rows:
        table.add_row(row.agent, *_cells(row, question), f"{_decide_ms(row):.1f}")
    return table


def _cells(row: Row, question: Question) -> list[str]:
    return [f"{row.mean_s(n):.3f} ± {row.spread_s(n):.3f}" if n in row.scores else "-" for n in question.devices]


def _decide_ms(row: Row) -> float:
    return float(np.mean([score.decide_ms for found in row.scores.values() for score in found])) if row.scores else 0.0


def ratio_table(rows: Sequence[Row], yardstick: Row, question: Question) -> Table:
    """Every agent over the near-optimum on the same states."""
    table = Table("agent", *(f"N = {n}" for n in question.devices), title=f"over the {OPTIMUM}", title_justify="left")
    for row in rows:
        table.add_row(row.agent, *(_ratio(row, yardstick, n) for n in question.devices))
    return table


def _ratio(row: Row, yardstick: Row, devices: int) -> str:
    if devices not in row.scores:
        return "-"
    best = yardstick.scores[devices][0].per_state_s
    found = [ratio(score.per_state_s, best) for score in row.scores[devices]]
    values = [each.value for each in found]
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else found[0].half_width
    return f"{np.mean(values):.3f} ± {spread:.3f}"


def _markdown(rows: Sequence[Row], yardstick: Row | None, question: Question) -> str:
    header = ["agent", *(f"N = {n}" for n in question.devices)]
    parts = [
        f"T/N in s on {question.states:,} fresh states, M = {question.servers}, G = {question.channels}",
        markdown([*header, "ms per state"], [[r.agent, *_cells(r, question), f"{_decide_ms(r):.1f}"] for r in rows]),
    ]
    if yardstick:
        lines = [[row.agent, *(_ratio(row, yardstick, n) for n in question.devices)] for row in rows]
        parts += [f"Over the {OPTIMUM} on the same states", markdown(header, lines)]
    return "\n\n".join(parts) + "\n"


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "devices", "seed", "states", "mean_s", "half_width_s", "decide_ms"])
        for row in rows:
            for devices, found in row.scores.items():
                for seed, score in enumerate(found):
                    size = score.per_state_s.size
                    writer.writerow(
                        [row.agent, devices, seed, size, score.mean_s, score.half_width_s, f"{score.decide_ms:.3f}"]
                    )
