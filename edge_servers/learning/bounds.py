"""What a gradient may be at most (P6), so that no honest sum leaves the fixed-point range."""

import math
from typing import Any

import numpy as np

from edge_servers.errors import GradientRefusedError
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.rules import folded_sum
from edge_servers.parameters import RoundParams

_FLOAT32 = np.dtype(np.float32)


def check_gradient(gradient: Gradient, size: int, bounds: RoundParams, dtype: "np.dtype[Any]" = _FLOAT32) -> None:
    """Raise `GradientRefusedError` unless the values are well-formed, finite and within bounds (P6).

    Bounds are per iteration: with |C_y| <= bound * e_y, eq. 8 gives |x_m| <= bound * sum_y D_y / D <= bound, so no
    honest server's sum can leave the fixed-point range.
    """
    values = gradient.values
    if values.dtype != dtype or values.shape != (size,):
        raise GradientRefusedError(
            "malformed", f"found {values.dtype} of shape {values.shape}, expected {dtype} of ({size},)"
        )
    largest = float(np.abs(values).max())  # NaN and infinity show here too
    if not np.isfinite(largest):
        raise GradientRefusedError("not-finite", f"found {largest} among the values, expected finite numbers")
    if largest > bounds.gradient_bound * gradient.iterations:
        raise GradientRefusedError(
            "out-of-bounds",
            f"found |value| {largest:g}, expected at most {bounds.gradient_bound * gradient.iterations:g}",
        )
    length = math.sqrt(folded_sum(np.square(values, dtype=np.float64)))  # it decides: the same bits on any CPU
    if length > bounds.norm_bound * gradient.iterations:
        raise GradientRefusedError(
            "out-of-bounds", f"found norm {length:g}, expected at most {bounds.norm_bound * gradient.iterations:g}"
        )
