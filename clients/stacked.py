"""Many copies of one network, each with its own parameters, computed as ONE network with grouped convolutions.

One node's batch of 25 small images cannot fill a CPU; ten nodes side by side can. Channels of all nodes lie next to
each other in memory (channels_last), which is what vector units want.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from clients.errors import ModelError
from clients.models import Vector

_ON_IMAGES = (nn.Conv2d, nn.GroupNorm, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
_ANYWHERE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Identity)


IMAGE, ROW = 3, 1
"""Dimensions of a sample that can be stacked: (channels, height, width), (columns,)"""


def check_stackable(network: nn.Module, dimensions: int = IMAGE) -> None:
    """Raise `ModelError` unless the network is a plain chain: layers on images, one Flatten, layers on vectors; or, for
    rows of a table, layers on vectors alone. `dimensions`: of one sample.
    """
    if dimensions not in (IMAGE, ROW):
        raise ModelError(f"engine stacked: found samples of {dimensions} dimensions, expected 3 or 1; use sequential")
    if type(network) is not nn.Sequential:  # a subclass may do anything in its forward()
        raise ModelError(f"engine stacked: found {type(network).__name__}, expected an nn.Sequential; use sequential")
    used: set[int] = set()
    for layer in network:
        own = {id(parameter) for parameter in layer.parameters()}
        if own & used:
            raise ModelError(f"engine stacked: {layer} is used twice with the same parameters; use engine sequential")
        used |= own
    if any(module._forward_hooks or module._forward_pre_hooks for module in network.modules()):
        raise ModelError("engine stacked: found hooks, which it would not call; use engine sequential")
    flat, seen = dimensions == ROW, False
    for layer in network:
        if type(layer) is nn.Flatten and not seen and (layer.start_dim, layer.end_dim) == (1, -1):
            flat = seen = True
        elif not (type(layer) in _ANYWHERE or (type(layer) is nn.Linear if flat else type(layer) in _ON_IMAGES)):
            raise ModelError(f"engine stacked: cannot stack {layer} at its place; use engine sequential")
        if isinstance(layer, nn.Conv2d) and layer.padding_mode != "zeros":
            raise ModelError(f"engine stacked: cannot stack {layer}; use engine sequential")
    if not flat:
        raise ModelError("engine stacked: found no Flatten in the chain; use engine sequential")


MOST_BATCH, _MOST_WEIGHTS = 200, 2**17
_FEW_CHANNELS, _MOST_OUT_OF_FEW, _MOST_IN, _MOST_OUT = 4, 15, 15, 32


def is_worthwhile(network: nn.Module, batch: int) -> bool:
    """Whether a chain that can be stacked is faster so, by its form alone: results differ in their last bits, so no
    clock may decide. From 16 channels on, torch's plain convolutions are faster than grouped ones, and so is its plain
    product of matrices beyond some 130,000 weights (`python -m benchmarks.engines` measures both).
    """
    return batch <= MOST_BATCH and all(map(_is_narrow, network.modules()))


def _is_narrow(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Linear):
        return layer.weight.numel() <= _MOST_WEIGHTS
    if not isinstance(layer, nn.Conv2d):
        return True
    inputs, outputs = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    return inputs <= _MOST_IN and outputs <= (_MOST_OUT_OF_FEW if inputs < _FEW_CHANNELS else _MOST_OUT)


def dimensions_of(network: nn.Module) -> int:
    """Of the samples that a chain is for: rows of a table where it begins with a Linear."""
    is_for_rows = isinstance(network, nn.Sequential) and len(network) > 0 and isinstance(network[0], nn.Linear)
    return ROW if is_for_rows else IMAGE


def is_stackable(network: nn.Module, dimensions: int = IMAGE) -> bool:
    """Whether `check_stackable` passes."""
    try:
        check_stackable(network, dimensions)
    except ModelError:
        return False
    return True


class StackedNetwork:
    """`n` copies of a chain of layers. `parameters` are those of the chain, each with all nodes' values."""

    def __init__(self, network: nn.Module, vectors: NDArray[np.float32], dimensions: int = IMAGE) -> None:
        check_stackable(network, dimensions)
        self.nodes = len(vectors)
        self._layers = list(network)  # type: ignore[call-overload]
        self._shapes = [parameter.shape for parameter in network.parameters()]
        self.parameters = self._split(torch.from_numpy(vectors), network)

    def _split(self, vectors: Tensor, network: nn.Module) -> list[Tensor]:
        parts = torch.split(vectors, [shape.numel() for shape in self._shapes], dim=1)
        owners = [layer for layer in self._layers for _ in layer.parameters(recurse=False)]
        stacked = []
        for part, shape, owner in zip(parts, self._shapes, owners, strict=True):
            if isinstance(owner, nn.Linear):  # (nodes, out, in) and (nodes, 1, out), for baddbmm
                value = part.reshape(self.nodes, *((1,) if len(shape) == 1 else ()), *shape).contiguous()
            else:  # (nodes * out, in, h, w) and (nodes * out,)
                value = part.reshape(self.nodes * shape[0], *shape[1:]).contiguous()
            if value.ndim == 4:
                value = value.contiguous(memory_format=torch.channels_last)
            stacked.append(value.clone(memory_format=torch.preserve_format).requires_grad_())
        return stacked

    def vectors(self) -> list[Vector]:
        """Each node's parameters as a flat vector, in the order of the nodes."""
        parts = [p.detach().contiguous().reshape(self.nodes, -1) for p in self.parameters]
        return list(torch.cat(parts, dim=1).numpy())

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Sum over the nodes of each node's mean cross-entropy: its gradient is every node's own.

        inputs as for `scores`, labels (nodes, B).
        """
        scores = self.scores(inputs)
        return F.cross_entropy(scores.flatten(0, 1), labels.reshape(-1), reduction="sum") / labels.shape[1]

    def scores(self, inputs: Tensor) -> Tensor:
        """Scores (nodes, B, classes) of images (B, H, W, nodes, C) or of rows (nodes, B, columns)."""
        h = inputs
        if inputs.ndim > IMAGE:
            h = inputs.flatten(3, 4).permute(0, 3, 1, 2)  # (B, nodes * C, H, W), channels_last without a copy
        parameters = iter(self.parameters)
        for layer in self._layers:
            h = self._apply(layer, h, parameters)
        return h

    def _apply(self, layer: nn.Module, h: Tensor, parameters: Iterator[Tensor]) -> Tensor:
        n = self.nodes
        if isinstance(layer, nn.Conv2d):
            weight, bias = next(parameters), None if layer.bias is None else next(parameters)
            return F.conv2d(h, weight, bias, layer.stride, layer.padding, layer.dilation, n * layer.groups)
        if isinstance(layer, nn.GroupNorm):
            affine = (next(parameters), next(parameters)) if layer.affine else (None, None)
            return F.group_norm(h, n * layer.num_groups, affine[0], affine[1], layer.eps)
        if isinstance(layer, nn.Flatten) and h.ndim > IMAGE:  # (B, nodes * C, H, W) -> (nodes, B, C * H * W)
            return h.reshape(h.shape[0], n, -1).transpose(0, 1)
        if isinstance(layer, nn.Linear):
            weight = next(parameters).transpose(1, 2)
            return torch.bmm(h, weight) if layer.bias is None else torch.baddbmm(next(parameters), h, weight)
        if isinstance(layer, nn.Flatten):
            return h
        output: Tensor = layer(h)
        return output
