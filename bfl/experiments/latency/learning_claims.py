"""Verdicts on what the paper says of learning curves."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bfl.experiments.claims import INCOMPARABLE, verdict
from bfl.experiments.estimate import Estimate, is_below
from bfl.experiments.figure import ClaimVerdict

LEARNED_PART = 0.1
"""An agent has learned if T/N fell by this part of its first value"""
SETTLED_PART = 0.9
"""An agent has settled when it has made this part of its whole fall"""
STEADIER_PART = 0.9
"""One curve is steadier than another if its jumps are at most this part of the other's"""


@dataclass(frozen=True)
class MeanLearningCurve:
    """A learning curve over the training seeds, and T/N of the decisions at its end."""

    label: str
    rounds: list[int]
    mean_s: list[float]  # T/N of the actions while learning, mean over the seeds
    low_s: list[float]
    high_s: list[float]
    final: Estimate

    @property
    def last_s(self) -> float:
        """Where it ends while still exploring: the mean of the last tenth."""
        return statistics.fmean(self.mean_s[-max(1, len(self.mean_s) // 10) :])

    @property
    def has_learned(self) -> bool:
        """Whether it got better at all."""
        return self.mean_s[0] - self.last_s > LEARNED_PART * self.mean_s[0]

    @property
    def settling_rounds(self) -> float:
        """Rounds until it had made 90 % of its own fall; infinite if it learned nothing."""
        level = self.mean_s[0] - SETTLED_PART * (self.mean_s[0] - self.last_s)
        reached = [at for at, value in zip(self.rounds, self.mean_s, strict=True) if value <= level]
        return reached[0] if self.has_learned and reached else math.inf

    @property
    def roughness_s(self) -> float:
        """Mean change between two points of the second half."""
        half = self.mean_s[len(self.mean_s) // 2 :]
        return statistics.fmean([abs(b - a) for a, b in pairwise(half)] or [0.0])


LearningCurves = Mapping[str, MeanLearningCurve]
"""By label"""


def judge_best(claim: str, curves: LearningCurves, winner: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The winner's decisions end below those of every rival by more than the interval of the difference."""
    return _judge_ends(
        claim, curves, winner, rivals, all(is_below(curves[winner].final, curves[r].final) for r in rivals)
    )


def judge_worst(claim: str, curves: LearningCurves, loser: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The loser's decisions end above those of every rival by more than the interval of the difference."""
    return _judge_ends(
        claim, curves, loser, rivals, all(is_below(curves[r].final, curves[loser].final) for r in rivals)
    )


def _judge_ends(claim: str, curves: LearningCurves, one: str, rivals: Sequence[str], is_so: bool) -> ClaimVerdict:
    told = "at the end " + ", ".join(f"{name} {curves[name].final} s" for name in (one, *rivals))
    return _unless_nobody_learned(claim, told, curves, (one, *rivals), is_so)


def judge_fastest(claim: str, curves: LearningCurves, winner: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The winner settles in fewer rounds than every rival."""
    is_so = all(curves[winner].settling_rounds < curves[rival].settling_rounds for rival in rivals)
    return _unless_nobody_learned(claim, _settling_text(curves, (winner, *rivals)), curves, (winner, *rivals), is_so)


def judge_slowest(claim: str, curves: LearningCurves, loser: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The loser settles in more rounds than every rival."""
    is_so = all(curves[rival].settling_rounds < curves[loser].settling_rounds for rival in rivals)
    return _unless_nobody_learned(claim, _settling_text(curves, (loser, *rivals)), curves, (loser, *rivals), is_so)


def _settling_text(curves: LearningCurves, names: Sequence[str]) -> str:
    def text(name: str) -> str:
        settled = curves[name].settling_rounds
        return f"{name} does not learn" if math.isinf(settled) else f"{name} {settled:,.0f}"

    return "rounds to 90 % of its fall: " + ", ".join(text(name) for name in names)


def judge_steadiest(claim: str, curves: LearningCurves, winner: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The winner's curve jumps less than every rival's in its second half, by a tenth."""
    told = "mean jump in the second half: "
    told += ", ".join(f"{name} {1e3 * curves[name].roughness_s:.1f} ms" for name in (winner, *rivals))
    is_so = all(curves[winner].roughness_s < STEADIER_PART * curves[rival].roughness_s for rival in rivals)
    return _unless_nobody_learned(claim, told, curves, (winner, *rivals), is_so)


def judge_diverges(claim: str, curves: LearningCurves, name: str) -> ClaimVerdict:
    """It ends above where it once was by a tenth."""
    run = curves[name]
    told = f"{name}: from {run.mean_s[0]:.3f} s, lowest {min(run.mean_s):.3f} s, ends at {run.last_s:.3f} s"
    return ClaimVerdict(claim, told, verdict(run.last_s > (1 + LEARNED_PART) * min(run.mean_s)))


def _unless_nobody_learned(
    claim: str, told: str, curves: LearningCurves, names: Sequence[str], is_so: bool
) -> ClaimVerdict:
    if any(curves[name].has_learned for name in names):
        return ClaimVerdict(claim, told, verdict(is_so))
    falls = [f"{name} {curves[name].mean_s[0]:.3f} -> {curves[name].last_s:.3f} s" for name in names]
    return ClaimVerdict(claim, f"none of them learns: {', '.join(falls)}", INCOMPARABLE)
