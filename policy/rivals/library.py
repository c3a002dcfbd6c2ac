"""Learned baselines from a library: DDPG, DQN and A2C of stable-baselines3, each for one device and shared by all.

A round's reward depends on that round only (S28), so all learn with gamma = 0. Both layers have the paper's sizes, 200
and 100. The module can be imported without stable-baselines3; only training, deciding and loading need it.
"""

import json
import zipfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np

from policy.env.observation import LastAllocation
from policy.errors import PolicyError, StoredFileError
from policy.extras import install_command
from policy.files import read_bounded
from policy.parameters import LatencyParams
from policy.stored_zip import stored_members
from policy.torch_files import read_torch_file
from policy.world.projection import Decision
from policy.world.state import State

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

    from policy.rivals.device_env import DeviceVecEnv

LAYERS = [200, 100]
BATCH = 16
"""Environments in one vector step"""
WINDOW = 500
"""Rounds in the moving mean that `on_progress` gets"""
PROGRESS_CALLS = 100
"""How often `on_progress` is called in a training"""
MEMBER = "agent.json"
"""What is added to the library's zip: name, servers, channels"""
MOST_BYTES, MOST_SLOTS = 256 << 20, 10_000
"""Of a file that is loaded, and of the servers and sub-channels it may be for"""
RoundsProgress = Callable[[int, float], None]


def _replay_settings(env: "DeviceVecEnv", steps: int, seed: int) -> dict[str, Any]:
    """What the agents that learn from a replay buffer have in common."""
    return {
        "gamma": 0.0,
        "buffer_size": 400 * env.num_envs,
        "learning_starts": steps // 20 * env.num_envs,
        "batch_size": 512,
        "train_freq": 1,
        "policy_kwargs": {"net_arch": LAYERS},
        "seed": seed,
        "device": "cpu",
    }


def _ddpg(env: "DeviceVecEnv", steps: int, seed: int) -> "BaseAlgorithm":
    from stable_baselines3 import DDPG
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.utils import LinearSchedule

    size = (env.params.slots + 5,)
    return DDPG(
        "MlpPolicy",
        env,
        learning_rate=LinearSchedule(1e-3, 1e-5, 1.0),
        gradient_steps=2,
        action_noise=NormalActionNoise(np.zeros(size), np.full(size, 0.3)),
        **_replay_settings(env, steps, seed),
    )


def _dqn(env: "DeviceVecEnv", steps: int, seed: int) -> "BaseAlgorithm":
    from stable_baselines3 import DQN
    from stable_baselines3.common.utils import LinearSchedule

    return DQN(
        "MlpPolicy",
        env,
        learning_rate=LinearSchedule(1e-3, 1e-4, 1.0),
        gradient_steps=4,
        exploration_fraction=0.5,
        exploration_final_eps=0.03,
        **_replay_settings(env, steps, seed),
    )


def _a2c(env: "DeviceVecEnv", seed: int, learning_rate: float, entropy: float, **policy: Any) -> "BaseAlgorithm":
    from stable_baselines3.common.utils import LinearSchedule
    from torch.nn import ReLU

    from policy.rivals.device_env import AnnealedA2C

    return AnnealedA2C(
        "MlpPolicy",
        env,
        learning_rate=LinearSchedule(learning_rate, learning_rate / 20, 1.0),
        gamma=0.0,
        n_steps=1,
        ent_coef=entropy,
        normalize_advantage=True,
        use_rms_prop=False,
        policy_kwargs={"net_arch": LAYERS, "activation_fn": ReLU, **policy},
        seed=seed,
        device="cpu",
    )


def _a2c_relaxed(env: "DeviceVecEnv", _steps: int, seed: int) -> "BaseAlgorithm":
    return _a2c(env, seed, learning_rate=1e-3, entropy=0.0, log_std_init=-1.5)


def _a2c_discretised(env: "DeviceVecEnv", _steps: int, seed: int) -> "BaseAlgorithm":
    return _a2c(env, seed, learning_rate=2e-3, entropy=0.5)


@dataclass(frozen=True)
class LibrarySpec:
    """Action space, length and algorithm with which an agent of the library is trained."""

    actions: str  # of `device_env.ACTIONS`
    rounds: int  # unless told otherwise; three to six minutes of one core at N = 30
    new: Callable[["DeviceVecEnv", int, int], "BaseAlgorithm"]  # from environment, vector steps and seed


LIBRARY_AGENTS: dict[str, LibrarySpec] = {
    "ddpg": LibrarySpec("relaxed", 120_000, _ddpg),
    "dqn": LibrarySpec("discrete", 240_000, _dqn),
    "a2c-relaxed": LibrarySpec("relaxed", 240_000, _a2c_relaxed),
    "a2c-discretised": LibrarySpec("multi", 240_000, _a2c_discretised),
}


@dataclass(frozen=True)
class LibraryAgent:
    """A trained agent: decides for any number of devices and states, of the servers and sub-channels it knows."""

    name: str
    servers: int
    channels: int
    model: "BaseAlgorithm" = field(repr=False, compare=False)

    def decide(self, state: State, params: LatencyParams, rng: np.random.Generator) -> Decision:
        """What each device does, without exploring (`rng` is not used), as in the first round of an episode."""
        from policy.rivals.device_env import ACTIONS, device_observation

        batch, devices, *found = state.shape
        if found != [self.servers, self.channels] or found != [params.servers, params.channels]:
            raise PolicyError(
                f"{self.name}: found a state of {found[0]} servers x {found[1]} sub-channels and parameters of "
                f"{params.servers} x {params.channels}, expected {self.servers} x {self.channels} as in training"
            )
        here = replace(params, devices=devices)
        state.check(here)
        seen = device_observation(state, LastAllocation.none(batch, here), here)
        actions, _ = self.model.predict(seen, deterministic=True)
        return ACTIONS[LIBRARY_AGENTS[self.name].actions].decision(actions, here)

    def save(self, path: Path) -> None:
        """Write the library's zip, with the name and sizes added."""
        with path.open("wb") as file:
            self.model.save(file)
        with zipfile.ZipFile(path, "a") as archive:
            facts = {"name": self.name, "servers": self.servers, "channels": self.channels}
            archive.writestr(MEMBER, json.dumps(facts))


def check_library() -> None:
    """Raise `PolicyError` unless stable-baselines3 can be imported."""
    try:
        import stable_baselines3  # noqa: F401
    except ModuleNotFoundError as error:
        raise PolicyError(f"stable-baselines3 is not installed; get it with: {install_command('baselines')}") from error


def library_spec(name: str) -> LibrarySpec:
    """The spec of this agent; `PolicyError` if there is none."""
    if name not in LIBRARY_AGENTS:
        raise PolicyError(f"found agent {name!r}, expected one of {', '.join(LIBRARY_AGENTS)}")
    return LIBRARY_AGENTS[name]


def _progress_callback(env: "DeviceVecEnv", steps: int, on_progress: RoundsProgress | None) -> Callable[..., bool]:
    """The callback of the library, which calls it after each vector step."""
    recent: deque[float] = deque(maxlen=max(1, WINDOW // BATCH))
    done = 0

    def report(*_: Any) -> bool:
        nonlocal done
        done += 1
        recent.append(float(env.per_device_s.mean()))
        if on_progress is not None and (done % max(1, steps // PROGRESS_CALLS) == 0 or done == steps):
            on_progress(done * BATCH, float(np.mean(recent)))
        return True

    return report


def train_agent(
    name: str,
    params: LatencyParams,
    rounds: int | None = None,
    seed: int = 0,
    on_progress: RoundsProgress | None = None,
) -> LibraryAgent:
    """An agent after `rounds` rounds (the spec's if None), rounded up to whole vector steps of 16.

    `on_progress(done_rounds, latency_per_device_s)` is called about a hundred times, with T / N of the exploring
    devices as a mean over the last 500 rounds. The same seed gives the same weights; the library seeds the global
    generators of numpy and torch with it.
    """
    spec = library_spec(name)
    wanted = spec.rounds if rounds is None else rounds
    if wanted < 1 or not 0 <= seed < 2**32:
        raise PolicyError(f"found {wanted} rounds and seed {seed}, expected at least 1 and a seed from 0 to 2^32 - 1")
    check_library()
    from policy.rivals.device_env import DeviceVecEnv

    env, steps = DeviceVecEnv(params, BATCH, spec.actions), -(-wanted // BATCH)
    model = spec.new(env, steps, seed)
    model.learn(steps * env.num_envs, callback=_progress_callback(env, steps, on_progress))
    return LibraryAgent(name, params.servers, params.channels, model)


def load_agent(path: Path) -> LibraryAgent:
    """The agent that was saved. Only its weights are read, nothing in the file is executed."""
    check_library()
    from policy.rivals.device_env import DeviceVecEnv

    try:
        members = stored_members(read_bounded(path, MOST_BYTES))
        facts = json.loads(bytes(members[MEMBER]))
        name, servers, channels = str(facts["name"]), int(facts["servers"]), int(facts["channels"])
        if not 0 < servers * channels <= MOST_SLOTS:
            raise ValueError(f"found {servers} x {channels} slots, expected at most {MOST_SLOTS}")
        for weights in (content for member, content in members.items() if member.endswith(".pth")):
            read_torch_file(bytes(weights))  # asks for no more than there is
    except (OSError, StoredFileError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: found no saved agent, expected a zip with {MEMBER}: {error}") from error
    spec, params = library_spec(name), LatencyParams(devices=1, servers=servers, channels=channels)
    model = spec.new(DeviceVecEnv(params, 1, spec.actions), 0, 0)
    try:
        model.set_parameters(str(path), device="cpu")
    except (ValueError, RuntimeError, UnpicklingError) as error:
        raise PolicyError(f"{path}: found no weights of {name} for {servers} x {channels} slots: {error}") from error
    return LibraryAgent(name, servers, channels, model)
