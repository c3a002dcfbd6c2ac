"""What else you can bring: `bfl simulate --partition own_parts:by_size ...` in the folder of this file.

Data sets and models: stripes.py, tiny_mlp.py. Filter and attack: own_filter.py. Planner: own_planner.py. What each
function is told: docs/plugins.md.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from clients.vectors import Vector
from edge_servers.learning.aggregation import boost, global_update
from edge_servers.learning.schemes import ClosedRound


def by_size(labels: NDArray[np.int64], devices: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """--partition: device n holds n + 1 parts of a shuffled data set; some have much, some little."""
    ends = np.cumsum(np.arange(1, devices)) / (devices * (devices + 1) / 2) * len(labels)
    return np.split(rng.permutation(len(labels)), ends.astype(int))


def cautious(round_: ClosedRound) -> Vector:
    """--scheme: half of the step that the servers have agreed on."""
    half = round_.learning_rate / 2
    return global_update(round_.model, round_.x, round_.servers, boost(round_.closed), half)


def momentum(parameters: Sequence[torch.Tensor], learning_rate: float) -> torch.optim.Optimizer:
    """--optimizer: SGD with momentum, fresh in every round."""
    return torch.optim.SGD(parameters, lr=learning_rate, momentum=0.5)
