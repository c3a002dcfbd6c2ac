"""Figures of learning curves: rates of the actor and the critic, action spaces, schemes."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bfl.experiments.context import ExperimentContext
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import AgentPoint, ClaimVerdict, Figure, FigureResult, TextTable
from bfl.experiments.latency.agent_variants import AgentVariant, check_agents, final_estimate, train_or_load
from bfl.experiments.latency.learning_claims import (
    LearningCurves,
    MeanLearningCurve,
    judge_best,
    judge_diverges,
    judge_fastest,
    judge_slowest,
    judge_steadiest,
    judge_worst,
)
from bfl.experiments.latency.pictures import draw_curves
from policy.parameters import LatencyParams

LEARNING, DECIDING = "T/N while learning", "T/N of decisions at the end"
NOTES = [
    "The curves show T/N, the latency per device, of the actions while learning (lower is better) instead of the "
    "paper's reward, which falls as T/N rises. Exploration is part of it.",
    "The table shows T/N of the trained agent's decisions in fresh states of the default world (N = 30).",
    "± is the larger of the 95 % interval over the states and half of the spread between the training seeds; the band "
    "of a curve spans the seeds.",
]


@dataclass(frozen=True)
class LearningCurveFigure:
    """Learning curves of several agents or settings in the default world."""

    name: str
    title: str
    variants: tuple[AgentVariant, ...]
    claims: Callable[[LearningCurves], list[ClaimVerdict]]
    notes: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `PolicyError` unless every agent can be trained here."""
        check_agents([variant.agent for variant in self.variants])

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Train every variant with every seed, and measure what it decides at the end."""
        curves = {variant.label: mean_learning_curve(context, variant) for variant in self.variants}

        def draw(path: Path) -> None:
            draw_curves(path, self.title, list(curves.values()))

        return FigureResult(
            self.name, self.title, _rows(curves), _table(curves), self.claims(curves), [*NOTES, *self.notes], draw
        )


def mean_learning_curve(context: ExperimentContext, variant: AgentVariant) -> MeanLearningCurve:
    """Mean and range of the learning curves of all seeds, with the latency of the final decisions."""
    curves = []
    for seed in range(context.budget.seeds):
        curve = train_or_load(context, variant, seed, LatencyParams())[1]
        if curve is None:
            raise ValueError(f"{variant.agent} does not learn")
        curves.append(curve)
    points = list(zip(*(curve.per_device_s for curve in curves), strict=True))
    return MeanLearningCurve(
        label=variant.label,
        rounds=curves[0].rounds,
        mean_s=[statistics.fmean(point) for point in points],
        low_s=[min(point) for point in points],
        high_s=[max(point) for point in points],
        final=final_estimate(context, variant),
    )


def _rows(curves: LearningCurves) -> list[AgentPoint]:
    rows = []
    for label, run in curves.items():
        for at, mean, low, high in zip(run.rounds, run.mean_s, run.low_s, run.high_s, strict=True):
            rows.append(AgentPoint(label, LEARNING, at, Estimate(mean, (high - low) / 2, run.final.seeds, 0)))
        rows.append(AgentPoint(label, DECIDING, run.rounds[-1], run.final))
    return rows


def _table(curves: LearningCurves) -> TextTable:
    header = ["agent", "rounds", "T/N while learning, first (s)", "last (s)", "T/N of decisions at the end (s)"]
    lines = [
        [label, f"{run.rounds[-1]:,}", f"{run.mean_s[0]:.3f}", f"{run.last_s:.3f}", str(run.final)]
        for label, run in curves.items()
    ]
    return TextTable(header, lines)


def _actor_claims(curves: LearningCurves) -> list[ClaimVerdict]:
    low, middle, high = (f"actor rate {rate}" for rate in ("0.001", "0.003", "0.005"))
    return [
        judge_best("actor rate 0.003 gives the highest reward", curves, middle, (low, high)),
        judge_fastest("actor rate 0.003 converges fastest", curves, middle, (low, high)),
        judge_slowest("actor rate 0.001 converges slowest", curves, low, (middle, high)),
        judge_diverges("actor rate 0.005 is unstable and diverges", curves, high),
    ]


def _critic_claims(curves: LearningCurves) -> list[ClaimVerdict]:
    middle, others = "critic rate 0.02", ("critic rate 0.002", "critic rate 0.2")
    return [
        judge_best("critic rate 0.02 is the best of three", curves, middle, others),
        judge_steadiest("critic rate 0.02 is the most stable", curves, middle, others),
    ]


def _space_claims(curves: LearningCurves) -> list[ClaimVerdict]:
    relaxed, discretised = "a2c-relaxed", "a2c-discretised"
    return [
        judge_best("ours has the best reward of the action spaces", curves, "a2c", (relaxed, discretised)),
        judge_worst(
            "the approximated (discretised) space has the lowest reward", curves, discretised, ("a2c", relaxed)
        ),
        judge_fastest("the relaxed space needs longer (4,000 episodes against 2,500)", curves, "a2c", (relaxed,)),
    ]


def _scheme_claims(curves: LearningCurves) -> list[ClaimVerdict]:
    rivals = ("a2c-vanilla", "actor-critic", "ddpg", "dqn")
    return [
        judge_best("ours has the best reward of the schemes", curves, "a2c", rivals),
        judge_fastest("ours converges fastest", curves, "a2c", rivals),
        judge_best("DDPG outperforms standard A2C", curves, "ddpg", ("a2c-vanilla",)),
        judge_worst(
            "the deep Q-network has the lowest reward (a comment in the paper's source)",
            curves,
            "dqn",
            ("a2c", *rivals[:3]),
        ),
    ]


def _plain_variants(*names: str) -> tuple[AgentVariant, ...]:
    return tuple(AgentVariant(name, name) for name in names)


_ACTOR_RATES = (0.001, 0.003, 0.005, 0.1, 0.3, 1.0)
_CRITIC_RATES = (0.002, 0.003, 0.02, 0.2)
FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        LearningCurveFigure(
            "actor-rate",
            "Learning with different step sizes of the actor",
            tuple(AgentVariant(f"actor rate {rate:g}", "a2c", actor_rate=rate) for rate in _ACTOR_RATES),
            _actor_claims,
            (
                "The rate is where the line search begins, as a part of the largest step in the trust region (A28). "
                "The paper's 0.001 to 0.005 move the policy by a KL of about 1e-7 to 1e-6 an update; 1 is ours.",
            ),
        ),
        LearningCurveFigure(
            "critic-rate",
            "Learning with different learning rates of the critic",
            tuple(AgentVariant(f"critic rate {rate:g}", "a2c", critic_rate=rate) for rate in _CRITIC_RATES),
            _critic_claims,
            ("0.003 is ours.",),
        ),
        LearningCurveFigure(
            "action-spaces",
            "Learning in different action spaces",
            _plain_variants("a2c", "a2c-relaxed", "a2c-discretised"),
            _space_claims,
        ),
        LearningCurveFigure(
            "schemes",
            "Learning with different schemes",
            _plain_variants("a2c", "a2c-vanilla", "actor-critic", "ddpg", "dqn", "a2c-paper"),
            _scheme_claims,
            ("a2c-paper: the paper's flat networks and one reward for all devices; all others share weights.",),
        ),
    )
}
