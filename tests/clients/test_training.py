"""The local update (L4-L6), against hand-worked numbers and against double precision."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from clients.batches import NodeKey, mini_batches
from clients.data import Dataset, Samples
from clients.errors import LateError, ModelError
from clients.models import Vector, build_network, to_vector
from clients.training import LocalUpdate, Recipe, TrainingNode, local_updates, make_step, uses_stacked
from tests.clients.fp64 import exact_update, gradient_errors, weight_errors
from tests.clients.networks import Doubled

ENGINES = ("sequential", "stacked")
SIZES = (600, 3, 25, 24, 26, 100, 7, 1, 50, 300)
ITERATIONS = (10, 10, 5, 3, 10, 1, 10, 4, 2, 10)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    """The network of L2."""
    return build_network("fashion-mnist-cnn", (1, 28, 28), 10, (), seed=0)


@pytest.fixture(scope="module")
def nodes(synthetic: Dataset, network: nn.Module) -> list[TrainingNode]:
    """Twenty nodes that differ in data, in its size (some below a batch) and in iterations; two are servers."""
    rng = np.random.default_rng(0)
    made = []
    for i, (size, iterations) in enumerate(zip(SIZES * 2, ITERATIONS * 2, strict=True)):
        indices = torch.from_numpy(rng.choice(len(synthetic.train), size, replace=False))
        key = NodeKey("server", i) if i in (4, 9) else NodeKey("device", i)
        made.append(TrainingNode(key, synthetic.train, indices, iterations, to_vector(network)))
    return made


def sgd(engine: str, chunk: int = 10) -> Recipe:
    return Recipe(seed=0, round=3, optimizer="sgd", learning_rate=0.1, batch=25, engine=engine, chunk=chunk)


def adam(engine: str, chunk: int = 10) -> Recipe:
    return replace(sgd(engine, chunk), optimizer="adam", learning_rate=0.001)


@pytest.fixture(scope="module")
def exact_sgd(nodes: list[TrainingNode], network: nn.Module) -> list[NDArray[np.float64]]:
    return [exact_update(node, network, sgd("auto")) for node in nodes]


@pytest.fixture(scope="module")
def exact_adam(nodes: list[TrainingNode], network: nn.Module) -> list[NDArray[np.float64]]:
    return [exact_update(node, network, adam("auto")) for node in nodes]


def test_sgd_agrees_with_double_precision(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module, exact_sgd: list[NDArray[np.float64]]
) -> None:
    """The tolerance of the specification; a tie in max-pooling may send one node another way."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            errors = weight_errors(local_updates(nodes, network, sgd(engine)), exact_sgd, nodes, eta=0.1)
            assert np.median(errors) <= 1e-6
            assert (errors > 1e-5).mean() <= 0.1


def test_the_cumulative_gradient_has_the_rounding_of_the_weights_over_eta(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module, exact_sgd: list[NDArray[np.float64]]
) -> None:
    """C is a difference of float32 weights: |w| eps / (eta |C|) is its floor, about 1e-6 here; five times that."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            errors = gradient_errors(local_updates(nodes, network, sgd(engine)), exact_sgd)
            assert np.median(errors) <= 5e-6
            assert (errors > 1e-4).mean() <= 0.1


@pytest.mark.parametrize("engine", ENGINES)
def test_adam_agrees_with_double_precision(
    nodes: list[TrainingNode], network: nn.Module, exact_adam: list[NDArray[np.float64]], engine: str
) -> None:
    """A step of Adam is about eta * sign(gradient): where a gradient is nearly 0, its rounding decides a whole step.

    So twice as many nodes as under SGD may be off; the median holds all the same.
    """
    errors = weight_errors(local_updates(nodes, network, adam(engine)), exact_adam, nodes, eta=0.001)
    assert np.median(errors) <= 1e-6
    assert (errors > 1e-5).mean() <= 0.2


def test_an_update_carries_its_samples_and_iterations(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module
) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            updates = local_updates(nodes[:8], network, sgd(engine))
            assert [update.samples for update in updates] == list(SIZES[:8])
            assert [update.iterations for update in updates] == list(ITERATIONS[:8])
            assert {update.values.shape for update in updates} == {(21_840,)}
            assert {update.values.dtype for update in updates} == {np.dtype(np.float32)}


def test_the_order_of_the_nodes_does_not_matter(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module
) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            order = np.random.default_rng(1).permutation(10).tolist()
            straight = local_updates(nodes[:10], network, sgd(engine))
            shuffled = local_updates([nodes[i] for i in order], network, sgd(engine))
            for i, update in zip(order, shuffled, strict=True):
                assert_close(update, straight[i])


def test_chunks_of_one_three_and_ten_nodes_agree(nodes: list[TrainingNode], network: nn.Module) -> None:
    few = [replace(node, iterations=2) for node in nodes if len(node) >= 25]  # one group of equal shapes
    assert len(few) > 10
    by_chunk = [local_updates(few, network, sgd("stacked", chunk)) for chunk in (1, 3, 10)]
    for one, three, ten in zip(*by_chunk, strict=True):
        assert_close(three, one)
        assert_close(ten, one)


def test_the_engines_agree_and_so_use_the_same_mini_batches(nodes: list[TrainingNode], network: nn.Module) -> None:
    few = [replace(node, iterations=2) for node in nodes[:8]]
    sequential, stacked = (local_updates(few, network, sgd(engine)) for engine in ENGINES)
    for one, other in zip(sequential, stacked, strict=True):
        assert_close(one, other)


def assert_close(found: LocalUpdate, expected: LocalUpdate) -> None:
    """Equal but for rounding and the odd tie in max-pooling (below 1e-2); another mini-batch differs by about 1."""
    assert (found.samples, found.iterations) == (expected.samples, expected.iterations)
    difference = np.linalg.norm(found.values - expected.values) / np.linalg.norm(expected.values)
    assert difference < 0.05


def test_a_node_trains_alone_as_it_trains_among_others(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module
) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            among = local_updates(nodes[:6], network, sgd(engine))
            assert_close(local_updates([nodes[4]], network, sgd(engine))[0], among[4])


def test_the_same_call_gives_the_same_bits(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module
) -> None:
    """P11: reproducible on the same machine with the same engine, chunk and threads."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            first, second = (local_updates(nodes[:5], network, sgd(engine)) for _ in range(2))
            for one, other in zip(first, second, strict=True):
                np.testing.assert_array_equal(one.values, other.values)


def test_chunks_side_by_side_give_the_bits_of_chunks_in_turn(nodes: list[TrainingNode], network: nn.Module) -> None:
    """Where there are as many chunks as threads, each has one thread: the number of threads leaves no trace."""
    few, before = [replace(node, iterations=2) for node in nodes if len(node) >= 25], torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        in_turn = local_updates(few, network, sgd("stacked", 3))
        torch.set_num_threads(2)
        for _ in range(3):
            for one, other in zip(local_updates(few, network, sgd("stacked", 3)), in_turn, strict=True):
                np.testing.assert_array_equal(one.values, other.values)
    finally:
        torch.set_num_threads(before)


def test_training_changes_neither_the_network_nor_the_nodes(
    subtests: pytest.Subtests, nodes: list[TrainingNode], network: nn.Module
) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            vector, images = to_vector(network), nodes[0].samples.inputs.clone()
            for recipe in (sgd(engine), adam(engine)):
                local_updates(nodes[1:4], network, recipe)
            np.testing.assert_array_equal(to_vector(network), vector)
            np.testing.assert_array_equal(nodes[1].model, vector)
            assert torch.equal(nodes[0].samples.inputs, images)


def test_no_nodes_have_no_updates(subtests: pytest.Subtests, network: nn.Module) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            assert local_updates([], network, sgd(engine)) == []


# One SGD iteration worked by hand: two pixels, two classes, all weights 0.
LINEAR = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
IMAGES = torch.tensor([[1.0, 2.0], [3.0, -1.0]]).reshape(2, 1, 1, 2)
HAND = Samples(IMAGES, torch.tensor([0, 1]))


def by_hand(iterations: int, model: Vector, index: int = 0) -> TrainingNode:
    return TrainingNode(NodeKey("device", index), HAND, None, iterations, model)


@pytest.mark.parametrize("engine", ENGINES)
def test_one_iteration_of_sgd_worked_by_hand(engine: str) -> None:
    """With all weights 0 both classes have probability 1/2, so d loss / d score = (p - y) / 2 per image:

    image 0: (-1/4, 1/4) * (1, 2); image 1: (1/4, -1/4) * (3, -1); the bias's parts cancel.
    Row 0: -1/4 (1, 2) + 1/4 (3, -1) = (1/2, -3/4); row 1 is its negative. After one iteration C is that gradient.
    """
    updates = local_updates([by_hand(1, np.zeros(6, np.float32))], LINEAR, sgd(engine))
    np.testing.assert_allclose(updates[0].values, [0.5, -0.75, -0.5, 0.75, 0, 0], atol=1e-6)
    assert (updates[0].samples, updates[0].iterations) == (2, 1)


def test_two_iterations_of_sgd_against_numpy(subtests: pytest.Subtests) -> None:
    """Softmax regression in numpy, float64: the batch is both images every time, as there are no more."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            images, onehot = IMAGES.numpy().reshape(2, 2).astype(np.float64), np.eye(2)
            weight, bias, cumulative = np.zeros((2, 2)), np.zeros(2), np.zeros(6)
            for _ in range(2):
                scores = images @ weight.T + bias
                p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
                to_weight, to_bias = (p - onehot).T @ images / 2, (p - onehot).mean(axis=0)
                weight, bias = weight - 0.1 * to_weight, bias - 0.1 * to_bias
                cumulative += np.concatenate([to_weight.ravel(), to_bias])
            updates = local_updates([by_hand(2, np.zeros(6, np.float32))], LINEAR, sgd(engine))
            np.testing.assert_allclose(updates[0].values, cumulative, atol=1e-6)


def test_the_cumulative_gradient_is_what_the_weights_lost_over_eta(subtests: pytest.Subtests) -> None:
    """L6 with Adam, whose first step is eta * sign(gradient): C = sign(gradient), 0 where the gradient is 0."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            model = np.array([1.0, 2.0, 1.0, 2.0, 0.5, 0.5], np.float32)  # equal rows: again probability 1/2
            updates = local_updates([by_hand(1, model)], LINEAR, adam(engine))
            np.testing.assert_allclose(updates[0].values, [1, -1, -1, 1, 0, 0], atol=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_node_starts_from_its_own_model(engine: str) -> None:
    """`traditional` has one model per server. The second is certain of class 1 for both images:

    scores of image 0 are (-20, 20), wrong, so its (p - y) / 2 is (-1/2, 1/2); those of image 1 (-340, 340), right.
    """
    certain = np.array([-100.0, 40.0, 100.0, -40.0, 0, 0], np.float32)
    both = [by_hand(1, np.zeros(6, np.float32), 0), by_hand(1, certain, 1)]
    zero, sure = local_updates(both, LINEAR, sgd(engine))
    np.testing.assert_allclose(zero.values, [0.5, -0.75, -0.5, 0.75, 0, 0], atol=1e-6)
    np.testing.assert_allclose(sure.values, [-0.5, -1, 0.5, 1, -0.5, 0.5], atol=1e-4)


def test_a_mini_batch_is_the_one_of_the_stream_and_has_no_repetition(subtests: pytest.Subtests) -> None:
    """Image i lights pixel i alone, so with weights 0 the first gradient's column i is not 0 where i was drawn."""
    all_cases: list[tuple[int, int]] = [(60, 25), (25, 25), (24, 25), (1, 25)]
    for samples, batch in all_cases:
        for engine in ENGINES:
            with subtests.test(samples=samples, batch=batch, engine=engine):
                images = torch.eye(samples).reshape(samples, 1, 1, samples)
                table = Samples(images, torch.zeros(samples, dtype=torch.int64))
                network = nn.Sequential(nn.Flatten(), nn.Linear(samples, 2, bias=False))
                node = TrainingNode(NodeKey("device", 5), table, None, 1, np.zeros(2 * samples, np.float32))
                update = local_updates([node], network, replace(sgd(engine), batch=batch))[0]
                column = update.values.reshape(2, samples)[0]
                drawn = mini_batches(0, 3, node.key, samples, 1, batch)[0]
                used = np.flatnonzero(column)
                assert used.tolist() == sorted(drawn.tolist())
                assert len(used) == min(batch, samples)
                np.testing.assert_allclose(column[used], -0.5 / len(used), rtol=1e-5)  # none counted twice


def test_indices_choose_the_nodes_own_samples(subtests: pytest.Subtests) -> None:
    for engine in ENGINES:
        with subtests.test(engine=engine):
            images = torch.eye(6).reshape(6, 1, 1, 6)
            table = Samples(images, torch.zeros(6, dtype=torch.int64))
            network = nn.Sequential(nn.Flatten(), nn.Linear(6, 2, bias=False))
            node = TrainingNode(NodeKey("device", 0), table, torch.tensor([1, 4]), 1, np.zeros(12, np.float32))
            update = local_updates([node], network, sgd(engine))[0]
            assert len(node) == update.samples == 2
            assert np.flatnonzero(update.values[:6]).tolist() == [1, 4]


def test_the_optimiser_is_fresh_for_every_call() -> None:
    """L5: a second Adam of the same weights steps as the first did, with no momentum of it."""
    steps = []
    for _ in range(2):
        weight = torch.tensor([1.0], requires_grad=True)
        step = make_step("adam", [weight], 0.01)
        for _ in range(3):
            step((weight**2).sum())
        steps.append(weight.detach().clone())
    assert torch.equal(steps[0], steps[1])


def test_one_sgd_step_goes_eta_down_the_gradient() -> None:
    weight = torch.tensor([3.0, -1.0], requires_grad=True)
    make_step("sgd", [weight], 0.25)((weight**2).sum())  # gradient (6, -2)
    assert weight.tolist() == [1.5, -0.5]


DROPOUT = nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(2, 2))


def test_auto_takes_the_stacked_engine_where_the_network_allows_and_falls_back_where_not() -> None:
    assert uses_stacked(LINEAR, "auto")
    assert uses_stacked(LINEAR, "stacked")
    assert not uses_stacked(LINEAR, "sequential")
    assert not uses_stacked(DROPOUT, "auto")
    assert not uses_stacked(DROPOUT, "sequential")


def test_a_network_that_cannot_be_stacked_is_trained_by_auto_as_by_sequential() -> None:
    node = by_hand(2, np.zeros(6, np.float32))
    auto, sequential = (local_updates([node], DROPOUT, sgd(engine))[0] for engine in ("auto", "sequential"))
    np.testing.assert_array_equal(auto.values, sequential.values)


def test_the_stacked_engine_refuses_a_network_that_it_cannot_stack() -> None:
    with pytest.raises(ModelError) as caught:
        local_updates([by_hand(1, np.zeros(6, np.float32))], DROPOUT, sgd("stacked"))
    assert str(caught.value) == (
        "engine stacked: cannot stack Dropout(p=0.0, inplace=False) at its place; use engine sequential"
    )


# --- networks of others, under the default engine ---------------------------------------------------------------


def one_relu_twice() -> nn.Module:
    relu = nn.ReLU()
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 3))


def one_layer_twice() -> nn.Module:
    layer = nn.Linear(32, 32)
    return nn.Sequential(nn.Flatten(), layer, nn.Tanh(), layer, nn.Linear(32, 3))


def one_weight_twice() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Linear(32, 3))
    network[3].weight = network[1].weight
    return network


OF_OTHERS: dict[str, Callable[[], nn.Module]] = {
    "one ReLU used twice": one_relu_twice,
    "one layer used twice": one_layer_twice,
    "one weight used twice": one_weight_twice,
    "a forward of its own": lambda: Doubled(nn.Flatten(), nn.Linear(32, 3)),
    "Flatten twice": lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Flatten(), nn.Linear(8, 3)),
    "GroupNorm after Linear": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(32, 8), nn.GroupNorm(2, 8), nn.Linear(8, 3)
    ),
    "plain GroupNorm after Linear": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(32, 8), nn.GroupNorm(2, 8, affine=False), nn.Linear(8, 3)
    ),
    "Linear before Flatten": lambda: nn.Sequential(nn.Linear(4, 4), nn.Flatten(), nn.Linear(32, 3)),
    "Flatten from the second": lambda: nn.Sequential(nn.Flatten(2), nn.Flatten(), nn.Linear(32, 3)),
    "a hook": lambda: hooked(nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Linear(8, 3))),
}


def hooked(network: nn.Sequential) -> nn.Module:
    network[1].register_forward_hook(lambda layer, given, output: 2 * output)
    return network


def test_auto_trains_a_network_of_others_as_sequential_does(subtests: pytest.Subtests) -> None:
    all_batchs: list[int] = [3, 4, 6]
    for name in list(OF_OTHERS):
        for batch in all_batchs:
            with subtests.test(name=name, batch=batch):
                torch.manual_seed(0)
                network = OF_OTHERS[name]()
                rng = np.random.default_rng(0)
                images, labels = rng.random((40, 2, 4, 4), dtype=np.float32), rng.integers(0, 3, 40)
                table = Samples(torch.from_numpy(images), torch.from_numpy(labels))
                three = [
                    TrainingNode(NodeKey("device", n), table, torch.arange(10 * n, 10 * n + 10), 3, to_vector(network))
                    for n in range(3)
                ]
                auto, sequential = (
                    local_updates(three, network, replace(sgd(engine), batch=batch))
                    for engine in ("auto", "sequential")
                )
                for one, other in zip(auto, sequential, strict=True):
                    np.testing.assert_allclose(one.values, other.values, rtol=1e-2, atol=1e-4)


# --- networks that draw -----------------------------------------------------------------------------------------

FORGETFUL = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 2))


def forgetful_update(index: int = 0, seed: int = 0, round_: int = 3) -> NDArray[np.float32]:
    """All images alike and all of them in every batch: only what is dropped can make a difference."""
    table = Samples(torch.ones(10, 1, 4, 4), torch.zeros(10, dtype=torch.int64))
    node = TrainingNode(NodeKey("device", index), table, None, 2, np.zeros(34, np.float32))
    return local_updates([node], FORGETFUL, replace(sgd("auto"), seed=seed, round=round_))[0].values


def test_a_network_with_dropout_trains_the_same_for_the_same_seed_round_and_node() -> None:
    first = forgetful_update()
    torch.manual_seed(99)  # what others draw in between does not matter
    np.testing.assert_array_equal(forgetful_update(), first)


def test_dropout_differs_between_seeds_rounds_and_nodes(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, int]] = [{"index": 1}, {"seed": 1}, {"round_": 4}]
    for changed in cases:
        with subtests.test(changed=changed):
            assert not np.array_equal(forgetful_update(**changed), forgetful_update())


def test_dropout_leaves_the_global_generator_of_torch_alone() -> None:
    before = torch.get_rng_state()
    forgetful_update()
    assert torch.equal(torch.get_rng_state(), before)


# --- nodes whose data differ in form ----------------------------------------------------------------------------


def test_nodes_whose_data_are_scaled_differently_train_each_by_its_own_scale(subtests: pytest.Subtests) -> None:
    """The hand-worked example twice: once as it is, once stored as 4 x + 1 with mean 1 and std 4."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            stretched = Samples(4 * IMAGES + 1, HAND.labels, mean=(1.0,), std=(4.0,))
            zero = np.zeros(6, np.float32)
            plain, scaled = (
                TrainingNode(NodeKey("device", n), s, None, 1, zero) for n, s in enumerate((HAND, stretched))
            )
            for update in local_updates([plain, scaled], LINEAR, sgd(engine)):
                np.testing.assert_allclose(update.values, [0.5, -0.75, -0.5, 0.75, 0, 0], atol=1e-6)


def test_nodes_with_bytes_and_nodes_with_floats_train_side_by_side(subtests: pytest.Subtests) -> None:
    """0 and 255 are 0.0 and 1.0."""
    for engine in ENGINES:
        with subtests.test(engine=engine):
            pixels = torch.tensor([[0, 255], [255, 0]], dtype=torch.uint8).reshape(2, 1, 1, 2)
            tables = [Samples(pixels, HAND.labels), Samples(pixels / 255, HAND.labels)]
            zero = np.zeros(6, np.float32)
            both = [TrainingNode(NodeKey("device", n), table, None, 1, zero) for n, table in enumerate(tables)]
            as_bytes, as_floats = local_updates(both, LINEAR, sgd(engine))
            np.testing.assert_allclose(as_bytes.values, [0.25, -0.25, -0.25, 0.25, 0, 0], atol=1e-6)
            np.testing.assert_allclose(as_floats.values, as_bytes.values, atol=1e-6)


class Ticking:
    """A clock that a reading moves on by a second."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> float:
        self.readings += 1
        return float(self.readings)


@pytest.mark.parametrize("engine", ["sequential", "stacked"])
def test_training_stops_between_two_iterations_once_its_time_is_over(engine: str) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    samples = Samples(torch.rand(40, 1, 2, 2), torch.arange(40) % 3, (0.5,), (0.25,))
    node = TrainingNode(NodeKey("device", 0), samples, None, 10, to_vector(network))
    clock = Ticking()
    with pytest.raises(LateError, match=r"found 0\.5 s past the deadline"):
        local_updates([node], network, replace(sgd(engine), ends_s=3.5, now=clock))
    assert clock.readings == 4
    in_time = local_updates([node], network, replace(sgd(engine), ends_s=11.5, now=Ticking()))  # ten, and one after
    np.testing.assert_array_equal(in_time[0].values, local_updates([node], network, sgd(engine))[0].values)
    with pytest.raises(LateError):
        local_updates([node], network, replace(sgd(engine), ends_s=11.0, now=Ticking()))


def test_a_deadline_is_no_part_of_what_is_trained() -> None:
    assert replace(sgd("auto"), ends_s=3.5) == sgd("auto")
