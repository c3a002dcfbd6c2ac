"""Who holds which images: disjoint, complete, nobody empty, labels spread evenly (L1)."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clients.errors import PartitionError
from clients.parameters import DataParams
from clients.partition import Share, check_shares, deal_labels, partition

few = settings(max_examples=15, deadline=None)


def even_labels(classes: int, each: int) -> NDArray[np.int64]:
    return np.arange(classes * each, dtype=np.int64) % classes


def assert_all_images_have_one_device(shares: list[Share], images: int) -> None:
    assert all(len(share) for share in shares)
    assert sorted(np.concatenate(shares).tolist()) == list(range(images))


def refusal(labels: NDArray[np.int64], params: DataParams, labels_per_device: int = 2) -> str:
    with pytest.raises(PartitionError) as caught:
        partition(labels, params, labels_per_device)
    return str(caught.value)


@given(devices=st.integers(1, 20), images=st.integers(20, 200), seed=st.integers(0, 2**32))
@few
def test_an_iid_partition_is_disjoint_complete_and_of_equal_sizes_give_or_take_one(
    devices: int, images: int, seed: int
) -> None:
    labels = np.arange(images, dtype=np.int64) % 10
    shares = partition(labels, DataParams(devices=devices, seed=seed), 2)
    assert len(shares) == devices
    assert_all_images_have_one_device(shares, images)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_an_iid_share_has_all_labels_about_equally_often() -> None:
    """100 draws of 1,000 without replacement, p = 0.1: standard deviation below 3, so 25 is more than 5 sigma off."""
    labels = even_labels(10, 100)
    for share in partition(labels, DataParams(devices=10), 2):
        counts = np.bincount(labels[share], minlength=10)
        assert counts.min() > 0
        assert counts.max() < 25


@given(
    classes=st.integers(2, 10),
    per_device=st.integers(1, 4),
    groups=st.integers(1, 4),
    extra=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
@few
def test_a_non_iid_partition_gives_every_device_exactly_its_number_of_labels(
    classes: int, per_device: int, groups: int, extra: int, seed: int
) -> None:
    per_device = min(per_device, classes)
    devices = -(-classes // per_device) * groups + extra
    labels = even_labels(classes, each=devices)
    params = DataParams(devices=devices, seed=seed, partition="non-iid", labels_per_device=per_device)
    shares = partition(labels, params, labels_per_device=1)
    assert_all_images_have_one_device(shares, len(labels))
    assert [len(set(labels[share])) for share in shares] == [per_device] * devices
    holders = Counter(int(label) for share in shares for label in set(labels[share]))
    assert max(holders.values()) - min(holders.values()) <= 1


def test_ten_devices_with_two_labels_each_hold_every_label_twice_and_half_of_it() -> None:
    labels = even_labels(10, 60)
    shares = partition(labels, DataParams(partition="non-iid"), labels_per_device=2)
    for label in range(10):
        parts = [int((labels[share] == label).sum()) for share in shares]
        assert sorted(part for part in parts if part) == [30, 30]


def test_the_setting_of_the_user_goes_before_that_of_the_data_set() -> None:
    labels = even_labels(10, 30)
    of_dataset = partition(labels, DataParams(partition="non-iid"), labels_per_device=3)
    of_user = partition(labels, DataParams(partition="non-iid", labels_per_device=5), labels_per_device=3)
    assert {len(set(labels[share])) for share in of_dataset} == {3}
    assert {len(set(labels[share])) for share in of_user} == {5}


def test_labels_that_no_device_would_hold_are_refused_by_name() -> None:
    """3 devices with 2 labels hold at most 6 of 10: 4 labels, 4 x 5 = 20 images are left over."""
    message = refusal(even_labels(10, 5), DataParams(devices=3, partition="non-iid"))
    start, _, rest = message.partition("of labels [")
    lost, _, advice = rest.partition("]")
    assert start == "non-iid partition: 20 samples "
    assert len({int(label) for label in lost.split(",")} & set(range(10))) == 4
    assert advice == " have no device; use more devices or raise labels-per-device"


def test_more_labels_per_device_than_the_data_has_are_refused() -> None:
    assert refusal(even_labels(4, 10), DataParams(devices=5, partition="non-iid"), labels_per_device=5) == (
        "non-iid partition for 5 devices: 5 labels per device, but the data has 4"
    )


@given(
    labels=st.integers(1, 12),
    devices=st.integers(1, 60),
    per_device=st.integers(1, 12),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=100, deadline=None)
def test_dealt_labels_are_distinct_and_each_goes_to_equally_many_devices_give_or_take_one(
    labels: int, devices: int, per_device: int, seed: int
) -> None:
    per_device = min(per_device, labels)
    names = [10 * label for label in range(labels)]
    hands = deal_labels(names, devices, per_device, np.random.default_rng(seed))
    assert list(hands) == list(range(devices))
    assert all(len(set(hand)) == len(hand) == per_device for hand in hands.values())
    times = Counter(dict.fromkeys(names, 0))
    times.update(name for hand in hands.values() for name in hand)
    assert set(times) == set(names)
    assert max(times.values()) - min(times.values()) <= 1


@given(alpha=st.sampled_from([1e-6, 1e-3, 0.1, 0.5, 1.0, 100.0]), devices=st.integers(1, 6), seed=st.integers(0, 1000))
@few
def test_a_dirichlet_partition_is_complete_or_refused_with_the_empty_devices(
    alpha: float, devices: int, seed: int
) -> None:
    labels = even_labels(10, 6)
    params = DataParams(devices=devices, seed=seed, partition="dirichlet", alpha=alpha)
    shares, message = [], ""
    try:
        shares = partition(labels, params, 2)
    except PartitionError as error:
        message = str(error)
    if message:
        assert f"of {devices} devices have no data (device " in message
        assert "a larger alpha" in message
    else:
        assert_all_images_have_one_device(shares, len(labels))


def test_a_tiny_alpha_leaves_devices_empty_and_they_are_named() -> None:
    """With alpha 1e-6 a label goes to one device; two labels cannot serve five devices."""
    message = refusal(even_labels(2, 50), DataParams(devices=5, partition="dirichlet", alpha=1e-6))
    assert message.startswith("dirichlet partition: ")
    assert "of 5 devices have no data (device " in message
    assert message.endswith("; use fewer devices, a larger alpha or another seed")


def test_a_smaller_alpha_is_more_uneven() -> None:
    labels = even_labels(10, 200)

    def imbalance(alpha: float) -> float:
        """The mean share of a device's most frequent label."""
        shares = partition(labels, DataParams(devices=5, partition="dirichlet", alpha=alpha), 2)
        return float(np.mean([np.bincount(labels[s]).max() / len(s) for s in shares]))

    assert imbalance(0.1) > imbalance(1.0) > imbalance(100.0)


def test_a_partition_follows_from_its_seed_alone(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["iid", "non-iid", "dirichlet"]
    for kind in cases:
        with subtests.test(kind=kind):
            labels = even_labels(10, 30)
            settings = [DataParams(devices=5, seed=seed, partition=kind) for seed in (1, 1, 2)]
            first, again, other = ([share.tolist() for share in partition(labels, each, 2)] for each in settings)
            assert first == again
            assert first != other


def test_a_share_is_in_ascending_order(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["iid", "non-iid", "dirichlet"]
    for kind in cases:
        with subtests.test(kind=kind):
            for share in partition(even_labels(10, 30), DataParams(devices=5, partition=kind), 2):
                assert (np.diff(share) > 0).all()
                assert share.dtype == np.int64


def test_as_many_devices_as_images_have_one_each() -> None:
    assert [len(s) for s in partition(even_labels(10, 2), DataParams(devices=20), 2)] == [1] * 20


def test_more_devices_than_images_are_refused_with_both_numbers(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["iid", "non-iid", "dirichlet"]
    for kind in cases:
        with subtests.test(kind=kind):
            assert refusal(even_labels(10, 1), DataParams(devices=11, partition=kind)) == (
                f"{kind} partition: found 11 devices for 10 samples, expected at least a sample for each"
            )


def test_more_holders_of_a_label_than_it_has_images_are_refused() -> None:
    message = refusal(even_labels(10, 1), DataParams(devices=10, partition="non-iid"))
    assert message.startswith("non-iid partition for 10 devices: ")


def test_at_most_ten_empty_devices_are_listed() -> None:
    shares = [np.array([0])] + [np.array([], dtype=np.int64)] * 12
    with pytest.raises(PartitionError) as caught:
        check_shares(shares, np.zeros(1, np.int64), DataParams(devices=13))
    assert str(caught.value) == (
        "iid partition: 12 of 13 devices have no data (device 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ...); "
        "use fewer devices, a larger alpha or another seed"
    )


def test_an_image_with_two_devices_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[list[int]], str]] = [
        ([[0, 1], [1]], "1"),
        ([[0, 1, 2], [0, 1, 2]], "3"),
        ([[0, 0], [2]], "1"),
    ]
    for shares, images in cases:
        with subtests.test(shares=shares, images=images):
            with pytest.raises(PartitionError) as caught:
                check_shares([np.array(share) for share in shares], np.zeros(3, np.int64), DataParams(devices=2))
            assert str(caught.value) == f"iid partition: {images} samples have more than one device"
