"""The hybrid action as one array, for libraries that refuse a Dict (stable-baselines3): a Box, or a MultiDiscrete."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from policy.env.actions import Action, as_action, box_width, level_counts, read_any_action
from policy.env.offloading import Observation
from policy.errors import PolicyError
from policy.parameters import LatencyParams


class _OneArray(gym.ActionWrapper[Observation, NDArray[Any], Action], gym.utils.RecordConstructorArgs):
    """An action in one array, carried out as the dict it stands for."""

    def __init__(self, env: gym.Env[Observation, Action]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)  # so that `env.spec` can make it again
        gym.ActionWrapper.__init__(self, env)
        params = getattr(env.unwrapped, "params", None)
        if not isinstance(params, LatencyParams):
            raise PolicyError(
                f'found the environment {env}, expected gymnasium.make("policy.env:bfl/EdgeOffload-v0"), or it wrapped'
            )
        self._params = params

    def action(self, action: NDArray[Any]) -> Action:
        """The array as the dict of choices and shares that the environment takes."""
        return as_action(read_any_action(action, None, self._params))


class FlatAction(_OneArray):
    """The action as one Box in [-1, 1]^(N (M G + 5)).

    Per device M G + 1 scores, of which the largest is the choice, then four shares.
    """

    def __init__(self, env: gym.Env[Observation, Action]) -> None:
        super().__init__(env)
        self.action_space = spaces.Box(-1.0, 1.0, (box_width(self._params),), np.float32)


class MultiDiscreteAction(_OneArray):
    """The action as one MultiDiscrete: per device the choice and a level (0, 1/3, 2/3, 1) of each of four shares."""

    def __init__(self, env: gym.Env[Observation, Action]) -> None:
        super().__init__(env)
        self.action_space = spaces.MultiDiscrete(level_counts(self._params))
