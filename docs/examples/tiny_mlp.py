"""A model of your own: `bfl simulate --model tiny_mlp:make` in the folder of this file."""

from collections.abc import Sequence

from torch import nn


def make(sample_shape: tuple[int, int, int], classes: int, hidden: Sequence[int] = ()) -> nn.Module:
    """One hidden layer. `hidden` is what `--hidden` says; empty means: choose yourself."""
    channels, height, width = sample_shape
    size = hidden[0] if hidden else 32
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, size), nn.ReLU(), nn.Linear(size, classes))
