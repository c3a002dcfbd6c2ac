"""What a filter computes of the closed list (P7): the same bits on any CPU, whatever the order of the list.

What decides or scales here is made of elementwise IEEE operations and comparisons alone. BLAS and numpy's own sums give
other bits elsewhere, because the order in which they add depends on the instruction set. Long sums are therefore folded
(`folded_sum`), short ones exact (`math.fsum`).
"""

import math
import statistics
from collections.abc import Sequence

import numpy as np

from edge_servers.learning.aggregation import Exact
from edge_servers.learning.filtered import Filtered, with_values
from edge_servers.learning.gradients import Gradient

NORM_FACTOR = 3.0
TRIMMED_SHARE = 0.1
CLIP_FACTOR = 1.0
_OUTLIERS = 5
"""One in five: 20 %"""


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


def outliers_of(nodes: int, outliers: int | None = None) -> int:
    """f, how many of the nodes are taken for liars: as many as was said, else one in five, at least one."""
    return max(1, nodes // _OUTLIERS) if outliers is None else outliers


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
    low, high = middle[0], middle[-1]
    mean = np.clip(_mean_in_order(middle), low, high)  # rounding must not carry it out of the middle
    values = []
    for gradient, row in zip(closed, rows, strict=True):
        outside = (row < low) | (row > high)
        values.append(np.where(outside, mean * gradient.iterations, gradient.values) if outside.any() else None)
    return with_values(closed, values)


def coordinate_median(closed: Sequence[Gradient]) -> Filtered:
    """Replace every gradient by the coordinate-wise median of C_y / e_y, times its own e_y."""
    median = _median_of([per_iteration(gradient) for gradient in closed])
    return with_values(closed, [median * gradient.iterations for gradient in closed])


def krum(closed: Sequence[Gradient], outliers: int | None = None) -> Filtered:
    """Multi-Krum: keep the n - f gradients with the lowest `krum_scores`, f = `outliers`; ties by address.

    Without f: one in five, at least one. Krum promises nothing with n < 2 f + 3 gradients: then all are kept.
    """
    n, f = len(closed), outliers_of(len(closed), outliers)
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
    distances = _squared_distances([per_iteration(gradient) for gradient in closed])
    others = [sorted(row[:i] + row[i + 1 :]) for i, row in enumerate(distances.tolist())]
    return [math.fsum(nearest_first[:neighbours]) for nearest_first in others]


def nearest_neighbour_mixing(closed: Sequence[Gradient], outliers: int | None = None) -> Filtered:
    """Replace every gradient by the mean of the n - f nearest to it, itself among them (Allouah et al. 2023).

    Of C_y / e_y, times its own e_y; equally near ones by address. A stage before krum or trimmed-mean: what is alone in
    non-IID data is drawn to the others, and looks less like a lie.
    """
    n, f = len(closed), outliers_of(len(closed), outliers)
    rows = [per_iteration(gradient) for gradient in closed]
    distances = _squared_distances(rows)
    values: list[Exact | None] = []
    for i, gradient in enumerate(closed):
        ranked = sorted(range(n), key=lambda j, i=i: (distances[i, j], closed[j].sender))  # type: ignore[misc]
        nearest = sorted(ranked[: max(1, n - f)], key=lambda j: closed[j].sender)
        values.append(_mean_in_order([rows[j] for j in nearest]) * gradient.iterations)
    return with_values(closed, values)


def centred_clip(closed: Sequence[Gradient], factor: float = CLIP_FACTOR) -> Filtered:
    """Pull what is further from the coordinate-wise median than `factor` median distances back to that distance.

    Karimireddy et al. (2021) clip around the aggregate of the round before. Around the median of this round nothing has
    to be remembered, and whoever replays one round needs no other.
    """
    rows = [per_iteration(gradient) for gradient in closed]
    centre = _median_of(rows)
    offsets = [row - centre for row in rows]
    lengths = [math.sqrt(folded_sum(np.square(offset))) for offset in offsets]
    limit = factor * statistics.median(lengths)
    return with_values(
        closed,
        [
            (centre + offset * (limit / length)) * g.iterations if length > limit else None
            for g, offset, length in zip(closed, offsets, lengths, strict=True)
        ],
    )


def _squared_distances(rows: Sequence[Exact]) -> Exact:
    """Between every two of them."""
    difference = np.empty_like(rows[0])
    distances = np.zeros((len(rows), len(rows)))
    for i, a in enumerate(rows):
        for j, b in enumerate(rows[:i]):
            np.subtract(a, b, out=difference)
            distances[i, j] = distances[j, i] = folded_sum(np.square(difference, out=difference))
    return distances


def _median_of(rows: Sequence[Exact]) -> Exact:
    ordered = np.sort(np.stack(rows), axis=0)
    median: Exact = (ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2
    return median


def _mean_in_order(rows: Sequence[Exact] | Exact) -> Exact:
    """Added one after the other, as they come."""
    mean = np.zeros_like(rows[0])
    for row in rows:
        mean += row
    return mean / len(rows)
