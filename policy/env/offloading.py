"""The offloading problem as gymnasium environments: one (`EdgeOffloadEnv`), and many at once."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from policy.env.actions import Action, read_action
from policy.env.observation import BOUND, LastAllocation, observation, observation_size
from policy.errors import ActionError, PolicyError
from policy.parameters import LatencyParams, make_params
from policy.world.latency import Latency, latency_of, reward, wall_clock_s
from policy.world.state import State, new_state, next_state

Observation = NDArray[np.float32]


def observation_space(params: LatencyParams) -> spaces.Box:
    """S30: Box(-4, 4, (N (4 + 2 G + M G) + M,))."""
    return spaces.Box(-BOUND, BOUND, (observation_size(params),), np.float32)


def action_space(params: LatencyParams) -> spaces.Dict:
    """S30: a choice per device, and four shares."""
    return spaces.Dict(
        choice=spaces.MultiDiscrete(np.full(params.devices, params.slots + 1)),
        params=spaces.Box(0.0, 1.0, (params.devices, 4), np.float32),
    )


def round_info(latency: Latency, params: LatencyParams) -> dict[str, NDArray[Any]]:
    """S30: what a round took, by term.  # (B,) each"""
    batch = latency.offload_s.shape[0]
    return {
        "T": latency.total_s,
        "T_learn": latency.learning_s,
        "T_cons": np.full(batch, latency.consensus_s),
        "T_mine": latency.mining_s,
        "T_wall": wall_clock_s(latency, params),
        "n_off": (latency.allocation.slot >= 0).sum(axis=1),
        "n_demoted": latency.allocation.is_demoted.sum(axis=1),
        "n_timeout": latency.is_timeout.sum(axis=1),
    }


def _require_state(state: State | None) -> State:
    if state is None:
        raise ActionError("the environment has no state yet: call reset() first")
    return state


class EdgeOffloadEnv(gym.Env[Observation, Action]):
    """Who offloads where, and with how much power, bandwidth, CPU and hash power, round by round.

    ## Description
    N devices hold data for a round of federated learning. Each trains on it, or sends it over one of G sub-channels to
    one of M edge servers; then all mine a block. One step is one round. The paper's problem (P), read as S1-S31 say.

    ## Observation space
    `Box(-4, 4, (N (4 + 2 G + M G) + M,))`. Per device: data, workload, available CPU, tradeable hash rate (each scaled
    to [0, 1]); sub-channel of the round before (one-hot, zeros if local); its bandwidth there / W; gain to each
    (server, sub-channel), (10 log10 h + 110) / 15. Then one number per server: its workload.

    ## Action space
    `Dict(choice=MultiDiscrete([M G + 1] * N), params=Box(0, 1, (N, 4)))`. Choice 0 trains locally, 1 + m G + g offloads
    to sub-channel g of server m. Params: power (0..30 dBm), bandwidth (0.1..20 MHz), CPU (0.2 GHz..available), hash
    rate (100 GH/s..tradeable). What cannot be is projected: of several devices on a slot the strongest wins and the
    others train (S9), a cell's bandwidth is scaled to W (S10), CPU is bounded by 10 J (S14), hash rates by their sum
    (S19).

    ## Reward
    exp(1 - T / (3 N)) - 1 in [-1, e - 1], T the paper's sum of learning, consensus and mining latencies in seconds
    (S23, S25).

    ## Transition, start, end
    Channels and data are new every step; CPU and hash rates stay with probability 0.9; positions and workloads are
    fixed in an episode. The action only echoes in the observation: a contextual bandit (S28). 100 steps, then
    truncation.

    ## Info
    T, T_learn, T_cons, T_mine, T_wall (seconds), n_off, n_demoted, n_timeout (devices).

    ## Arguments
    `params`: a `LatencyParams`; any of its fields may be given instead, as in
    `gymnasium.make("policy.env:bfl/EdgeOffload-v0", devices=10)`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - gymnasium's own attribute

    def __init__(self, params: LatencyParams | None = None, *, render_mode: str | None = None, **fields: float) -> None:
        if render_mode is not None:
            raise PolicyError(f"render_mode: found {render_mode!r}, expected None: there is nothing to look at")
        self.params = make_params(params, fields)
        self.observation_space = observation_space(self.params)  # type: ignore[assignment]
        self.action_space = action_space(self.params)  # type: ignore[assignment]
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The state (gains, data, CPU, ...) that the last observation shows."""
        return _require_state(self._state)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode: draw positions, workloads and the first round's channels and data."""
        super().reset(seed=seed)
        self._state, self._last, self._step = (
            new_state(self.params, 1, self.np_random),
            LastAllocation.none(1, self.params),
            0,
        )
        return observation(self._state, self._last, self.params)[0], {}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry an action out for one round: observation of the next, reward, terminated, truncated, info."""
        state, decision = self.state, read_action(action, None, self.params)
        decision.check(state)
        latency = latency_of(decision, state, self.params)
        earned = float(reward(latency.total_s, self.params.devices, self.params)[0])
        info = {name: values[0].item() for name, values in round_info(latency, self.params).items()}
        self._state, self._last = (
            next_state(state, self.params, self.np_random),
            LastAllocation.of(latency.allocation, self.params),
        )
        self._step += 1
        seen = observation(self._state, self._last, self.params)[0]
        return seen, earned, False, self._step >= self.params.steps, info


class EdgeOffloadVectorEnv(VectorEnv):
    """B `EdgeOffloadEnv` computed as one: all episodes begin and end together, the next begins in the same step."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012 - gymnasium's own attribute

    def __init__(self, num_envs: int = 1, params: LatencyParams | None = None, **fields: float) -> None:
        if not isinstance(num_envs, int) or num_envs < 1:
            raise PolicyError(f"num_envs: found {num_envs!r}, expected a whole number from 1 on")
        self.params, self.num_envs = make_params(params, fields), num_envs
        self.single_observation_space = observation_space(self.params)
        self.single_action_space = action_space(self.params)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The B states that the last observations show."""
        return _require_state(self._state)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every environment."""
        super().reset(seed=seed)
        return self._begin(), {}

    def _begin(self) -> Observation:
        self._state = new_state(self.params, self.num_envs, self.np_random)
        self._last, self._step = LastAllocation.none(self.num_envs, self.params), 0
        return observation(self._state, self._last, self.params)

    def step(self, actions: Any) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """One round of every environment; when episodes end, `final_obs` is in the info and new ones begin."""
        state, decision = self.state, read_action(actions, self.num_envs, self.params)
        decision.check(state)
        latency = latency_of(decision, state, self.params)
        earned = reward(latency.total_s, self.params.devices, self.params)
        info: dict[str, Any] = round_info(latency, self.params)
        self._state, self._last = (
            next_state(state, self.params, self.np_random),
            LastAllocation.of(latency.allocation, self.params),
        )
        self._step += 1
        ended = self._step >= self.params.steps
        seen = observation(self._state, self._last, self.params)
        if ended:
            info["final_obs"], seen = seen, self._begin()
        never = np.zeros(self.num_envs, bool)
        return seen, earned, never, np.full(self.num_envs, ended), info
