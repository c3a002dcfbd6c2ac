"""Which samples of the training data are the root set, and what the founding names them by (clients/root_set.py)."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from clients.data import Samples
from clients.errors import PartitionError
from policy.streams import Purpose, stream


def root_indices(labels: NDArray[np.int64], per_label: int, seed: int) -> NDArray[np.int64]:
    """Which training images are the root set, ascending: `per_label` of each label, at most half of those there are."""
    rng = stream(seed, Purpose.VALIDATION)
    drawn = [np.zeros(0, np.int64)]
    for label in np.unique(labels):
        there = np.flatnonzero(labels == label)
        drawn.append(rng.choice(there, min(per_label, len(there) // 2), replace=False))
    return np.sort(np.concatenate(drawn)).astype(np.int64)


def without_root(
    shares: list[NDArray[np.int64]], labels: NDArray[np.int64], per_label: int, seed: int
) -> list[NDArray[np.int64]]:
    """The devices' shares without the images of the root set."""
    if not per_label:
        return shares
    root = root_indices(labels, per_label, seed)
    left = [share[~np.isin(share, root)] for share in shares]
    empty = [n for n, share in enumerate(left) if not len(share)]
    if empty:
        raise PartitionError(
            f"root-set: found no images left for device {empty[0]}, expected at least one beside the {len(root)} of "
            "the root set; take a smaller root-set, fewer devices, or a filter that judges nothing"
        )
    return left


def root_digest(samples: Samples) -> str:
    """sha256 of the images, their form and their labels: what the founding names the root set by."""
    hasher = hashlib.sha256()
    for tensor in (samples.inputs, samples.labels):
        values = tensor.contiguous().numpy()
        hasher.update(f"{values.dtype.str}{values.shape}".encode())
        hasher.update(values.tobytes())
    hasher.update(repr((samples.mean, samples.std)).encode())
    return hasher.hexdigest()
