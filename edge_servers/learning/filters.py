"""Filters of the closed list (P7): run once over all gradients, recomputed bit for bit by any auditor.

What decides or scales here is made of elementwise IEEE operations and comparisons alone. These give the same bits on
any CPU; BLAS and numpy's own sums do not, because the order in which they add depends on the instruction set. Long
sums are therefore folded (`folded_sum`), short ones exact (`math.fsum`). No result depends on the order of the list.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from chain.wire.address import Address
from clients.errors import ParameterError
from clients.parameters import did_you_mean
from clients.plugins import is_named
from clients.vectors import Vector
from edge_servers.learning.aggregation import Exact
from edge_servers.learning.filtered import Filter, Filtered, NamedFilter, with_values
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.learning.own_filter import own_filter
from edge_servers.learning.validation import loss_verdicts
from edge_servers.parameters import Settings

NORM_FACTOR = 3.0
TRIMMED_SHARE = 0.1
VERDICTS = ("loss",)
"""Filters that need private data: the leader's signed statement, an input of the replay (P7)."""
_KRUM_SHARE = 5  # one in five: 20 %


def folded_sum(x: Exact) -> float:
    """Sum of a vector, the second half added onto the first until one value is left. Overwrites `x`.

    Elementwise additions in an order that the length alone fixes: the same bits on any CPU, and some 50 times as
    quick as `math.fsum`.
    """
    while (size := len(x)) > 1:
        half = (size + 1) // 2  # of an odd number the middle one waits for the next fold
        x[: size - half] += x[half:]
        x = x[:half]
    return float(x[0]) if size else 0.0


def norm_per_iteration(gradient: Gradient) -> float:
    """|C_y| / e_y, in portable bits."""
    return math.sqrt(folded_sum(np.square(gradient.values, dtype=np.float64))) / gradient.iterations


def per_iteration(gradient: Gradient) -> Exact:
    """C_y / e_y, in which nodes with many and with few iterations compare."""
    # Adding 0 turns -0.0 into 0.0: a sort takes the two for equal, and which comes first differs between CPUs.
    return gradient.values.astype(np.float64) / gradient.iterations + 0.0


def no_filter(closed: Sequence[Gradient]) -> Filtered:
    """The list as it is."""
    return Filtered(tuple(closed))


def norm_clip(closed: Sequence[Gradient], factor: float = NORM_FACTOR) -> Filtered:
    """Scale gradients whose norm per iteration exceeds `factor` times the median of the list down to just that."""
    norms = [norm_per_iteration(gradient) for gradient in closed]
    limit = factor * statistics.median(norms)
    return with_values(
        closed,
        [
            g.values.astype(np.float64) * (limit / length) if length > limit else None
            for g, length in zip(closed, norms, strict=True)
        ],
    )


def trimmed_mean(closed: Sequence[Gradient], share: float = TRIMMED_SHARE) -> Filtered:
    """Per coordinate of C_y / e_y, replace what lies outside the middle by the unweighted mean of the middle.

    The middle is what is left without the floor(share * n) smallest and as many largest values, at least one each.
    It is summed in ascending order of value, which like P8's order of address does not depend on the order of arrival.
    """
    cut = max(1, math.floor(share * len(closed)))
    rows = [per_iteration(gradient) for gradient in closed]
    middle = np.sort(np.stack(rows), axis=0)[cut : len(closed) - cut]  # (middle, parameters)
    mean = np.zeros_like(middle[0])
    for row in middle:
        mean += row
    low, high = middle[0], middle[-1]
    mean = np.clip(mean / len(middle), low, high)  # rounding must not carry it out of the middle
    values = []
    for gradient, row in zip(closed, rows, strict=True):
        outside = (row < low) | (row > high)
        values.append(np.where(outside, mean * gradient.iterations, gradient.values) if outside.any() else None)
    return with_values(closed, values)


def coordinate_median(closed: Sequence[Gradient]) -> Filtered:
    """Replace every gradient by the coordinate-wise median of C_y / e_y, times its own e_y."""
    ordered = np.sort(np.stack([per_iteration(gradient) for gradient in closed]), axis=0)
    median = (ordered[(len(closed) - 1) // 2] + ordered[len(closed) // 2]) / 2
    return with_values(closed, [median * gradient.iterations for gradient in closed])


def krum(closed: Sequence[Gradient], outliers: int | None = None) -> Filtered:
    """Multi-Krum: keep the n - f gradients with the lowest `krum_scores`, f = `outliers`; ties by address.

    Without f: one in five, at least one. Krum promises nothing with n < 2 f + 3 gradients: then all are kept.
    """
    n = len(closed)
    f = max(1, n // _KRUM_SHARE) if outliers is None else outliers
    if n < 2 * f + 3:
        return Filtered(tuple(closed))
    ranked = sorted(zip(krum_scores(closed, n - f - 2), (g.sender for g in closed), strict=True))
    highest = ranked[n - f - 1][0]
    removed = {
        sender: f"found {score:g} as sum of squared distances to its {n - f - 2} nearest, expected at most {highest:g}"
        for score, sender in ranked[n - f :]
    }
    return Filtered(tuple(g for g in closed if g.sender not in removed), removed)


def krum_scores(closed: Sequence[Gradient], neighbours: int) -> list[float]:
    """Of each gradient, the sum of squared distances of C_y / e_y to that many nearest others."""
    rows = [per_iteration(gradient) for gradient in closed]
    difference = np.empty_like(rows[0])
    distances = np.zeros((len(rows), len(rows)))
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[:i]):
            np.subtract(a, b, out=difference)
            distances[i, j] = distances[j, i] = folded_sum(np.square(difference, out=difference))
    others = [sorted(row[:i] + row[i + 1 :]) for i, row in enumerate(distances.tolist())]
    return [math.fsum(nearest_first[:neighbours]) for nearest_first in others]


def _touched(before: Sequence[Gradient], after: Sequence[Gradient]) -> int:
    originals = {gradient.sender: gradient for gradient in before}
    return sum(originals[gradient.sender] is not gradient for gradient in after)


def _in_turn(stages: Sequence[Filter], closed: Sequence[Gradient]) -> Filtered:
    """One filter after the other, each over what the one before kept."""
    kept, removed = tuple(closed), dict[Address, str]()
    for stage in stages:
        result = stage(kept)
        kept, removed = result.kept, removed | dict(result.removed)
    return Filtered(kept, removed, _touched(closed, kept))


def make_filter(text: str) -> Filter:
    """The filter of a text such as `none`, `norm-clip:3`, `krum`, or `norm-clip+median` (left to right)."""
    stages = [_make_stage(part, text) for part in text.split("+")]
    if len(stages) == 1:
        return stages[0]
    # One reason for whoever is taken out: krum, or that of filters of others.
    return NamedFilter(text, max(stage.reason for stage in stages), partial(_in_turn, stages))


def _make_stage(part: str, text: str) -> Filter:
    name, colon, option = part.partition(":")
    if name not in (*_PLAIN, *_WITH_NUMBER) and is_named("filter", part):
        return own_filter(part)
    if name in _PLAIN:
        if colon:
            raise ParameterError(f'filter: found "{text}", expected {name} without a number')
        return NamedFilter(part, "", _PLAIN[name])
    if name not in _WITH_NUMBER:
        known = [*_PLAIN, *_WITH_NUMBER, "loss"]  # the last is the leader's: edge_servers/learning/validation.py
        expected = f"{', '.join(known)}, your own as module:function, or some joined by +{did_you_mean(name, known)}"
        raise ParameterError(f'filter: found "{text}", expected {expected}')
    make = _WITH_NUMBER[name]
    return NamedFilter(part, "krum" if name == "krum" else "", make(option, text) if colon else make(None, text))


def _make_norm_clip(option: str | None, text: str) -> Callable[[Sequence[Gradient]], Filtered]:
    factor = NORM_FACTOR if option is None else _number(option)
    if not 1 <= factor < math.inf:
        raise ParameterError(f'filter: found "{text}", expected norm-clip:FACTOR with a finite factor of at least 1')
    return partial(norm_clip, factor=factor)


def _make_trimmed_mean(option: str | None, text: str) -> Callable[[Sequence[Gradient]], Filtered]:
    share = TRIMMED_SHARE if option is None else _number(option)
    if not 0 < share < 0.5:
        raise ParameterError(f'filter: found "{text}", expected trimmed-mean:SHARE with 0 < share < 0.5')
    return partial(trimmed_mean, share=share)


def _make_krum(option: str | None, text: str) -> Callable[[Sequence[Gradient]], Filtered]:
    if option is None:
        return krum
    if not option.isdecimal() or int(option) < 1:
        raise ParameterError(f'filter: found "{text}", expected krum:F with F gradients to take out, at least 1')
    return partial(krum, outliers=int(option))


def _number(option: str) -> float:
    """The number, or NaN, which is inside no range."""
    try:
        return float(option)
    except ValueError:
        return math.nan


_PLAIN = {"none": no_filter, "median": coordinate_median}
_WITH_NUMBER = {"norm-clip": _make_norm_clip, "krum": _make_krum, "trimmed-mean": _make_trimmed_mean}


def verdicts_of(text: str) -> list[str]:
    """The filters of a run that are the leader's verdict."""
    return [part for part in text.split("+") if part in VERDICTS]


def deterministic_filter(text: str) -> Filter:
    """The filters that anybody can recompute, of those a run names."""
    return make_filter("+".join(part for part in text.split("+") if part not in VERDICTS) or "none")


def close_list(
    good: Mapping[Address, Gradient],
    refused: Iterable[Refusal],
    model: Vector,
    settings: Settings,
    validation_loss: Callable[[Vector], float],
) -> Close:
    """The list of an honest leader: the good gradients but those that the filters take out; everyone else by name.

    First the leader's own verdicts, which need data, then what anybody can recompute.
    """
    text, removed = settings.rounds.filter, []
    if any(part in VERDICTS for part in text.split("+")):
        verdicts = loss_verdicts(list(good.values()), model, settings.training.learning_rate, validation_loss)
        removed = [Refusal(good[sender].node, "loss", detail) for sender, detail in verdicts.items()]
    judged = {refusal.node for refusal in removed}
    filters = deterministic_filter(text)
    result = filters([gradient for gradient in good.values() if gradient.node not in judged])
    removed += [Refusal(good[who].node, filters.reason, detail) for who, detail in result.removed.items()]
    out = {refusal.node for refusal in removed}
    accepted = tuple(sender for sender in sorted(good) if good[sender].node not in out)
    named = {refusal.node: refusal for refusal in [*refused, *removed]}  # what the filters say stands
    return Close(accepted, tuple(named[node] for node in sorted(named)))
