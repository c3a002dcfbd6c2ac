"""Means with intervals, and differences of means that were measured in the same states."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from policy.evaluation import half_width


@dataclass(frozen=True)
class Estimate:
    """A mean, and how far off it may be."""

    mean: float
    half_width: float
    seeds: int = 1
    states: int = 0
    scores: list[list[float]] = field(default_factory=list, repr=False)
    """Of every seed in every state, where it was made of these"""

    @property
    def spread(self) -> float:
        """Half of the distance between the best and the worst seed."""
        means = [statistics.fmean(values) for values in self.scores]
        return (max(means) - min(means)) / 2 if means else 0.0

    @property
    def by_state(self) -> list[float]:
        """Of every state, the mean over the seeds."""
        return [statistics.fmean(values) for values in zip(*self.scores, strict=True)]

    def times(self, factor: float) -> "Estimate":
        """The same in another unit."""
        scores = [[factor * value for value in values] for values in self.scores]
        return Estimate(factor * self.mean, abs(factor) * self.half_width, self.seeds, self.states, scores)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half_width:.3f}"


def estimate_mean(scores: Sequence[Sequence[float]]) -> Estimate:
    """The mean over the values of every training seed in the same states, with its half width.

    The half width is the larger of the 95 % interval over the states and half of the spread between the seeds.
    """
    plain = Estimate(0.0, 0.0, len(scores), len(scores[0]), [list(values) for values in scores])
    mean, width = statistics.fmean(plain.by_state), max(half_width(np.array(plain.by_state)), plain.spread)
    return Estimate(mean, width, plain.seeds, plain.states, plain.scores)


def weighted_sum(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """A sum of weighted estimates of one agent, state by state and seed by seed where both are known."""
    if all(part.scores for _, part in parts):
        weighted = [part.times(weight).scores for weight, part in parts]
        return estimate_mean([[sum(values) for values in zip(*rows)] for rows in zip(*weighted)])  # noqa: B905 - first states
    width = math.hypot(*(weight * part.half_width for weight, part in parts))
    return Estimate(sum(weight * part.mean for weight, part in parts), width, parts[0][1].seeds, parts[0][1].states)


def difference(upper: Estimate, lower: Estimate) -> Estimate:
    """Upper minus lower, in the states both agents have seen; the seeds of one have nothing to do with the other's."""
    if not (upper.scores and lower.scores):
        return weighted_sum([(1.0, upper), (-1.0, lower)])
    apart = [a - b for a, b in zip(upper.by_state, lower.by_state)]  # noqa: B905 - the first states are the same
    width = max(half_width(np.array(apart)), math.hypot(upper.spread, lower.spread))
    return Estimate(statistics.fmean(apart), width, min(upper.seeds, lower.seeds), len(apart))


def is_below(lower: Estimate, upper: Estimate) -> bool:
    """Whether one agent is below another by more than the interval of the difference."""
    apart = difference(upper, lower)
    return apart.mean > apart.half_width


def percent_below(lower: Estimate, upper: Estimate) -> tuple[float, float]:
    """How many per cent the one is below the other in the same states, and half of the interval."""
    equal = upper.mean - difference(upper, lower).mean  # the mean of the lower one in the upper one's states
    ratio = equal / upper.mean
    return 100 * (1 - ratio), 100 * difference(upper.times(ratio), lower).half_width / upper.mean
