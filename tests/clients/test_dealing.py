"""Partitions by group and by quantity, and what `dirichlet` means."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.dealing import by_group, by_quantity, made_writers
from clients.errors import PartitionError
from clients.parameters import DataParams
from clients.partition import partition

few = settings(max_examples=25, deadline=None)


@given(
    kind=st.sampled_from(["by-group", "quantity"]), devices=st.integers(1, 12), samples=st.integers(12, 200),
    alpha=st.sampled_from([0.01, 0.5, 100.0]), seed=st.integers(0, 2**32),
)  # fmt: skip
@few
def test_nobody_is_without_data_and_every_sample_has_one_device(
    kind: str, devices: int, samples: int, alpha: float, seed: int
) -> None:
    labels = np.arange(samples, dtype=np.int64) % 3
    params = DataParams(devices=devices, seed=seed, partition=kind, alpha=alpha)
    shares, again = (partition(labels, params, 2) for _ in range(2))
    assert len(shares) == devices
    assert all(len(share) for share in shares)
    assert sorted(np.concatenate(shares).tolist()) == list(range(samples))
    assert [share.tolist() for share in shares] == [share.tolist() for share in again]


@given(groups=st.lists(st.integers(0, 8), min_size=9, max_size=80), devices=st.integers(1, 5), seed=st.integers(0, 99))
@few
def test_the_samples_of_a_group_stay_together(groups: list[int], devices: int, seed: int) -> None:
    whose = np.array([*groups, *range(9)], dtype=np.int64)
    params = DataParams(devices=devices, seed=seed, partition="by-group")
    shares = partition(np.zeros(len(whose), np.int64), params, 1, whose)
    held = [set(whose[share].tolist()) for share in shares]
    assert sum(map(len, held)) == 9  # no group on two devices
    assert max(map(len, held)) - min(map(len, held)) <= 1


def test_fewer_groups_than_devices_are_refused() -> None:
    with pytest.raises(PartitionError) as caught:
        by_group(np.array([3, 3, 9]), 3, np.random.default_rng(0))
    assert str(caught.value) == (
        "by-group partition: found 2 groups for 3 devices, expected at least one for each; use fewer devices"
    )


def test_made_up_writers_differ_in_amount_and_taste() -> None:
    labels = np.arange(3_000, dtype=np.int64) % 10

    def tastes(alpha: float) -> list[float]:
        writers = made_writers(labels, 5, alpha, np.random.default_rng(1))
        assert sorted(set(writers.tolist())) == list(range(15))
        return [np.bincount(labels[writers == w]).max() / (writers == w).sum() for w in range(15)]

    assert np.mean(tastes(0.1)) > 2 * np.mean(tastes(1000.0))
    amounts = np.bincount(made_writers(labels, 5, 1000.0, np.random.default_rng(1)))
    assert amounts.max() > 2 * amounts.min()


def test_quantities_are_dirichlet_and_labels_are_not_skewed() -> None:
    """q ~ Dir_N(alpha): mean 1/N and variance (1/N)(1 - 1/N)/(N alpha + 1), here from 400 draws of 5."""
    draws = np.array([[len(s) for s in by_quantity(10_000, 5, 0.5, np.random.default_rng(n))] for n in range(400)])
    assert draws.sum(1).tolist() == [10_000] * 400
    parts = draws / 10_000
    assert parts.mean() == pytest.approx(0.2)
    assert parts.var() == pytest.approx(0.2 * 0.8 / (5 * 0.5 + 1), rel=0.25)
    labels = np.arange(10_000) % 2
    big = [share for share in by_quantity(10_000, 5, 0.5, np.random.default_rng(0)) if len(share) > 1_000]
    assert all(0.4 < labels[share].mean() < 0.6 for share in big)


def test_dirichlet_is_the_definition_of_the_literature() -> None:
    """Yurochkin et al. 2019, Li et al. 2022: of EVERY label, the parts of the N devices are drawn from Dir_N(alpha), so
    their mean is 1/N and their variance (1/N)(1 - 1/N)/(N alpha + 1); nothing is balanced afterwards.
    """
    labels = np.repeat(np.arange(20, dtype=np.int64), 400)
    params = [DataParams(devices=4, seed=seed, partition="dirichlet", alpha=1.0) for seed in range(12)]
    parts = np.array(
        [[np.bincount(labels[share], minlength=20) / 400 for share in partition(labels, each, 2)] for each in params]
    )
    assert parts.sum(1) == pytest.approx(np.ones((12, 20)))
    assert parts.mean() == pytest.approx(0.25)
    assert parts.var() == pytest.approx(0.25 * 0.75 / (4 * 1.0 + 1), rel=0.2)
    amounts = parts.sum(2)  # of a device, over 20 labels: not balanced, so its variance is the sum of theirs
    assert amounts.var() == pytest.approx(20 * 0.25 * 0.75 / 5, rel=0.5)
