"""One of everything that others can bring; each leaves a trace. Tests copy it to where a user's module would be."""

SOURCE = '''
"""A user's module. Whoever imports it leaves `imported` in the current folder."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from clients.data import synthetic
from edge_servers.learning.aggregation import boost, central_update, global_update

Path("imported").touch()
CALLED = set()


def data(folder, seed):
    CALLED.add("dataset")
    return synthetic(folder, seed)


def network(sample_shape, classes, hidden):
    CALLED.add("model")
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.Tanh(), nn.Linear(8, classes))


def shares(labels, devices, rng):
    CALLED.add("partition")
    return np.array_split(rng.permutation(len(labels)), devices)


def plan(state, params, rng):
    CALLED.add("planner")
    return [0, *[-1] * (params.devices - 1)]


def keep(closed):
    CALLED.add("filter")
    return [gradient for gradient in closed if gradient.node != "device 2"]


def next_model(closed_round):
    CALLED.add("scheme")
    if closed_round.gradients:
        return central_update(closed_round.model, closed_round.gradients, closed_round.learning_rate)
    b, eta = boost(closed_round.closed), closed_round.learning_rate / 2
    return global_update(closed_round.model, closed_round.x, closed_round.servers, b, eta)


def steps(parameters, learning_rate):
    CALLED.add("optimizer")
    return torch.optim.SGD(parameters, lr=learning_rate, momentum=0.5)


def lie(honest, scene):
    CALLED.add(f"attack of {scene.who.split()[0]}: {scene.what}")
    return -scene.strength * honest + 1e-4 * scene.rng.standard_normal(len(honest))
'''
FUNCTIONS = {
    "dataset": "data", "model": "network", "partition": "shares", "planner": "plan", "filter": "keep",
    "scheme": "next_model", "optimizer": "steps", "attack": "lie",
}  # fmt: skip
"""By point"""
EVERYTHING = {
    "dataset", "model", "partition", "planner", "filter", "scheme", "optimizer", "attack of device: gradient",
    "attack of server: iterate",
}  # fmt: skip
"""The trace that all of them leave"""
SMALL: dict[str, object] = {
    "rounds": 1, "devices": 4, "edges": 2, "iterations": 2, "batch": 5, "threads": 1, "difficulty": 1, "phi": "1",
}  # fmt: skip
"""Settings of a run that takes half a second"""
