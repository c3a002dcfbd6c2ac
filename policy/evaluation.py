"""Agents on fresh states: T / N with confidence intervals, beside the near-optimum on the same states."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from policy.agents import Agent
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.world.latency import latency_of, wall_clock_s
from policy.world.state import Array, State, new_state

EVALUATION_SEED = 9_000_000
"""Evaluation states come from seeds that no training uses"""
CHUNK = 50
"""States decided at once"""
Z_95 = 1.959964


@dataclass(frozen=True)
class Score:
    """The latencies of an agent in one world, state by state."""

    agent: str
    params: LatencyParams
    per_state_s: Array  # T / N of each state
    wall_s: float  # mean T_wall (S26)
    decide_ms: float  # per state, decided in chunks

    @property
    def mean_s(self) -> float:
        """Mean T / N."""
        return float(self.per_state_s.mean())

    @property
    def half_width_s(self) -> float:
        """Half of the 95 % confidence interval of the mean."""
        return half_width(self.per_state_s)


def half_width(values: Array) -> float:
    """Half of the 95 % confidence interval of a mean."""
    return Z_95 * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0


@dataclass(frozen=True)
class Ratio:
    """One mean over another on the same states."""

    value: float
    half_width: float


def ratio(scores: Array, yardstick: Array) -> Ratio:
    """mean(a) / mean(b) of paired values and half of its 95 % interval: a - r b has mean 0."""
    value = float(scores.mean() / yardstick.mean())
    return Ratio(value, half_width(scores - value * yardstick) / float(yardstick.mean()))


def fresh_states(params: LatencyParams, states: int, seed: int = EVALUATION_SEED) -> list[State]:
    """The same states for every agent, in chunks; fewer states are the first of more."""
    if states < 1:
        raise PolicyError(f"states: found {states}, expected at least 1")
    rng = np.random.default_rng([seed, params.devices, params.servers, params.channels])
    chunks = [new_state(params, CHUNK, rng) for _ in range(0, states, CHUNK)]
    return [*chunks[:-1], first_states(chunks[-1], states - CHUNK * (len(chunks) - 1))]


def first_states(state: State, states: int) -> State:
    """The first `states` of B states."""
    return State(**{name: getattr(state, name)[:states] for name in state.__dataclass_fields__})


def evaluate_agent(
    name: str,
    agent: Agent,
    params: LatencyParams,
    states: int,
    seed: int = EVALUATION_SEED,
    on_progress: Callable[[int], None] | None = None,
) -> Score:
    """T / N of an agent on `states` fresh states; `on_progress` is called with the size of each chunk."""
    rng = np.random.default_rng([seed, 1])
    found, walls, seconds = [], [], 0.0
    for chunk in fresh_states(params, states, seed):
        began = time.perf_counter()
        decision = agent(chunk, params, rng)
        seconds += time.perf_counter() - began
        latency = latency_of(decision, chunk, params)
        found.append(latency.per_device_s)
        walls.append(wall_clock_s(latency, params))
        if on_progress:
            on_progress(chunk.shape[0])
    return Score(name, params, np.concatenate(found), float(np.concatenate(walls).mean()), 1e3 * seconds / states)
