"""ResNet-18 with GroupNorm, 11.2 million parameters: `bfl simulate --model resnet18:make`, from this folder.

BatchNorm keeps running means outside the parameters, which no gradient carries to the others; GroupNorm does not. A
gradient of it is 22 MB (--codec fp16) and travels beside the chain: the block stays as small as for any other model.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


def norm(channels: int) -> nn.Module:
    return nn.GroupNorm(min(32, channels // 4), channels)


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            norm(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            norm(outputs),
        )
        around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))
        self.around = nn.Identity() if (inputs, stride) == (outputs, 1) else around

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.main(x) + self.around(x))


def make(sample_shape: tuple[int, int, int], classes: int, _hidden: Sequence[int] = ()) -> nn.Module:
    """For small images: a 3 x 3 stem without pooling, as CIFAR-10's ResNets have it. `--hidden` says nothing here."""
    widths = (64, 64, 128, 256, 512)
    layers = [
        Block(inputs if number == 0 else outputs, outputs, 2 if number == 0 and inputs != outputs else 1)
        for inputs, outputs in pairwise(widths)
        for number in range(2)
    ]
    stem = (nn.Conv2d(sample_shape[0], 64, 3, 1, 1, bias=False), norm(64), nn.ReLU())
    return nn.Sequential(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
