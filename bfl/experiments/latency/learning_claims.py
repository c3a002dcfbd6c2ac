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
class Learned:
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
    def settled(self) -> float:
        """Rounds until it had made 90 % of its own fall; infinite if it learned nothing."""
        level = self.mean_s[0] - SETTLED_PART * (self.mean_s[0] - self.last_s)
        reached = [at for at, value in zip(self.rounds, self.mean_s, strict=True) if value <= level]
        return reached[0] if self.has_learned and reached else math.inf

    @property
    def roughness_s(self) -> float:
        """Mean change between two points of the second half."""
        half = self.mean_s[len(self.mean_s) // 2 :]
        return statistics.fmean([abs(b - a) for a, b in pairwise(half)] or [0.0])


Race = Mapping[str, Learned]


def best(claim: str, race: Race, winner: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The winner's decisions end below those of every rival by more than the interval of the difference."""
    return _ranked(claim, race, winner, rivals, all(is_below(race[winner].final, race[r].final) for r in rivals))


def worst(claim: str, race: Race, loser: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The loser's decisions end above those of every rival by more than the interval of the difference."""
    return _ranked(claim, race, loser, rivals, all(is_below(race[r].final, race[loser].final) for r in rivals))


def _ranked(claim: str, race: Race, one: str, rivals: Sequence[str], is_so: bool) -> ClaimVerdict:
    told = "at the end " + ", ".join(f"{name} {race[name].final} s" for name in (one, *rivals))
    return _unless_nobody_learned(claim, told, race, (one, *rivals), is_so)


def fastest(claim: str, race: Race, winner: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The winner settles in fewer rounds than every rival."""
    is_so = all(race[winner].settled < race[rival].settled for rival in rivals)
    return _unless_nobody_learned(claim, _settling(race, (winner, *rivals)), race, (winner, *rivals), is_so)


def slowest(claim: str, race: Race, loser: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The loser settles in more rounds than every rival."""
    is_so = all(race[rival].settled < race[loser].settled for rival in rivals)
    return _unless_nobody_learned(claim, _settling(race, (loser, *rivals)), race, (loser, *rivals), is_so)


def _settling(race: Race, names: Sequence[str]) -> str:
    def told(name: str) -> str:
        settled = race[name].settled
        return f"{name} does not learn" if math.isinf(settled) else f"{name} {settled:,.0f}"

    return "rounds to 90 % of its fall: " + ", ".join(told(name) for name in names)


def steadiest(claim: str, race: Race, winner: str, rivals: Sequence[str]) -> ClaimVerdict:
    """The winner's curve jumps less than every rival's in its second half, by a tenth."""
    told = "mean jump in the second half: "
    told += ", ".join(f"{name} {1e3 * race[name].roughness_s:.1f} ms" for name in (winner, *rivals))
    is_so = all(race[winner].roughness_s < STEADIER_PART * race[rival].roughness_s for rival in rivals)
    return _unless_nobody_learned(claim, told, race, (winner, *rivals), is_so)


def diverges(claim: str, race: Race, name: str) -> ClaimVerdict:
    """It ends above where it once was by a tenth."""
    run = race[name]
    told = f"{name}: from {run.mean_s[0]:.3f} s, lowest {min(run.mean_s):.3f} s, ends at {run.last_s:.3f} s"
    return ClaimVerdict(claim, told, verdict(run.last_s > (1 + LEARNED_PART) * min(run.mean_s)))


def _unless_nobody_learned(claim: str, told: str, race: Race, names: Sequence[str], is_so: bool) -> ClaimVerdict:
    if any(race[name].has_learned for name in names):
        return ClaimVerdict(claim, told, verdict(is_so))
    falls = [f"{name} {race[name].mean_s[0]:.3f} -> {race[name].last_s:.3f} s" for name in names]
    return ClaimVerdict(claim, f"none of them learns: {', '.join(falls)}", INCOMPARABLE)
