"""Which images a node uses in a round (L4, P22)."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.batches import NodeKey, mini_batches, round_subset

DEVICE = NodeKey("device", 3)
quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**63 - 1)


@given(seed=seeds, samples=st.integers(1, 80), iterations=st.integers(1, 12), batch=st.integers(1, 40))
@quick
def test_no_image_is_twice_in_a_batch_and_a_batch_has_at_most_the_nodes_images(
    seed: int, samples: int, iterations: int, batch: int
) -> None:
    batches = mini_batches(seed, 1, DEVICE, samples, iterations, batch)
    assert batches.shape == (iterations, min(batch, samples))
    assert all(len(set(row)) == len(row) for row in batches.tolist())
    assert batches.min() >= 0
    assert batches.max() < samples


def test_a_node_with_fewer_images_than_a_batch_uses_all_of_them_every_time() -> None:
    batches = mini_batches(0, 1, DEVICE, samples=7, iterations=4, batch=25)
    assert [sorted(row) for row in batches.tolist()] == [list(range(7))] * 4


def test_every_image_is_drawn_equally_often() -> None:
    """2,000 batches of 5 from 50: each image 200 times; 5 standard deviations are 5 * sqrt(2000 * 0.1 * 0.9) = 67."""
    counts = np.bincount(mini_batches(0, 1, DEVICE, 50, iterations=2_000, batch=5).ravel(), minlength=50)
    assert counts.min() > 200 - 67
    assert counts.max() < 200 + 67


def test_batches_differ_between_iterations_rounds_nodes_and_seeds() -> None:
    first = mini_batches(0, 1, DEVICE, 1_000, iterations=2, batch=25)
    others = [
        mini_batches(0, 2, DEVICE, 1_000, iterations=2, batch=25),
        mini_batches(1, 1, DEVICE, 1_000, iterations=2, batch=25),
        mini_batches(0, 1, NodeKey("device", 4), 1_000, iterations=2, batch=25),
        mini_batches(0, 1, NodeKey("server", 3), 1_000, iterations=2, batch=25),
    ]
    assert first[0].tolist() != first[1].tolist()
    assert all(first.tolist() != other.tolist() for other in others)


@given(seed=seeds, short=st.integers(1, 9))
@quick
def test_fewer_iterations_use_the_first_of_the_same_batches(seed: int, short: int) -> None:
    long = mini_batches(seed, 5, DEVICE, 40, iterations=10, batch=8)
    np.testing.assert_array_equal(mini_batches(seed, 5, DEVICE, 40, iterations=short, batch=8), long[:short])


def test_the_batches_are_those_of_the_first_release() -> None:
    """A golden value: what an auditor recomputes."""
    batches = mini_batches(0, 1, NodeKey("device", 0), samples=100, iterations=2, batch=4)
    assert batches.tolist() == [[19, 77, 64, 53], [81, 0, 18, 63]]


@given(device=st.integers(0, 2**32 - 1), server=st.integers(0, 2**32 - 1))
@quick
def test_a_device_and_a_server_never_share_a_stream(device: int, server: int) -> None:
    assert NodeKey("device", device).counter != NodeKey("server", server).counter


def test_a_node_is_named_by_role_and_number() -> None:
    assert (str(NodeKey("device", 4)), str(NodeKey("server", 0))) == ("device 4", "server 0")


@given(seed=seeds, share=st.integers(1, 300), wanted=st.integers(1, 400))
@quick
def test_a_subset_has_the_wanted_size_no_repetition_and_ascends(seed: int, share: int, wanted: int) -> None:
    subset = round_subset(seed, 1, 0, share, wanted)
    assert len(subset) == min(share, wanted)
    assert (np.diff(subset) > 0).all()
    assert subset[0] >= 0
    assert subset[-1] < share


def test_a_subset_is_fresh_every_round_and_can_be_drawn_alone() -> None:
    rounds = [round_subset(0, k, 5, 1_000, 100).tolist() for k in range(1, 6)]
    assert len({tuple(subset) for subset in rounds}) == 5
    assert round_subset(0, 4, 5, 1_000, 100).tolist() == rounds[3]


def test_a_whole_share_is_used_where_it_is_smaller_than_wanted() -> None:
    assert round_subset(0, 1, 0, share=5, wanted=5).tolist() == [0, 1, 2, 3, 4]
    assert round_subset(0, 1, 0, share=3, wanted=638).tolist() == [0, 1, 2]
