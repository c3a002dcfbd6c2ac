"""A filter of your own against an attack of your own: docs/plugins.md says how to run them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bfl.attacks.own import Scene
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.rules import folded_sum, per_iteration


def agreeing(closed: Sequence[Gradient]) -> list[Gradient]:
    """Keep who points where the median points. Replayed bit for bit on any machine, so no BLAS: `folded_sum`."""
    rows = [per_iteration(gradient) for gradient in closed]
    median = np.sort(np.stack(rows), axis=0)[len(rows) // 2]
    return [gradient for gradient, row in zip(closed, rows, strict=True) if folded_sum(row * median) > 0]


def turned_around(honest: NDArray[np.float64], scene: Scene) -> NDArray[np.float64]:
    """The gradient turned around, with a little noise to hide it."""
    return -scene.strength * honest + 0.1 * np.abs(honest).mean() * scene.rng.standard_normal(len(honest))
