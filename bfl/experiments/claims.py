"""Verdicts on what the paper says of a sweep, computed from estimates of the same quantity along an axis."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from bfl.experiments.estimate import Estimate, is_below, percent_below, weighted_sum
from bfl.experiments.figure import ClaimVerdict

HOLDS, FAILS, INCOMPARABLE = "holds", "does not hold", "cannot be compared"
Series = Mapping[str, Sequence[Estimate]]
"""By agent, along the axis"""
FLAT_PART = 0.005
"""A step back by less than this part of the value is a plateau: state by state, even a thousandth can be told apart"""


def verdict(is_so: bool) -> str:
    """`HOLDS` or `FAILS`."""
    return HOLDS if is_so else FAILS


def judge_rises(claim: str, series: Series, ours: str) -> ClaimVerdict:
    """For every agent: the end is above the start, and no step goes clearly the other way."""
    return _judge_moves(claim, series, ours, "rises", 1.0)


def judge_falls(claim: str, series: Series, ours: str) -> ClaimVerdict:
    """For every agent: the end is below the start, and no step goes clearly the other way."""
    return _judge_moves(claim, series, ours, "falls", -1.0)


def _judge_moves(claim: str, series: Series, ours: str, verb: str, sign: float) -> ClaimVerdict:
    def is_move(a: Estimate, b: Estimate, flat: float = 0.0) -> bool:
        step = weighted_sum([(sign, b), (-sign, a)])
        return step.mean > max(step.half_width, flat * abs(a.mean))

    def is_moving(line: Sequence[Estimate]) -> bool:
        return is_move(line[0], line[-1]) and not any(is_move(b, a, FLAT_PART) for a, b in pairwise(line))

    others = [name for name, line in series.items() if not is_moving(line)]
    first, last = series[ours][0].mean, series[ours][-1].mean
    told = f"{ours}: {first:.3f} -> {last:.3f} s ({100 * (last / first - 1):+.1f} %); {verb} for "
    told += f"all {len(series)} agents" if not others else f"{len(series) - len(others)} of {len(series)} agents"
    return ClaimVerdict(claim, told + (f", not for {', '.join(others)}" if others else ""), verdict(not others))


def judge_lowest(claim: str, series: Series, ours: str, rivals: Sequence[str]) -> ClaimVerdict:
    """Ours is below every rival at every point by more than the interval of the difference."""
    points = range(len(series[ours]))
    missed = {r: sum(not is_below(series[ours][i], series[r][i]) for i in points) for r in rivals}
    mean = {r: statistics.fmean(percent_below(series[ours][i], series[r][i])[0] for i in points) for r in rivals}
    told = "on average " + ", ".join(f"{distance_text(percent)} {rival}" for rival, percent in mean.items())
    beaten = [f"{rival} ({count} of {len(points)} points)" for rival, count in missed.items() if count]
    told += f"; not clearly below: {', '.join(beaten)}" if beaten else f"; clearly at all {len(points)} points"
    return ClaimVerdict(claim, told, verdict(not beaten))


def distance_text(percent: float) -> str:
    """As in "12.3 % below"."""
    return f"{abs(percent):.1f} % {'below' if percent >= 0 else 'above'}"


def judge_far_below(
    claim: str, ours: Estimate, rival: Estimate, claimed: float, room: tuple[Estimate, Estimate]
) -> ClaimVerdict:
    """Ours is at least `claimed` % below the rival, within the interval.

    Where not even the near-optimum, `room[0]`, is so far below random decisions, `room[1]`, no agent can be, unless
    the rival is worse than chance: then there is nothing to compare.
    """
    percent, half_width = percent_below(ours, rival)
    ceiling, _ = percent_below(*room)
    told = f"{distance_text(percent)} (± {half_width:.1f})"
    if claimed > ceiling:
        return ClaimVerdict(
            claim, f"{told}; the near-optimum is {distance_text(ceiling)} random decisions", INCOMPARABLE
        )
    return ClaimVerdict(claim, told, verdict(percent >= claimed - half_width))


def judge_knee(claim: str, xs: Sequence[float], line: Sequence[Estimate], at: float, unit: str) -> ClaimVerdict:
    """It falls up to `at`, and beyond less steeply by more than the interval of the difference."""
    middle = list(xs).index(at)
    start, here, end = line[0], line[middle], line[-1]
    left, right = 1 / (at - xs[0]), 1 / (xs[-1] - at)
    before, after = (here.mean - start.mean) * left, (end.mean - here.mean) * right
    bend = weighted_sum([(right, end), (-right - left, here), (left, start)])
    told = f"{1e3 * before:+.1f} ms per {unit} up to {at:g} {unit}, {1e3 * after:+.1f} ms beyond"
    return ClaimVerdict(claim, told, verdict(before < 0 and abs(after) < abs(before) and bend.mean > bend.half_width))


def judge_steepest(claim: str, series: Series, ours: str, rivals: Sequence[str]) -> ClaimVerdict:
    """Ours loses more seconds from the first to the last point than every rival, beyond the interval."""
    lost = {name: weighted_sum([(1.0, series[name][0]), (-1.0, series[name][-1])]) for name in (ours, *rivals)}
    told = ", ".join(f"{name} {-1e3 * loss.mean:+.0f} ms" for name, loss in lost.items())
    return ClaimVerdict(claim, told, verdict(all(is_below(lost[rival], lost[ours]) for rival in rivals)))


def axis_mean(line: Sequence[Estimate]) -> Estimate:
    """The mean over a whole axis."""
    return weighted_sum([(1 / len(line), point) for point in line])
