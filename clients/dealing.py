"""Partitions of our own: by natural groups (as LEAF's writers are), and by quantity. The others are flwr-datasets'."""

import numpy as np
from numpy.typing import NDArray

from clients.errors import PartitionError

Indices = NDArray[np.int64]
WRITERS_PER_DEVICE = 3
"""Of data that names no groups"""
_SPREAD = 0.5
"""Standard deviation of the logarithm of how much a made-up writer writes"""


def by_group(groups: Indices, devices: int, rng: np.random.Generator) -> list[Indices]:
    """Every group whole on one device, groups dealt in turn in a random order: the data of a person stay together.

    LEAF (Caldas et al. 2018) has one device per writer; here a device has several where there are more groups.
    """
    names, each = np.unique(groups, return_inverse=True)
    if len(names) < devices:
        raise PartitionError(
            f"by-group partition: found {len(names)} groups for {devices} devices, expected at least one for each; "
            "use fewer devices"
        )
    place = np.empty(len(names), dtype=np.int64)
    place[rng.permutation(len(names))] = np.arange(len(names)) % devices
    holder = place[each]
    return [np.flatnonzero(holder == device) for device in range(devices)]


def made_writers(labels: NDArray[np.int64], devices: int, alpha: float, rng: np.random.Generator) -> Indices:
    """Groups for data that has none: writers who write more or less (log-normal) and like some labels more than others
    (Dirichlet with `alpha`). Each has a sample at least.
    """
    count = min(WRITERS_PER_DEVICE * devices, len(labels))
    names, label_of = np.unique(labels, return_inverse=True)
    amounts = rng.lognormal(0.0, _SPREAD, count)
    tastes = rng.dirichlet(np.full(len(names), alpha), count).T * amounts  # (labels, writers)
    tastes += 1e-12 * amounts  # a label that nobody likes is dealt by amount
    writers = np.empty(len(labels), dtype=np.int64)
    for label, taste in enumerate(tastes):
        of_label = np.flatnonzero(label_of == label)
        writers[of_label] = np.repeat(
            np.arange(count), rng.multinomial(len(of_label), taste / taste.sum())
        )[rng.permutation(len(of_label))]  # fmt: skip
    writers[rng.permutation(len(labels))[:count]] = np.arange(count)
    return writers


def by_quantity(samples: int, devices: int, alpha: float, rng: np.random.Generator) -> list[Indices]:
    """Quantity skew (Li et al. 2022, q ~ Dir(alpha)): labels are IID, only the amounts differ. One sample at least."""
    exact = rng.dirichlet(np.full(devices, alpha)) * (samples - devices)
    counts = np.floor(exact).astype(np.int64)
    left = samples - devices - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:left]] += 1  # largest remainders first
    return np.split(rng.permutation(samples), np.cumsum(counts + 1)[:-1])
