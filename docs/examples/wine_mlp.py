"""A table with a network of your own: `bfl simulate --dataset csv --data-dir wine.csv --model wine_mlp:make`.

In the folder of this file. The last column of wine.csv (or the one called label) is what is predicted.
"""

from collections.abc import Sequence

from torch import nn


def make(sample_shape: tuple[int, ...], classes: int, hidden: Sequence[int]) -> nn.Module:
    """Two hidden layers for rows of (columns,) numbers, which come standardised."""
    (columns,) = sample_shape
    return nn.Sequential(nn.Linear(columns, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, classes))
