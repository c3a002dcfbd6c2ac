"""One of everything that you can bring: `bfl simulate --filter own_parts:middle ...` in the folder of this file.

Data sets and models: stripes.py, tiny_mlp.py. Agents: sb3_agent.py. What each function is told: docs/plugins.md.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bfl.attacks.own import Scene
from clients.vectors import Vector
from edge_servers.learning.aggregation import boost, global_update
from edge_servers.learning.filters import Filtered, folded_sum, per_iteration
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.schemes import ClosedRound
from policy.parameters import LatencyParams
from policy.world.state import State


def by_size(labels: NDArray[np.int64], devices: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """--partition: device n holds n + 1 parts of a shuffled data set; some have much, some little."""
    ends = np.cumsum(np.arange(1, devices)) / (devices * (devices + 1) / 2) * len(labels)
    return np.split(rng.permutation(len(labels)), ends.astype(int))


def fewest_data(state: State, params: LatencyParams, rng: np.random.Generator) -> list[int]:
    """--planner: the third of the devices with the least data offloads, dealt to the servers in turn."""
    chosen = np.argsort(state.data_bits[0])[: params.devices // 3]
    return [int(n) % params.servers if n in chosen else -1 for n in range(params.devices)]


def middle(closed: Sequence[Gradient]) -> Filtered:
    """--filter: take out whoever points away from the sum of all. Replayed bit for bit, so no BLAS: `folded_sum`."""
    rows = {gradient.sender: per_iteration(gradient) for gradient in closed}
    total = sum(rows.values())
    against = {who: folded_sum(row * total) for who, row in rows.items() if folded_sum(row * total) < 0}
    removed = {
        who: f"found a product of {product:g} with the sum, expected 0 or more" for who, product in against.items()
    }
    return Filtered(tuple(gradient for gradient in closed if gradient.sender not in removed), removed)


def turned_around(honest: NDArray[np.float64], scene: Scene) -> NDArray[np.float64]:
    """--attack "own_parts:turned_around@2-9:device=3": the gradient turned around, with a little noise to hide it."""
    return -scene.strength * honest + 0.01 * np.abs(honest).mean() * scene.rng.standard_normal(len(honest))


def cautious(round_: ClosedRound) -> Vector:
    """--scheme: half of the step that the servers have agreed on."""
    half = round_.learning_rate / 2
    return global_update(round_.model, round_.x, round_.servers, boost(round_.closed), half)


def momentum(parameters: Sequence[torch.Tensor], learning_rate: float) -> torch.optim.Optimizer:
    """--optimizer: SGD with momentum, fresh in every round."""
    return torch.optim.SGD(parameters, lr=learning_rate, momentum=0.5)
