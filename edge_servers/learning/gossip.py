"""Eq. 9 in integers: what leaves one server enters the other, so the sum never changes (L10, P9)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_servers.errors import OverflowRefusedError
from edge_servers.learning.aggregation import FixedPoint

WEIGHT_BITS = 12
_HALF = 1 << (WEIGHT_BITS - 1)
_INT32 = np.iinfo(np.int32)


def flow(weight: int, x_i: FixedPoint, x_j: FixedPoint) -> NDArray[np.int64]:
    """What leaves i and enters j over their edge. P9:  f = round_half_away(a * (x_i - x_j) / 2^12).

    Antisymmetric, so both ends compute the same flow with opposite signs.
    """
    product = weight * (x_i.astype(np.int64) - x_j.astype(np.int64))
    rounded: NDArray[np.int64] = np.sign(product) * ((np.abs(product) + _HALF) >> WEIGHT_BITS)
    return rounded


def next_iterate(server: int, x: Mapping[int, FixedPoint], neighbours: Sequence[int], weight: int) -> FixedPoint:
    """One server's next iterate from its own and its neighbours' old ones.

    Eq. 9 (L10):  x_i(l+1) = x_i(l) - sum_j f_ij,  with d = a / 2^12
    """
    mixed = x[server].astype(np.int64)
    for j in neighbours:
        mixed -= flow(weight, x[server], x[j])
    if (mixed < _INT32.min).any() or (mixed > _INT32.max).any():
        raise OverflowRefusedError(f"iterate of server {server}: a value left the fixed-point range of P8")
    return mixed.astype(np.int32)
