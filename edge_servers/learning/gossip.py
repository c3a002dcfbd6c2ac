"""Eq. 9 in integers: what leaves one server enters the other, so the sum never changes (L10, P9)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_servers.errors import OverflowRefusedError
from edge_servers.learning.aggregation import FixedPoint

WEIGHT_BITS = 12
_HALF = 1 << (WEIGHT_BITS - 1)
_INT32 = np.iinfo(np.int32)
_BLOCK = 1 << 15


def flow(weight: int, x_i: FixedPoint, x_j: FixedPoint) -> NDArray[np.int64]:
    """What leaves i and enters j over their edge. P9:  f = round_half_away(a * (x_i - x_j) / 2^12).

    Antisymmetric, so both ends compute the same flow with opposite signs.
    """
    product = np.subtract(x_i, x_j, dtype=np.int64)
    product *= weight
    is_negative = product >> 63  # -1 or 0: half is rounded away from 0 on both sides
    product += _HALF
    product += is_negative
    product >>= WEIGHT_BITS
    return product


def next_iterate(server: int, x: Mapping[int, FixedPoint], neighbours: Sequence[int], weight: int) -> FixedPoint:
    """One server's next iterate from its own and its neighbours' old ones.

    Eq. 9 (L10):  x_i(l+1) = x_i(l) - sum_j f_ij,  with d = a / 2^12
    """
    made = np.empty_like(x[server])
    for start in range(0, len(made), _BLOCK):  # in the processor's cache
        part = slice(start, start + _BLOCK)
        mixed = x[server][part].astype(np.int64)
        for j in neighbours:
            mixed -= flow(weight, x[server][part], x[j][part])
        if mixed.min() < _INT32.min or mixed.max() > _INT32.max:
            raise OverflowRefusedError(f"iterate of server {server}: a value left the fixed-point range of P8")
        made[part] = mixed
    return made
