"""The root set: drawn once from seed and data, and nobody's afterwards."""

import numpy as np
import pytest

from clients.errors import PartitionError
from clients.parameters import DataParams
from clients.partition import partition
from clients.root_draw import root_indices, without_root
from clients.root_set import held_back

LABELS = np.arange(1_000) % 10


@pytest.mark.parametrize("kind", ["iid", "non-iid", "dirichlet"])
def test_no_device_holds_an_image_of_the_root_set_and_all_others_have_one(kind: str) -> None:
    params = DataParams(devices=5, partition=kind, seed=3)
    root = root_indices(LABELS, 4, 3)
    shares = without_root(partition(LABELS, params, 2), LABELS, 4, 3)
    assert np.bincount(LABELS[root]).tolist() == [4] * 10
    assert sorted(np.concatenate([root, *shares]).tolist()) == list(range(1_000))
    whole = partition(LABELS, params, 2)
    assert [np.setdiff1d(share, root).tolist() for share in whole] == [share.tolist() for share in shares]


def test_a_root_set_follows_from_the_seed_and_leaves_half_of_every_label() -> None:
    assert root_indices(LABELS, 4, 1).tolist() == root_indices(LABELS, 4, 1).tolist()
    assert root_indices(LABELS, 4, 1).tolist() != root_indices(LABELS, 4, 2).tolist()
    rare = np.array([0, 0, 0, 1, 2, 2])
    assert np.bincount(rare[root_indices(rare, 10, 0)], minlength=3).tolist() == [1, 0, 1]


def test_a_device_that_would_be_left_with_nothing_is_refused() -> None:
    labels = np.arange(4) % 2
    shares = partition(labels, DataParams(devices=4, partition="iid"), 2)
    with pytest.raises(PartitionError, match=r"root-set: found no images left for device ., expected at least one"):
        without_root(shares, labels, 1, 0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"filter": "direction+norm-clip:2", "root-set": 7}, 7),
        ({"filter": "krum+loss:0.1", "root-set": "7"}, 7),
        ({"filter": "norm-clip+krum", "root-set": 7}, 0),
        ({"filter": "loss"}, 0),
        ({}, 0),
    ],
)
def test_images_are_held_back_where_a_filter_judges_by_them(settings: dict[str, object], expected: int) -> None:
    assert held_back(settings) == expected
