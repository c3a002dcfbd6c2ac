"""`bfl policy compare`: how agents learn, beside each other."""

import csv
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bfl.errors import BflError
from bfl.show.plots import can_plot, plot_lines
from bfl.show.task_display import TaskDisplay
from policy.agents import LEARNERS, Agent
from policy.cache import AgentCache, LearningCurve
from policy.parameters import LatencyParams
from policy.rivals.library import LIBRARY_AGENTS


def cached_agent(cache: AgentCache, name: str, seed: int, console: Console) -> tuple[Agent, LearningCurve | None]:
    """An agent from the cache; if it has to be trained, its progress is shown."""
    with TaskDisplay(console).task(f"train {name}, seed {seed}") as show_progress:
        return cache.agent(name, seed, lambda part, s: show_progress(part, f"T/N {s:.4f} s while learning"))


def compare_agents(
    agents: Sequence[str], folder: Path, effort: float, seeds: int, out: Path, console: Console
) -> list[LearningCurve]:
    """Learning curves of the agents that learn, trained where they are missing: shown, written, drawn."""
    learned = [name for name in agents if name in LEARNERS or name in LIBRARY_AGENTS]
    if not learned or effort <= 0:
        raise BflError("expected --agents with one that learns (see bfl policy agents) and --effort above 0")
    out.mkdir(parents=True, exist_ok=True)
    cache = AgentCache(folder, LatencyParams(), effort)
    curves = [cached_agent(cache, name, seed, console)[1] for name in learned for seed in range(seeds)]
    found = [curve for curve in curves if curve is not None]
    _write_csv(out / "comparison.csv", found)
    table = Table("agent", "seed", "rounds played", "T/N of its decisions, s", title="after training, N = 30")
    for curve in found:
        table.add_row(curve.agent, str(curve.seed), f"{curve.rounds[-1]:,}", f"{curve.final_s:.4f}")
    console.print(table)
    if can_plot():
        lines = {f"{curve.agent}, seed {curve.seed}": _points(curve) for curve in found}
        labels = ("rounds of the environment", "T / N while learning (s), N = 30", "Agents while they learn")
        plot_lines(lines, *labels, out / "comparison.png")
    print(f"curves: {out / 'comparison.csv'}, comparison.png")
    return found


def _points(curve: LearningCurve) -> list[tuple[float, float]]:
    return [(float(x), y) for x, y in zip(curve.rounds, curve.per_device_s, strict=True)]


def _write_csv(path: Path, curves: Sequence[LearningCurve]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["agent", "seed", "rounds", "per_device_s"])
        for curve in curves:
            writer.writerows((curve.agent, curve.seed, *point) for point in _points(curve))
