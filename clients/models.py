"""The networks of L2, the door for your own, and networks as flat vectors."""

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from clients.data import Dataset
from clients.errors import ModelError
from clients.parameters import TrainingParams
from clients.plugins import load_plugin
from clients.sources import with_torchvision
from clients.vectors import Vector as Vector


def cnn(sample_shape: tuple[int, int, int], classes: int, hidden: Sequence[int]) -> nn.Sequential:
    """L2: conv 10, max-pool, ReLU, conv 20, max-pool, ReLU (5 x 5 kernels), then fully connected layers."""
    channels, height, width = sample_shape
    flat = 20 * _after_two_blocks(height) * _after_two_blocks(width)
    sizes = [flat, *hidden]
    layers: list[nn.Module] = [
        nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(),
    ]  # fmt: skip
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


def _after_two_blocks(pixels: int) -> int:
    left = ((pixels - 4) // 2 - 4) // 2
    if left < 1:
        raise ModelError(f"images of {pixels} pixels are too small for two 5 x 5 convolutions; expected at least 16")
    return left


def fashion_mnist_cnn(sample_shape: tuple[int, int, int], classes: int, hidden: Sequence[int] = ()) -> nn.Module:
    """320 -> 50 -> 10 after the convolutions: 21,840 parameters on 1 x 28 x 28."""
    return cnn(sample_shape, classes, hidden or (50,))


def svhn_cnn(sample_shape: tuple[int, int, int], classes: int, hidden: Sequence[int] = ()) -> nn.Module:
    """500 -> 256 -> 72 -> 10 after the convolutions on 3 x 32 x 32."""
    return cnn(sample_shape, classes, hidden or (256, 72))


def build_network(
    name: str, sample_shape: tuple[int, int, int], classes: int, hidden: Sequence[int], seed: int
) -> nn.Module:
    """The network `name`, initialised from `seed` without touching torch's global generator.

    `name` is one of ours or `module:function` with the signature of `fashion_mnist_cnn`.
    """
    make = load_plugin("model", name, ModelError)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            network = with_torchvision(lambda: make(sample_shape, classes, tuple(hidden)))
        except TypeError as error:
            raise ModelError(
                f"model {name} cannot be made: {error}; expected a function of (sample_shape, classes, hidden)"
            ) from error
    if not isinstance(network, nn.Module):
        raise ModelError(f"model {name}: found {type(network).__name__}, expected a torch.nn.Module")
    check_network(network, sample_shape, classes)
    return network


def network_for(dataset: Dataset, training: TrainingParams, seed: int) -> nn.Module:
    """The network that a run trains, initialised from the seed: model 0."""
    name = dataset.model if training.model == "auto" else training.model
    return build_network(name, dataset.sample_shape, dataset.classes, training.hidden_sizes, seed)


def check_network(network: nn.Module, sample_shape: tuple[int, int, int], classes: int) -> None:
    """Raise `ModelError` unless the network maps images to `classes` scores and learns in its parameters alone."""
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    parameters = list(network.parameters())
    if not parameters or any(p.dtype != torch.float32 or not p.requires_grad for p in parameters):
        raise ModelError("the model's parameters must exist, be float32 and be trainable, all of them")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            scores = network(torch.zeros(2, *sample_shape))
        except RuntimeError as error:
            raise ModelError(f"the model does not take images of shape {sample_shape}: {error}") from error
    found = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    if found != (2, classes):
        raise ModelError(f"the model answers with {found} for 2 images, expected scores of shape (2, {classes})")
    _check_buffers(network, buffers)


def _check_buffers(network: nn.Module, before: Mapping[str, Tensor]) -> None:
    """Raise `ModelError` if a forward pass has changed what the network keeps beside its parameters. What stays as it
    was made, such as a table of positions, everybody makes alike.
    """
    changed = [name for name, now in network.named_buffers() if not torch.equal(now, before.get(name, torch.empty(0)))]
    if changed:
        raise ModelError(
            f"the model keeps state outside its parameters ({', '.join(changed):.300}), which changes in training and "
            "which no gradient carries to the others; use GroupNorm in place of BatchNorm (a network of torchvision: "
            "norm_layer=lambda channels: nn.GroupNorm(1, channels))"
        )


def to_vector(network: nn.Module) -> Vector:
    """The network's parameters as one float32 vector."""
    vector: Vector = parameters_to_vector(network.parameters()).detach().numpy().copy()
    return vector


def with_parameters(network: nn.Module, vector: Vector) -> nn.Module:
    """A copy of `network` that has the parameters of `vector`."""
    expected = sum(p.numel() for p in network.parameters())
    if vector.shape != (expected,) or vector.dtype != np.float32:
        raise ModelError(
            f"found a vector of {vector.dtype} and shape {vector.shape}, expected float32 of ({expected},)"
        )
    filled = copy.deepcopy(network)
    values: Tensor = torch.from_numpy(vector.copy())
    vector_to_parameters(values, filled.parameters())
    for parameter in filled.parameters():  # vector_to_parameters leaves views of one buffer
        parameter.data = parameter.data.clone()
    return filled
