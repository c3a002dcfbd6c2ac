"""A planner of your own, to be compared with the trained policy: docs/plugins.md says how to run it."""

import numpy as np

from policy.parameters import LatencyParams
from policy.world.state import State


def slow_ones_offload(state: State, params: LatencyParams, rng: np.random.Generator) -> list[int]:
    """The third of the devices that would train longest offloads, each to the server that it hears best."""
    seconds = (state.work_cycles * state.data_bits / state.cpu_hz)[0]
    slowest = np.argsort(-seconds)[: params.devices // 3]
    best = state.path_gain[0].argmax(axis=1)
    return [int(best[n]) if n in slowest else -1 for n in range(params.devices)]
