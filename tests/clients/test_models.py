"""The networks of L2, networks of others, and networks as vectors."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from clients.data import Dataset
from clients.errors import ModelError
from clients.models import (
    build_network,
    check_network,
    cnn,
    fashion_mnist_cnn,
    network_for,
    svhn_cnn,
    to_vector,
    with_parameters,
)
from clients.parameters import TrainingParams
from clients.plugins import permit

FASHION, SVHN = (1, 28, 28), (3, 32, 32)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def linear_sizes(network: nn.Module) -> list[tuple[int, int]]:
    return [(layer.in_features, layer.out_features) for layer in network.modules() if isinstance(layer, nn.Linear)]


def test_the_fashion_mnist_network_has_21840_parameters() -> None:
    """Conv 10 * (25 + 1), conv 20 * (250 + 1), FC 50 * (320 + 1), FC 10 * (50 + 1)."""
    assert 260 + 5_020 + 16_050 + 510 == 21_840
    assert count(fashion_mnist_cnn(FASHION, 10)) == 21_840
    assert linear_sizes(fashion_mnist_cnn(FASHION, 10)) == [(320, 50), (50, 10)]


def test_the_svhn_network_has_the_fully_connected_layers_256_72_10() -> None:
    """32 pixels become (32 - 4) / 2 = 14, then (14 - 4) / 2 = 5; 20 channels of 5 x 5 are 500."""
    network = svhn_cnn(SVHN, 10)
    assert linear_sizes(network) == [(500, 256), (256, 72), (72, 10)]
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert [(c.in_channels, c.out_channels, c.kernel_size) for c in convolutions] == [(3, 10, (5, 5)), (10, 20, (5, 5))]


def test_the_layers_are_in_the_order_of_the_paper() -> None:
    names = [type(layer).__name__ for layer in fashion_mnist_cnn(FASHION, 10).children()]
    block = ["Conv2d", "MaxPool2d", "ReLU"]
    assert names == [*block, *block, "Flatten", "Linear", "ReLU", "Linear"]


@given(hidden=st.lists(st.integers(1, 40), max_size=3), classes=st.integers(2, 12))
@settings(max_examples=15, deadline=None)
def test_hidden_sizes_and_classes_are_those_asked_for(hidden: list[int], classes: int) -> None:
    network = cnn(FASHION, classes, hidden)
    sizes = [320, *hidden, classes]
    assert linear_sizes(network) == list(pairwise(sizes))
    check_network(network, FASHION, classes)


def test_hidden_sizes_reach_the_network_by_its_name() -> None:
    network = build_network("fashion-mnist-cnn", FASHION, 10, (8, 4), seed=0)
    assert linear_sizes(network) == [(320, 8), (8, 4), (4, 10)]


def test_a_run_trains_the_network_of_its_data_set_unless_it_names_another(
    subtests: pytest.Subtests, synthetic: Dataset
) -> None:
    cases: list[tuple[str, str, list[tuple[int, int]]]] = [
        ("auto", "", [(320, 50), (50, 10)]),
        ("auto", "8,4", [(320, 8), (8, 4), (4, 10)]),
        ("svhn-cnn", "", [(320, 256), (256, 72), (72, 10)]),
    ]
    for model, hidden, sizes in cases:
        with subtests.test(model=model, hidden=hidden, sizes=sizes):
            assert linear_sizes(network_for(synthetic, TrainingParams(model=model, hidden=hidden), seed=0)) == sizes


def test_the_network_of_a_run_follows_from_its_data_set_and_seed(synthetic: Dataset) -> None:
    other = replace(synthetic, model="clients.models:svhn_cnn")
    assert linear_sizes(network_for(other, TrainingParams(), seed=0)) == [(320, 256), (256, 72), (72, 10)]
    one, same, two = (to_vector(network_for(synthetic, TrainingParams(), seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, two)


def test_a_network_follows_from_its_seed_alone(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["fashion-mnist-cnn", "svhn-cnn", "clients.models:svhn_cnn"]
    for name in cases:
        with subtests.test(name=name):
            vectors = [to_vector(build_network(name, SVHN, 10, (), seed)) for seed in (3, 3, 4)]
            np.testing.assert_array_equal(vectors[0], vectors[1])
            assert not np.array_equal(vectors[0], vectors[2])


def test_building_a_network_leaves_the_global_generator_of_torch_alone() -> None:
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    build_network("fashion-mnist-cnn", FASHION, 10, (), seed=0)
    assert torch.equal(torch.rand(3), expected)


def test_trying_out_a_network_that_draws_leaves_the_global_generator_of_torch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_models_c.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    before = torch.get_rng_state()
    build_own("own_models_c:forgetful", seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_network_does_not_depend_on_the_global_generator_of_torch() -> None:
    torch.manual_seed(1)
    first = to_vector(build_network("fashion-mnist-cnn", FASHION, 10, (), seed=0))
    torch.manual_seed(2)
    np.testing.assert_array_equal(to_vector(build_network("fashion-mnist-cnn", FASHION, 10, (), seed=0)), first)


def test_a_network_survives_the_way_through_its_vector() -> None:
    first, second = (build_network("fashion-mnist-cnn", FASHION, 10, (), seed) for seed in (0, 1))
    vector = to_vector(first)
    assert vector.shape == (21_840,)
    assert vector.dtype == np.float32
    filled = with_parameters(second, vector)
    np.testing.assert_array_equal(to_vector(filled), vector)
    images = torch.rand(2, *FASHION)
    assert torch.equal(filled(images), first(images))


def test_a_vector_lists_the_parameters_in_their_order() -> None:
    linear = nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        linear.bias.copy_(torch.tensor([5.0, 6.0]))
    assert to_vector(nn.Sequential(nn.Flatten(), linear)).tolist() == [1, 2, 3, 4, 5, 6]


def test_filling_a_copy_changes_neither_the_network_nor_the_vector() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    before = to_vector(network)
    vector = np.arange(6, dtype=np.float32)
    filled = with_parameters(network, vector)
    with torch.no_grad():
        for parameter in filled.parameters():
            parameter.add_(1)
    np.testing.assert_array_equal(vector, np.arange(6))
    np.testing.assert_array_equal(to_vector(network), before)
    np.testing.assert_array_equal(to_vector(filled), vector + 1)


def test_the_parameters_of_a_filled_copy_are_no_views_of_one_buffer() -> None:
    filled = with_parameters(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)), np.arange(6, dtype=np.float32))
    weight, bias = filled.parameters()
    assert weight.untyped_storage().nbytes() == 4 * 4
    assert bias.untyped_storage().nbytes() == 2 * 4


def test_a_vector_of_another_length_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, ...]] = [(5,), (7,), (6, 1), ()]
    for shape in cases:
        with subtests.test(shape=shape):
            network = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
            with pytest.raises(ModelError) as caught:
                with_parameters(network, np.zeros(shape, np.float32))
            assert str(caught.value) == f"found a vector of float32 and shape {shape}, expected float32 of (6,)"


def test_a_vector_of_other_numbers_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[type] = [np.float64, np.float16, np.int64]
    for kind in cases:
        with subtests.test(kind=kind):
            network = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
            with pytest.raises(ModelError) as caught:
                with_parameters(network, np.zeros(6, kind))
            assert str(caught.value) == (f"found a vector of {np.dtype(kind)} and shape (6,), expected float32 of (6,)")


def refusal(network: nn.Module) -> str:
    with pytest.raises(ModelError) as caught:
        check_network(network, FASHION, 10)
    return str(caught.value)


def test_batch_norm_is_refused_with_advice() -> None:
    network = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(784, 10))
    assert refusal(network) == (
        "the model keeps state outside its parameters (0.running_var, 0.num_batches_tracked), which changes in "
        "training and which no gradient carries to the others; use GroupNorm in place of BatchNorm (a network of "
        "torchvision: norm_layer=lambda channels: nn.GroupNorm(1, channels))"
    )


class WithPositions(nn.Module):
    """A table of positions, as transformers have it; `counts` makes it one that changes."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(784, 10)
        self.positions: Tensor
        self.register_buffer("positions", torch.arange(784.0))
        self.counts = counts

    def forward(self, images: Tensor) -> Tensor:
        if self.counts:
            self.positions = self.positions + 1
        scores: Tensor = self.linear(images.flatten(1) + self.positions / 784)
        return scores


def test_what_a_network_keeps_and_never_changes_is_accepted() -> None:
    check_network(WithPositions(counts=False), FASHION, 10)
    assert refusal(WithPositions(counts=True)).startswith("the model keeps state outside its parameters (positions), ")


def test_a_table_of_positions_is_in_every_copy() -> None:
    network = WithPositions(counts=False)
    filled = with_parameters(network, to_vector(network) + 1)
    images = torch.rand(2, *FASHION)
    assert isinstance(filled, WithPositions)
    assert torch.equal(filled(images), filled.linear(images.flatten(1) + network.positions / 784))


def test_group_norm_is_accepted() -> None:
    check_network(nn.Sequential(nn.GroupNorm(1, 1), nn.Flatten(), nn.Linear(784, 10)), FASHION, 10)


def test_a_network_with_the_wrong_number_of_scores_is_refused() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 7))
    assert refusal(network) == "the model answers with (2, 7) for 2 images, expected scores of shape (2, 10)"


def test_a_network_that_forgets_to_flatten_is_refused() -> None:
    network = nn.Conv2d(1, 10, 28)
    assert refusal(network) == ("the model answers with (2, 10, 1, 1) for 2 images, expected scores of shape (2, 10)")


class Answering(nn.Module):
    """A network whose answer is wrapped into something."""

    def __init__(self, wrap: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.linear = nn.Linear(784, 10)
        self.wrap = wrap

    def forward(self, images: Tensor) -> object:
        return self.wrap(self.linear(images.flatten(1)))


def test_a_network_that_answers_with_something_else_than_a_tensor_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Callable[[Tensor], object], str]] = [
        (lambda scores: (scores,), "tuple"),
        (lambda scores: {"scores": scores}, "dict"),
        (lambda scores: None, "NoneType"),
    ]
    for wrap, name in cases:
        with subtests.test(wrap=wrap, name=name):
            assert refusal(Answering(wrap)) == (
                f"the model answers with {name} for 2 images, expected scores of shape (2, 10)"
            )


def test_a_network_for_other_images_is_refused_with_the_shape() -> None:
    message = refusal(nn.Sequential(nn.Flatten(), nn.Linear(100, 10)))
    assert message.startswith("the model does not take images of shape (1, 28, 28): ")


def frozen_first_layer() -> nn.Module:
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 5), nn.Linear(5, 10))
    network[1].requires_grad_(False)
    return network


def test_a_network_without_trainable_float32_parameters_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[nn.Module] = [
        nn.Flatten(),
        nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).double(),
        nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).requires_grad_(False),
        frozen_first_layer(),
    ]
    for label, network in zip(["no parameters", "double", "frozen", "frozen first layer"], cases, strict=True):
        with subtests.test(label):
            assert refusal(network) == "the model's parameters must exist, be float32 and be trainable, all of them"


def test_images_too_small_for_two_convolutions_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, tuple[int, int, int]]] = [(15, (1, 15, 28)), (8, (1, 28, 8))]
    for pixels, shape in cases:
        with subtests.test(pixels=pixels, shape=shape):
            with pytest.raises(ModelError) as caught:
                build_network("fashion-mnist-cnn", shape, 10, (), seed=0)
            assert str(caught.value) == (
                f"images of {pixels} pixels are too small for two 5 x 5 convolutions; expected at least 16"
            )


def test_images_of_16_pixels_are_large_enough() -> None:
    """(16 - 4) / 2 = 6, (6 - 4) / 2 = 1."""
    assert linear_sizes(build_network("fashion-mnist-cnn", (1, 16, 16), 10, (), seed=0))[0] == (20, 50)


PLUGIN = """
from torch import nn

def own(sample_shape, classes, hidden):
    channels, height, width = sample_shape
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, classes))

def forgetful(sample_shape, classes, hidden):
    return nn.Sequential(nn.Dropout(0.5), *own(sample_shape, classes, hidden))

def a_string(sample_shape, classes, hidden):
    return "network"
"""


def build_own(name: str, seed: int) -> nn.Module:
    permit({"model": name})
    return build_network(name, (1, 2, 2), 3, (), seed)


def test_a_network_of_your_own_is_initialised_from_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models_a.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    one, two = (to_vector(build_own("own_models_a:own", seed=5)) for _ in range(2))
    assert one.shape == (15,)
    np.testing.assert_array_equal(one, two)


def test_a_plug_in_that_returns_no_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_models_b.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError) as caught:
        build_own("own_models_b:a_string", seed=5)
    assert str(caught.value) == "model own_models_b:a_string: found str, expected a torch.nn.Module"


def test_an_unknown_network_names_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(ModelError) as caught:
        build_network("svhncnn", SVHN, 10, (), seed=0)
    assert str(caught.value) == (
        'model: found "svhncnn", expected auto, fashion-mnist-cnn, svhn-cnn or your own as module:function '
        '(did you mean "svhn-cnn"?)'
    )
