"""Eqs. 8 and 10-12, in the exact arithmetic of P8-P10: the same bits on any machine."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from clients.vectors import Vector
from edge_servers.errors import OverflowRefusedError
from edge_servers.learning.gradients import Gradient, Weight

Exact = NDArray[np.float64]
FixedPoint = NDArray[np.int32]

SCALE_BITS = 24
_SCALE = float(2**SCALE_BITS)
_INT32 = np.iinfo(np.int32)


def norm(x: NDArray[np.floating]) -> float:
    """Euclidean norm without BLAS, whose threads would fight torch's for the same cores."""
    return float(np.sqrt(np.square(x, dtype=np.float64).sum()))


def total_samples(closed: Iterable[Gradient | Weight]) -> int:
    """D, the samples of all training nodes in the closed list (L3, P4)."""
    return sum(each.samples for each in closed)


def partial_aggregate(received: Iterable[Gradient], total: int, size: int) -> Exact:
    """Scaled sum of the gradients of one edge server's training nodes; zero where it has none.

    Eq. 8 (L7, P8):  x_m = sum_y D_y / (D e_y) * C_y,  in ascending order of address
    """
    x = np.zeros(size)
    for gradient in sorted(received, key=lambda g: g.sender):
        x += (gradient.samples / (total * gradient.iterations)) * gradient.values.astype(np.float64)
    return x


def to_fixed_point(x: Exact, sender: str) -> FixedPoint:
    """x(0) as integers. P8: round half to even of x * 2^24, refused outside int32."""
    scaled = np.rint(x * _SCALE)
    if not (np.isfinite(scaled).all() and (scaled >= _INT32.min).all() and (scaled <= _INT32.max).all()):
        worst = float(np.abs(x).max())
        raise OverflowRefusedError(f"iterate of {sender}: found |value| {worst:g}, expected less than 128")
    return scaled.astype(np.int32)


def boost(closed: Sequence[Weight]) -> float:
    """The boosting coefficient. Eq. 11 (L12):  b = sum_y D_y e_y / D,  over all training nodes."""
    return sum(each.samples * each.iterations for each in closed) / total_samples(closed)


def global_update(model: Vector, x: FixedPoint, servers: int, b: float, learning_rate: float) -> Vector:
    """The next model from one server's agreed iterate.

    Eqs. 10-12 (L11, L13, P10):  w_k = float32(w_{k-1} - eta * b * M * x / 2^24)
    """
    step = learning_rate * b * servers * x.astype(np.float64) / _SCALE
    return (model.astype(np.float64) - step).astype(np.float32)


def cluster_update(model: Vector, x: Exact, b: float, share: float, learning_rate: float) -> Vector:
    """The next model from one cluster's aggregate alone, `share` = D_cluster / D of the data (L15)."""
    return (model.astype(np.float64) - learning_rate * b * x / share).astype(np.float32)


def central_update(model: Vector, closed: Iterable[Gradient], learning_rate: float) -> Vector:
    """FedAvg's weighted mean over all training nodes, in one place (L15):  w - eta * sum_y D_y / D * C_y."""
    closed = sorted(closed, key=lambda g: g.sender)
    total = total_samples(closed)
    mean = np.zeros(len(model))
    for gradient in closed:
        mean += (gradient.samples / total) * gradient.values.astype(np.float64)
    return (model.astype(np.float64) - learning_rate * mean).astype(np.float32)


def divergence(iterates: Sequence[FixedPoint]) -> float:
    """Xi, the largest distance between two servers' aggregates (Definition 1)."""
    exact = [x.astype(np.float64) / _SCALE for x in iterates]
    return max((norm(a - b) for i, a in enumerate(exact) for b in exact[:i]), default=0.0)


def consensus_error(start: Sequence[FixedPoint], end: Sequence[FixedPoint]) -> float:
    """Largest distance of M * x_m(phi) from the sum that perfect consensus would give (the c_m of eq. 10)."""
    total = np.sum([x.astype(np.float64) for x in start], axis=0)
    return max(norm(len(end) * x.astype(np.float64) - total) for x in end) / _SCALE
