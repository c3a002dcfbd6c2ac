"""The offloading problem as a stable-baselines3 `VecEnv` in which every device is an agent with the same weights.

What is learnt for one device serves any number of them. Only this file imports stable-baselines3.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import VecEnv

from policy.env.actions import SHARE_LEVELS, box_decision, level_decision
from policy.env.observation import BOUND, LastAllocation, device_rows, features_per_device, observation
from policy.parameters import LatencyParams
from policy.training.credit import credit
from policy.world.latency import Latency, latency_of
from policy.world.projection import LOCAL, POWER, Decision
from policy.world.state import Array, State, new_state, next_state

Rows = NDArray[np.float32]
"""(B N, features): environment by environment, device by device"""

Which = int | Iterable[int] | None
"""Devices the library asks for: one, some or all"""

POWER_LEVELS = (1 / 3, 2 / 3, 1.0)
"""Shares of power a `discrete` action can ask for: 10, 20, 30 dBm"""


@dataclass(frozen=True)
class ActionKind:
    """A way to write the action of one device, and how actions of B environments are read."""

    space: Callable[[LatencyParams], spaces.Space[Any]]
    decision: Callable[[NDArray[Any], LatencyParams], Decision]


def discrete_decision(actions: NDArray[Any], params: LatencyParams) -> Decision:
    """0 is local; 1 + s L + l is slot s at power level l. All other shares are 1."""
    numbers = np.asarray(actions, np.int64).reshape(-1, params.devices)
    slot, level = np.divmod(np.maximum(numbers - 1, 0), len(POWER_LEVELS))
    shares = np.ones((*numbers.shape, 4))
    shares[..., POWER] = np.where(numbers == LOCAL, 1.0, np.array(POWER_LEVELS)[level])
    return Decision(np.where(numbers == LOCAL, LOCAL, 1 + slot), shares)


ACTIONS: dict[str, ActionKind] = {
    "relaxed": ActionKind(lambda params: spaces.Box(-1.0, 1.0, (params.slots + 5,), np.float32), box_decision),
    "discrete": ActionKind(lambda params: spaces.Discrete(1 + params.slots * len(POWER_LEVELS)), discrete_decision),
    "multi": ActionKind(lambda params: spaces.MultiDiscrete([params.slots + 1] + 4 * [SHARE_LEVELS]), level_decision),
}


def device_observation(state: State, last: LastAllocation, params: LatencyParams) -> Rows:
    """What each device sees: its part of S27, the numbers of the servers, and the load log(N / (M G))."""
    return device_rows(observation(state, last, params), params)


def device_reward(decision: Decision, state: State, latency: Latency, params: LatencyParams) -> Array:
    """(T if device n had trained itself asking for everything - T) / tau_n, what n's action saves all.  # (B, N)

    The first T does not depend on what n does, so the best answer to the others is the one that minimises T.
    """
    added = credit(decision, latency, state, params)
    return np.asarray(-(added.learning_s + added.mining_s) / params.latency_bound_s)


class DeviceVecEnv(VecEnv):
    """B environments of N devices as B N agents that act at the same time; one step is one round of each environment.

    ## Observation
    4 + 2 G + M G + M + 1 numbers in [-4, 4] (`device_observation`).

    ## Action
    `relaxed`: Box(-1, 1, (M G + 5,)); `discrete`: Discrete(1 + 3 M G); `multi`: MultiDiscrete([M G + 1, 4, 4, 4, 4]).

    ## Reward
    What the device's action saves all (`device_reward`), over tau_n.

    ## Transition, start, end
    As in `EdgeOffloadVectorEnv`: S28, truncation after `params.steps` rounds, all episodes together.
    """

    def __init__(self, params: LatencyParams, batch: int, actions: str) -> None:
        self.params, self.batch, self.kind = params, batch, ACTIONS[actions]
        self.render_mode = None
        size = features_per_device(params) + params.servers + 1
        seen = spaces.Box(-BOUND, BOUND, (size,), np.float32)
        super().__init__(batch * params.devices, seen, self.kind.space(params))
        self._rng = np.random.default_rng()
        self._latency: Latency | None = None
        self.reset()

    @property
    def per_device_s(self) -> Array:
        """T / N of the last round of each environment.  # (B,)"""
        return np.empty(0) if self._latency is None else self._latency.per_device_s

    def seed(self, seed: int | None = None) -> list[int | None]:
        """One generator draws for all devices."""
        self._rng = np.random.default_rng(seed)
        return [seed] * self.num_envs

    def reset(self) -> Rows:
        """New episodes."""
        self.state = new_state(self.params, self.batch, self._rng)
        self._last, self._step = LastAllocation.none(self.batch, self.params), 0
        return device_observation(self.state, self._last, self.params)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Remember what is asked for."""
        self._decision = self.kind.decision(actions, self.params)

    def step_wait(self) -> tuple[Rows, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """One round of each environment."""
        latency = self._latency = latency_of(self._decision, self.state, self.params)
        earned = device_reward(self._decision, self.state, latency, self.params)
        self.state = next_state(self.state, self.params, self._rng)
        self._last = LastAllocation.of(latency.allocation, self.params)
        self._step += 1
        ended = self._step >= self.params.steps
        seen = device_observation(self.state, self._last, self.params)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended:
            infos = [{"terminal_observation": row, "TimeLimit.truncated": True} for row in seen]
            seen = self.reset()
        return seen, earned.ravel().astype(np.float32), np.full(self.num_envs, ended), infos

    def close(self) -> None:
        """Nothing is open."""

    def _count(self, indices: Which) -> int:
        return len(list(self._get_indices(indices)))

    def get_attr(self, attr_name: str, indices: Which = None) -> list[Any]:
        """The same for every device."""
        return [getattr(self, attr_name)] * self._count(indices)

    def set_attr(self, attr_name: str, value: Any, indices: Which = None) -> None:
        """For all devices; they share everything."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Which = None, **kwargs: Any) -> list[Any]:
        """Called once, for all devices."""
        return [getattr(self, method_name)(*args, **kwargs)] * self._count(indices)

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Which = None) -> list[bool]:
        """Never."""
        return [False] * self._count(indices)


class AnnealedA2C(A2C):
    """A2C whose weight of the entropy falls linearly to 0.

    With the best constant weight tried, devices crowd on a few slots: T / N = 1.36 s at N = 30 after 40,000 rounds. So
    it is 1.35 s after 24,000 and 1.31 s after 70,000 (one seed each).
    """

    first_ent_coef: float | None = None

    def train(self) -> None:
        """One update, with the weight as it is now."""
        if self.first_ent_coef is None:
            self.first_ent_coef = self.ent_coef
        self.ent_coef = self.first_ent_coef * self._current_progress_remaining
        super().train()
