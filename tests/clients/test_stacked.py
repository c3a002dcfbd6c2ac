"""Many networks as one: every layer that stacks gives each node its own network's numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from clients.errors import ModelError
from clients.models import fashion_mnist_cnn, mlp, svhn_cnn, to_vector, with_parameters
from clients.stacked import (
    IMAGE,
    MOST_BATCH,
    ROW,
    StackedNetwork,
    check_stackable,
    is_stackable,
    is_worthwhile,
)
from tests.clients.networks import Doubled

NODES, BATCH = 3, 4
SHAPE = (2, 6, 6)


def one_relu_twice() -> nn.Module:
    """The same object at two places; it has no parameters, so that is nothing special."""
    relu = nn.ReLU()
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), relu, nn.Flatten(), nn.Linear(64, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 3)
    )


STACKABLE: dict[str, nn.Module] = {
    "plain convolution": nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)),
    "padding": nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Flatten(), nn.Linear(144, 3)),
    "same padding": nn.Sequential(nn.Conv2d(2, 4, 3, padding="same"), nn.Flatten(), nn.Linear(144, 3)),
    "stride": nn.Sequential(nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.Flatten(), nn.Linear(36, 3)),
    "dilation": nn.Sequential(nn.Conv2d(2, 4, 3, dilation=2), nn.Flatten(), nn.Linear(16, 3)),
    "groups": nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, 3)),
    "no bias": nn.Sequential(nn.Conv2d(2, 4, 3, bias=False), nn.Flatten(), nn.Linear(64, 3, bias=False)),
    "group norm": nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(64, 3)),
    "plain group norm": nn.Sequential(nn.GroupNorm(1, 2, affine=False), nn.Flatten(), nn.Linear(72, 3)),
    "max pooling": nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)),
    "average pooling": nn.Sequential(nn.AvgPool2d(3, stride=1), nn.Flatten(), nn.Linear(32, 3)),
    "adaptive pooling": nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(2), nn.AdaptiveMaxPool2d(1), nn.Flatten()
    ),
    "several linear layers": nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.Tanh(), nn.Linear(5, 3)),
    "activations": nn.Sequential(
        nn.LeakyReLU(), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Sigmoid(), nn.Identity(), nn.Flatten(), nn.Linear(72, 3)
    ),
    "one activation used twice": one_relu_twice(),
    "activations in place": nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3)
    ),
}  # fmt: skip


def random_problem(network: nn.Module, nodes: int, batch: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Weights (nodes, P), images (B, nodes, C, H, W), labels (nodes, B)."""
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.normal(0, 0.3, (nodes, len(to_vector(network)))).astype(np.float32))
    images = torch.from_numpy(rng.normal(0, 1, (batch, nodes, *SHAPE)).astype(np.float32))
    return weights, images, torch.from_numpy(rng.integers(0, 3, (nodes, batch)))


def side_by_side(images: Tensor) -> Tensor:
    """Images (B, nodes, C, H, W) as a stacked network takes them: (B, H, W, nodes, C)."""
    return images.permute(0, 3, 4, 1, 2).contiguous()


def test_each_node_has_the_scores_of_its_own_network(subtests: pytest.Subtests) -> None:
    for name in list(STACKABLE):
        with subtests.test(name=name):
            network = STACKABLE[name]
            weights, images, _ = random_problem(network, NODES, BATCH, seed=0)
            scores = StackedNetwork(network, weights.numpy()).scores(side_by_side(images))
            assert scores.shape == (NODES, BATCH, 3)
            for node in range(NODES):
                alone = with_parameters(network, weights[node].numpy())
                torch.testing.assert_close(scores[node], alone(images[:, node]), rtol=1e-4, atol=1e-5)


def test_the_gradient_of_the_loss_is_every_nodes_own(subtests: pytest.Subtests) -> None:
    for name in list(STACKABLE):
        with subtests.test(name=name):
            network = STACKABLE[name]
            weights, images, labels = random_problem(network, NODES, BATCH, seed=1)
            many = StackedNetwork(network, weights.numpy())
            loss = many.loss(side_by_side(images), labels)
            for parameter, gradient in zip(many.parameters, torch.autograd.grad(loss, many.parameters), strict=True):
                parameter.data = gradient  # so that `vectors` lists the gradients per node
            total = 0.0
            for node, found in enumerate(many.vectors()):
                alone = with_parameters(network, weights[node].numpy())
                own = F.cross_entropy(alone(images[:, node]), labels[node])
                expected = torch.cat([g.flatten() for g in torch.autograd.grad(own, list(alone.parameters()))])
                torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-3, atol=1e-5)
                total += own.item()
            assert loss.item() == pytest.approx(total, rel=1e-5)


@given(nodes=st.integers(1, 7), batch=st.integers(1, 5), seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_any_number_of_nodes_and_any_batch_stack(nodes: int, batch: int, seed: int) -> None:
    network = STACKABLE["group norm"]
    weights, images, _ = random_problem(network, nodes, batch, seed)
    scores = StackedNetwork(network, weights.numpy()).scores(side_by_side(images))
    for node in range(nodes):
        alone = with_parameters(network, weights[node].numpy())
        torch.testing.assert_close(scores[node], alone(images[:, node]), rtol=1e-3, atol=1e-4)


def test_vectors_come_back_as_they_went_in(subtests: pytest.Subtests) -> None:
    for name in list(STACKABLE):
        with subtests.test(name=name):
            weights, _, _ = random_problem(STACKABLE[name], NODES, BATCH, seed=2)
            many = StackedNetwork(STACKABLE[name], weights.numpy())
            np.testing.assert_array_equal(np.stack(many.vectors()), weights.numpy())


def test_a_stacked_network_has_its_own_memory() -> None:
    network = STACKABLE["plain convolution"]
    weights, _, _ = random_problem(network, NODES, BATCH, seed=3)
    before, own = weights.clone(), to_vector(network)
    many = StackedNetwork(network, weights.numpy())
    with torch.no_grad():
        for parameter in many.parameters:
            parameter.add_(1)
    assert torch.equal(weights, before)
    np.testing.assert_array_equal(to_vector(network), own)


def test_our_networks_can_be_stacked() -> None:
    check_stackable(fashion_mnist_cnn((1, 28, 28), 10))
    assert is_stackable(fashion_mnist_cnn((1, 28, 28), 10))


class OwnModule(nn.Module):
    """A network that is no chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(72, 3)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.linear(images.flatten(1))
        return scores


class OwnConvolution(nn.Conv2d):
    """A layer whose forward may be anything."""


def test_a_layer_that_does_not_stack_before_the_flatten_is_refused_by_name(subtests: pytest.Subtests) -> None:
    cases: list[nn.Module] = [
        nn.Dropout(0.5),
        nn.Softmax(dim=1),
        nn.LayerNorm(6),
        nn.BatchNorm2d(2),
        nn.ConvTranspose2d(2, 4, 3),
        nn.PReLU(),
        nn.Sequential(nn.ReLU()),
        nn.Linear(6, 6),
        nn.Flatten(2),
        nn.Flatten(0),
        nn.Flatten(1, 2),
        OwnConvolution(2, 4, 3),
    ]
    for layer in cases:
        with subtests.test(layer=layer):
            network = nn.Sequential(layer, nn.Flatten(), nn.Linear(72, 3))
            assert refusal(network) == f"engine stacked: cannot stack {layer} at its place; use engine sequential"


def test_a_layer_that_does_not_stack_after_the_flatten_is_refused_by_name(subtests: pytest.Subtests) -> None:
    cases: list[nn.Module] = [
        nn.Flatten(),
        nn.GroupNorm(2, 8),
        nn.GroupNorm(2, 8, affine=False),
        nn.MaxPool2d(2),
        nn.Conv2d(1, 1, 1),
        nn.Dropout(),
    ]
    for layer in cases:
        with subtests.test(layer=layer):
            network = nn.Sequential(nn.Flatten(), nn.Linear(72, 8), layer, nn.Linear(8, 3))
            assert refusal(network) == f"engine stacked: cannot stack {layer} at its place; use engine sequential"


def test_a_convolution_that_pads_with_something_else_than_zeros_is_refused() -> None:
    layer = nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")
    network = nn.Sequential(layer, nn.Flatten(), nn.Linear(144, 3))
    assert refusal(network) == f"engine stacked: cannot stack {layer}; use engine sequential"


def test_a_layer_used_twice_with_its_parameters_is_refused() -> None:
    layer = nn.Linear(72, 72)
    network = nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer, nn.Linear(72, 3))
    assert refusal(network) == (
        f"engine stacked: {layer} is used twice with the same parameters; use engine sequential"
    )


def test_two_layers_that_share_a_parameter_are_refused() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(72, 72), nn.ReLU(), nn.Linear(72, 72), nn.Linear(72, 3))
    network[3].weight = network[1].weight
    assert refusal(network) == (
        f"engine stacked: {network[3]} is used twice with the same parameters; use engine sequential"
    )


def test_a_chain_with_hooks_is_refused_because_they_would_not_be_called(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["before a layer", "after a layer", "after the whole"]
    for place in cases:
        with subtests.test(place=place):
            network = nn.Sequential(nn.Flatten(), nn.Linear(72, 3))
            if place == "before a layer":
                network[1].register_forward_pre_hook(lambda layer, images: (2 * images[0],))
            else:
                hooked = network if place == "after the whole" else network[1]
                hooked.register_forward_hook(lambda layer, images, output: 2 * output)
            assert refusal(network) == "engine stacked: found hooks, which it would not call; use engine sequential"


def test_a_chain_without_a_flatten_is_refused() -> None:
    network = nn.Sequential(nn.Conv2d(2, 3, 6), nn.ReLU())
    assert refusal(network) == "engine stacked: found no Flatten in the chain; use engine sequential"


def test_a_network_that_is_no_plain_chain_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[nn.Module] = [OwnModule(), Doubled(nn.Flatten(), nn.Linear(72, 3))]
    for network in cases:
        with subtests.test(network=network):
            assert refusal(network) == (
                f"engine stacked: found {type(network).__name__}, expected an nn.Sequential; use sequential"
            )
            with pytest.raises(ModelError):
                StackedNetwork(network, np.zeros((1, 219), np.float32))


def refusal(network: nn.Module) -> str:
    with pytest.raises(ModelError) as caught:
        check_stackable(network)
    assert not is_stackable(network)
    return str(caught.value)


def test_rows_of_a_table_are_stacked_as_each_alone() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    torch.manual_seed(0)
    vectors, rows = torch.randn(6, 39), torch.randn(6, 8, 5)
    scores = StackedNetwork(network, vectors.numpy(), dimensions=ROW).scores(rows)
    for node in range(6):
        alone = with_parameters(network, vectors[node].numpy())
        torch.testing.assert_close(scores[node], alone(rows[node]), rtol=1e-4, atol=1e-5)


def test_what_is_neither_image_nor_row_is_not_stacked() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(5, 3))
    assert [is_stackable(network, dimensions) for dimensions in (1, 2, 3, 4)] == [True, False, True, False]
    assert not is_stackable(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(5, 3)), ROW)
    assert not is_stackable(nn.Sequential(nn.Linear(5, 3), nn.Flatten()), IMAGE)


def test_whether_stacking_pays_is_decided_by_the_form_alone(subtests: pytest.Subtests) -> None:
    """What the measurements of benchmarks/engines.py say, and that the paper's networks stay stacked."""
    cases: list[tuple[str, nn.Module, bool]] = [
        ("the CNN of Fashion-MNIST", fashion_mnist_cnn((1, 28, 28), 10), True),
        ("the CNN of SVHN", svhn_cnn((3, 32, 32), 10), True),
        ("narrow", mlp((30,), 10), True),
        ("wide", mlp((30,), 10, (512, 512)), False),
        ("16 channels in", nn.Sequential(nn.Conv2d(16, 16, 3)), False),
        ("16 channels of 3", nn.Sequential(nn.Conv2d(3, 16, 3)), False),
        ("15 channels of 3", nn.Sequential(nn.Conv2d(3, 15, 3)), True),
        ("grouped", nn.Sequential(nn.Conv2d(32, 32, 3, groups=4)), True),
    ]
    for name, network, pays in cases:
        with subtests.test(name=name):
            assert is_worthwhile(network, batch=25) is pays
            assert not is_worthwhile(network, batch=MOST_BATCH + 1)
