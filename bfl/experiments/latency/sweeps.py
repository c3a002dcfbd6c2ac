"""Figures of the latency against one number of the world: devices, consensus rounds, power, bandwidth, hash power."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bfl.experiments.context import ExperimentContext
from bfl.experiments.estimate import Estimate, estimate_mean
from bfl.experiments.figure import AgentPoint, ClaimVerdict, Figure, FigureResult, TextTable
from bfl.experiments.latency.agent_variants import Scores, check_agents, check_shipped, scores_in
from bfl.experiments.latency.pictures import draw_sweep
from bfl.experiments.latency.sweep_claims import (
    SweepResult,
    bandwidth_claims,
    consensus_claims,
    device_claims,
    hash_claims,
    power_claims,
)
from policy.agents import OPTIMUM, OURS
from policy.parameters import LatencyParams

AGENTS = ("a2c", "ddpg", "a2c-vanilla", "actor-critic", "dqn", "threshold", "random", OPTIMUM)
UNFAIR = (
    f"A quick look is unfair: {OURS} is fully trained, its rivals are not. Verdicts against rivals are a rehearsal."
)


@dataclass(frozen=True)
class SweepFigure:
    """The same agents in worlds that differ in one number."""

    name: str
    title: str
    axis: str
    field: str
    """Of `LatencyParams`"""
    values: tuple[float, ...]
    claims: Callable[[SweepResult], list[ClaimVerdict]]
    factor: float = 1.0
    """From the axis's unit to that of the field"""

    def check(self) -> None:
        """Every agent can be trained here or is there."""
        check_agents(list(AGENTS))
        check_shipped()

    def worlds(self) -> list[LatencyParams]:
        """One for every value of the axis."""
        plain = LatencyParams()
        kind = type(getattr(plain, self.field))
        changes: list[dict[str, Any]] = [{self.field: kind(value * self.factor)} for value in self.values]
        return [replace(plain, **change) for change in changes]

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Measure every agent in every world."""
        worlds = self.worlds()
        scores = {agent: [scores_in(context, agent, world) for world in worlds] for agent in AGENTS}
        series = {agent: [estimate_mean(found) for found in line] for agent, line in scores.items()}
        sweep = SweepResult(list(self.values), [world.devices for world in worlds], series)

        def draw(path: Path) -> None:
            draw_sweep(path, self.title, self.axis, sweep)

        notes = _notes(context, series)
        return FigureResult(
            self.name, self.title, _rows(sweep), self._table(sweep, scores), self.claims(sweep), notes, draw
        )

    def _table(self, sweep: SweepResult, scores: dict[str, list[Scores]]) -> TextTable:
        header = [f"T/N (s) \\ {self.axis}", *(f"{value:g}" for value in self.values)]
        lines = [[agent, *(str(point) for point in line)] for agent, line in sweep.series.items()]
        if OPTIMUM in scores:
            gaps = [_gap(ours[0], best[0]) for ours, best in zip(scores[OURS], scores[OPTIMUM], strict=True)]
            lines.append([f"{OURS} above {OPTIMUM}, same states", *(f"{100 * gap:.1f} %" for gap in gaps)])
        if len(set(sweep.devices)) > 1:
            lines.append([f"T of {OURS} (s)", *(f"{point.mean:.1f}" for point in sweep.totals[OURS])])
        return TextTable(header, lines)


def _gap(ours: list[float], optimum: list[float]) -> float:
    return statistics.fmean(ours[: len(optimum)]) / statistics.fmean(optimum) - 1


def _rows(sweep: SweepResult) -> list[AgentPoint]:
    per_device = [
        AgentPoint(agent, "T/N", x, point)
        for agent, line in sweep.series.items()
        for x, point in zip(sweep.xs, line, strict=True)
    ]
    totals = [
        AgentPoint(agent, "T", x, point)
        for agent, line in sweep.totals.items()
        for x, point in zip(sweep.xs, line, strict=True)
    ]
    return per_device + totals


def _notes(context: ExperimentContext, series: dict[str, list[Estimate]]) -> list[str]:
    optimum = series[OPTIMUM][0].states if OPTIMUM in series else 0
    trained = (
        "trained anew in every world of the sweep (--retrain)"
        if context.budget.is_retrained
        else "trained at the default parameters (N = 30) and used as they are"
    )
    return [
        f"{OURS} is the policy in the package: training seed 0, whatever the others do. The learned rivals are "
        f"{trained}. Agents of our own learn with 3 to 100 devices in any case.",
        "T/N is the latency per device; T = N T/N is the paper's system latency.",
        f"The near-optimum was searched in the first {optimum} of the states.",
        "± is the larger of the 95 % interval over the states and half of the spread between the training seeds. All "
        "agents see the same states, so verdicts rest on differences state by state, which are known better than ±.",
        *([UNFAIR] if context.budget.effort < 1 else []),
    ]


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        SweepFigure(
            "devices", "Latency with different numbers of devices", "devices N", "devices",
            (20, 40, 60, 80, 100), device_claims,
        ),
        SweepFigure(
            "consensus-rounds", "Latency against the rounds of consensus", "consensus rounds φ", "phi",
            (0, 5, 10, 15, 20), consensus_claims,
        ),
        SweepFigure(
            "power", "Latency against the transmit power", "P_max (dBm)", "power_max_dbm",
            (10, 15, 20, 25, 30), power_claims,
        ),
        SweepFigure(
            "bandwidth", "Latency against the bandwidth", "W (MHz)", "bandwidth_hz",
            (20, 22.5, 25, 27.5, 30), bandwidth_claims, 1e6,
        ),
        SweepFigure(
            "hash", "Latency against the hash power", "Ψ_max (TH/s)", "hash_budget_hashes_per_s",
            (5, 10, 15, 20, 25), hash_claims, 1e12,
        ),
    )
}  # fmt: skip
