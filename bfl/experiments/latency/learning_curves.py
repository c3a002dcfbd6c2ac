"""Figures of learning curves: rates of the actor and the critic, action spaces, schemes."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bfl.experiments.context import Bench
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import ClaimVerdict, Figure, Result, Row, Table
from bfl.experiments.latency.agent_variants import Contender, check_agents, final_estimate, learned
from bfl.experiments.latency.learning_claims import Learned, Race, best, diverges, fastest, slowest, steadiest, worst
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
class CurveFigure:
    """Contenders learn in the default world."""

    name: str
    title: str
    contenders: tuple[Contender, ...]
    claims: Callable[[Race], list[ClaimVerdict]]
    notes: tuple[str, ...] = ()

    def check(self) -> None:
        """Every contender can be trained here."""
        check_agents([contender.agent for contender in self.contenders])

    def measured(self, bench: Bench) -> Result:
        """Train every contender with every seed, and measure what it decides at the end."""
        race = {contender.label: run_of(bench, contender) for contender in self.contenders}

        def draw(path: Path) -> None:
            draw_curves(path, self.title, list(race.values()))

        return Result(self.name, self.title, _rows(race), _table(race), self.claims(race), [*NOTES, *self.notes], draw)


def run_of(bench: Bench, contender: Contender) -> Learned:
    """The learning curves of all seeds as one."""
    curves = []
    for seed in range(bench.budget.seeds):
        curve = learned(bench, contender, seed, LatencyParams())[1]
        if curve is None:
            raise ValueError(f"{contender.agent} does not learn")
        curves.append(curve)
    points = list(zip(*(curve.per_device_s for curve in curves), strict=True))
    return Learned(
        label=contender.label,
        rounds=curves[0].rounds,
        mean_s=[statistics.fmean(point) for point in points],
        low_s=[min(point) for point in points],
        high_s=[max(point) for point in points],
        final=final_estimate(bench, contender),
    )


def _rows(race: Race) -> list[Row]:
    rows = []
    for label, run in race.items():
        for at, mean, low, high in zip(run.rounds, run.mean_s, run.low_s, run.high_s, strict=True):
            rows.append(Row(label, LEARNING, at, Estimate(mean, (high - low) / 2, run.final.seeds, 0)))
        rows.append(Row(label, DECIDING, run.rounds[-1], run.final))
    return rows


def _table(race: Race) -> Table:
    header = ["agent", "rounds", "T/N while learning, first (s)", "last (s)", "T/N of decisions at the end (s)"]
    lines = [
        [label, f"{run.rounds[-1]:,}", f"{run.mean_s[0]:.3f}", f"{run.last_s:.3f}", str(run.final)]
        for label, run in race.items()
    ]
    return Table(header, lines)


def _actor_claims(race: Race) -> list[ClaimVerdict]:
    low, middle, high = (f"actor rate {rate}" for rate in ("0.001", "0.003", "0.005"))
    return [
        best("actor rate 0.003 gives the highest reward", race, middle, (low, high)),
        fastest("actor rate 0.003 converges fastest", race, middle, (low, high)),
        slowest("actor rate 0.001 converges slowest", race, low, (middle, high)),
        diverges("actor rate 0.005 is unstable and diverges", race, high),
    ]


def _critic_claims(race: Race) -> list[ClaimVerdict]:
    middle, others = "critic rate 0.02", ("critic rate 0.002", "critic rate 0.2")
    return [
        best("critic rate 0.02 is the best of three", race, middle, others),
        steadiest("critic rate 0.02 is the most stable", race, middle, others),
    ]


def _space_claims(race: Race) -> list[ClaimVerdict]:
    relaxed, discretised = "a2c-relaxed", "a2c-discretised"
    return [
        best("ours has the best reward of the action spaces", race, "a2c", (relaxed, discretised)),
        worst("the approximated (discretised) space has the lowest reward", race, discretised, ("a2c", relaxed)),
        fastest("the relaxed space needs longer (4,000 episodes against 2,500)", race, "a2c", (relaxed,)),
    ]


def _scheme_claims(race: Race) -> list[ClaimVerdict]:
    rivals = ("a2c-vanilla", "actor-critic", "ddpg", "dqn")
    return [
        best("ours has the best reward of the schemes", race, "a2c", rivals),
        fastest("ours converges fastest", race, "a2c", rivals),
        best("DDPG outperforms standard A2C", race, "ddpg", ("a2c-vanilla",)),
        worst(
            "the deep Q-network has the lowest reward (a comment in the paper's source)",
            race,
            "dqn",
            ("a2c", *rivals[:3]),
        ),
    ]


def _named(*names: str) -> tuple[Contender, ...]:
    return tuple(Contender(name, name) for name in names)


_ACTOR_RATES = (0.001, 0.003, 0.005, 0.1, 0.3, 1.0)
_CRITIC_RATES = (0.002, 0.003, 0.02, 0.2)
FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        CurveFigure(
            "actor-rate",
            "Learning with different step sizes of the actor",
            tuple(Contender(f"actor rate {rate:g}", "a2c", actor_rate=rate) for rate in _ACTOR_RATES),
            _actor_claims,
            (
                "The rate is where the line search begins, as a part of the largest step in the trust region (A28). "
                "The paper's 0.001 to 0.005 move the policy by a KL of about 1e-7 to 1e-6 an update; 1 is ours.",
            ),
        ),
        CurveFigure(
            "critic-rate",
            "Learning with different learning rates of the critic",
            tuple(Contender(f"critic rate {rate:g}", "a2c", critic_rate=rate) for rate in _CRITIC_RATES),
            _critic_claims,
            ("0.003 is ours.",),
        ),
        CurveFigure(
            "action-spaces",
            "Learning in different action spaces",
            _named("a2c", "a2c-relaxed", "a2c-discretised"),
            _space_claims,
        ),
        CurveFigure(
            "schemes",
            "Learning with different schemes",
            _named("a2c", "a2c-vanilla", "actor-critic", "ddpg", "dqn", "a2c-paper"),
            _scheme_claims,
            ("a2c-paper: the paper's flat networks and one reward for all devices; all others share weights.",),
        ),
    )
}
