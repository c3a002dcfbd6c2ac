"""Numbers of federated runs: curves over the rounds, their ends, and what an attack costs."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bfl.experiments.estimate import Estimate, estimate_mean, weighted_sum
from bfl.experiments.learning.trials import RoundRecord
from bfl.show.measures import LAST_EVALUATIONS

PARTITIONS = {"iid": "IID", "non-iid": "non-IID"}
Read = Callable[[RoundRecord], float]


def accuracy(line: RoundRecord) -> float:
    """Test accuracy in per cent; NaN in a round without evaluation."""
    return math.nan if line["accuracy"] is None else 100 * float(line["accuracy"])


def loss(line: RoundRecord) -> float:
    """Test loss; NaN where there is none, or where it is none any more."""
    return math.nan if line["loss"] is None else float(line["loss"])


def divergence_of(line: RoundRecord) -> float:
    """Xi, the divergence of the servers' aggregates (Definition 1)."""
    return float(line["divergence"])


@dataclass(frozen=True)
class SeedCurve:
    """One quantity over the rounds: mean, lowest and highest seed."""

    rounds: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


def curve_over_seeds(runs: Sequence[Sequence[RoundRecord]], read: Read) -> SeedCurve:
    """Mean, lowest and highest value over the runs of all seeds, in the rounds that were evaluated."""
    points = [
        (lines[0]["round"], [read(line) for line in lines])
        for lines in zip(*runs, strict=True)
        if lines[0]["accuracy"] is not None
    ]
    values = [seeds for _, seeds in points]
    return SeedCurve(
        [at for at, _ in points],
        [statistics.fmean(v) for v in values],
        [min(v) for v in values],
        [max(v) for v in values],
    )


def final_mean(runs: Sequence[Sequence[RoundRecord]], read: Read) -> Estimate:
    """The mean of the last five evaluations; each seed's five are kept, so that differences are taken one by one."""
    return estimate_mean(
        [[read(line) for line in run if line["accuracy"] is not None][-LAST_EVALUATIONS:] for run in runs]
    )


def seedwise_difference(upper: Estimate, lower: Estimate) -> Estimate:
    """Upper minus lower of two schemes, seed by seed: the same seed has the same shares and the same first model."""
    return weighted_sum([(1.0, upper), (-1.0, lower)])


def accuracy_drop(honest: Sequence[RoundRecord], attacked: Sequence[RoundRecord], round_: int) -> float:
    """Points of accuracy that an attack costs in the round in which it happens.

    Against the honest run of the same seed, which is the same run up to the round before (docs/attacks.md): never
    acc(k-1) - acc(k), in which a round's own progress would hide. `ValueError` if the two had parted before.
    """
    for before, there in zip(honest[: round_ - 1], attacked, strict=False):
        if (before["divergence"], before["leader"]) != (there["divergence"], there["leader"]):
            raise ValueError(f"found runs that part in round {before['round']}, expected no difference before {round_}")
    return accuracy(honest[round_ - 1]) - accuracy(attacked[round_ - 1])


def seed_range(values: Sequence[float]) -> Estimate:
    """A mean, and half of the distance between the lowest and the highest."""
    return Estimate(statistics.fmean(values), (max(values) - min(values)) / 2, len(values))


def estimate_text(value: Estimate, digits: int = 2) -> str:
    """Mean and half width; of one seed without an interval the mean alone."""
    interval = f" ± {value.half_width:.{digits}f}" if value.seeds > 1 or value.half_width else ""
    return f"{value.mean:.{digits}f}{interval}"


def seeds_text(count: int) -> str:
    """A number of seeds in words."""
    return f"{count} seed{'s' * (count > 1)}"
