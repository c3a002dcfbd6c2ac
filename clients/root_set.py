"""The root set: a few public images of every label by which filters judge gradients (P7). No device holds them.

They are drawn from the training data at founding, and by nobody again: whoever has the data set and the settings has
them, so that every server and every auditor can judge for itself.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clients.errors import PartitionError
from clients.plugins import OPEN_POINTS
from policy.streams import Purpose, stream

if TYPE_CHECKING:  # a node reads settings, and has no torch
    from clients.data import Samples

VERDICTS = ("direction", "harm", "loss")
"""Filters that judge by the root set"""
KEY = "root-set"


def verdicts_in(filter_text: str) -> list[str]:
    """The filters of a run that judge by the root set, without their options."""
    heads = [part.partition(":")[0] for part in OPEN_POINTS["filter"].parts(filter_text)]
    return [head for head in heads if head in VERDICTS]


def held_back(settings: Mapping[str, object]) -> int:
    """Images per label that no device holds: none where no filter judges. A founding that says nothing has none."""
    return int(str(settings.get(KEY, 0))) if verdicts_in(str(settings.get("filter", ""))) else 0


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


def root_digest(samples: "Samples") -> str:
    """sha256 of the images, their form and their labels: what the founding names the root set by."""
    hasher = hashlib.sha256()
    for tensor in (samples.inputs, samples.labels):
        values = tensor.contiguous().numpy()
        hasher.update(f"{values.dtype.str}{values.shape}".encode())
        hasher.update(values.tobytes())
    hasher.update(repr((samples.mean, samples.std)).encode())
    return hasher.hexdigest()
