"""Agents of others, beside ours: whatever decides what it observes.

Somebody gives a function, which is called once with each world that its agent should serve and answers with the agent:

- an object with `decide(observation) -> action`, or a function that is just that;
- a trained model of stable-baselines3, or anything else with its `predict(observations, deterministic=True)`;
- None if it does not serve this world.

The action may have any of the three forms of `policy.env.actions`. Two methods more are called where an object has
them: `decide_batch(observations) -> actions` for B rows at once, and `reset(seed)` before it decides, so that an agent
that draws can draw the same again.
"""

import hashlib
import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from policy.env.actions import read_any_action
from policy.env.observation import LastAllocation, device_rows, features_per_device, observation, observation_size
from policy.errors import ActionError, PolicyError
from policy.parameters import LatencyParams
from policy.world.projection import Decision
from policy.world.state import State, check_state, new_state

Observations = NDArray[np.float32]
MakeAgent = Callable[[LatencyParams], object]
PROBE_SEED, PROBE_STATES = 9_100_000, 8
"""Of the states in which an agent shows whether it is still the same"""
_WORKS = "an object with decide(observation) or predict(observations), a function of an observation, or None"


@runtime_checkable
class Decides(Protocol):
    """What an agent has to do."""

    def decide(self, observation: Observations) -> Any:
        """The action in one state."""


@dataclass(frozen=True)
class OwnAgent:
    """An agent of somebody's own, called like one of ours: it decides as in the first round of an episode."""

    name: str
    make: MakeAgent
    _made: dict[LatencyParams, object] = field(default_factory=dict, compare=False, repr=False)

    def serves(self, params: LatencyParams) -> bool:
        """Whether there is an agent for this world."""
        return self._agent(params) is not None

    def __call__(self, state: State, params: LatencyParams, rng: np.random.Generator) -> Decision:
        """What it decides in each of B states."""
        check_state(state, params)
        agent = self._agent(params)
        if agent is None:
            raise PolicyError(
                f"agent {self.name}: it does not serve {_world(params)}; score it in worlds that it was made for"
            )
        if hasattr(agent, "reset"):
            agent.reset(int(rng.integers(2**31)))
        batch = state.shape[0]
        seen = observation(state, LastAllocation.none(batch, params), params)
        try:
            decision = _decided(agent, seen, params)
            decision.check(state)
        except ActionError as error:
            raise ActionError(f"agent {self.name}: {error}") from error
        return decision

    def behaviour(self, params: LatencyParams) -> str:
        """sha256 of what it decides in a few fixed states: another one after another training."""
        rng = np.random.default_rng(PROBE_SEED)
        decision = self(new_state(params, PROBE_STATES, rng), params, rng)
        return hashlib.sha256(decision.choice.tobytes() + decision.shares.tobytes()).hexdigest()

    def _agent(self, params: LatencyParams) -> object:
        if params not in self._made:
            self._made[params] = _checked(self.name, _make(self.name, self.make, params), params)
        return self._made[params]


def takes_a_world(function: Callable[..., Any]) -> bool:
    """Whether it is called with one argument, as what makes an agent is; a planner's function takes three."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C: nobody knows
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is each.empty for each in parameters) == 1


def _make(name: str, make: MakeAgent, params: LatencyParams) -> object:
    if not takes_a_world(make):
        raise PolicyError(f"agent {name}: expected a function of one argument, make(world) -> agent: {_WORKS}")
    try:
        return make(params)
    except OSError as error:
        raise PolicyError(
            f"agent {name}: found {error}; is it trained, and the current folder the one it was?"
        ) from error
    except (TypeError, AttributeError) as error:  # above all a decide(observation) in the place of make(world)
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise PolicyError(
            f"agent {name}: called with the world, a LatencyParams, it failed ({type(error).__name__}: {error}; "
            f"{place.filename}, line {place.lineno}); expected make(world) -> agent: {_WORKS}"
        ) from error


def _checked(name: str, agent: object, params: LatencyParams) -> object:
    if agent is None:
        return None
    if isinstance(agent, type) or not (isinstance(agent, Decides) or hasattr(agent, "predict") or callable(agent)):
        raise PolicyError(f"agent {name}: its function gave {agent!r:.80}, expected {_WORKS}")
    if hasattr(agent, "predict") and not isinstance(agent, Decides):
        return agent if _rows_of(agent, params) else None
    return agent


def _rows_of(model: object, params: LatencyParams) -> str:
    """What a model reads: whole observations, the rows of devices (`DeviceVecEnv`), or nothing of this world."""
    shape = getattr(getattr(model, "observation_space", None), "shape", None)
    if shape in (None, (observation_size(params),)):
        return "states"
    return "devices" if shape == (features_per_device(params) + params.servers + 1,) else ""


def _decided(agent: Any, seen: Observations, params: LatencyParams) -> Decision:
    batch = len(seen)
    if hasattr(agent, "decide_batch"):
        return read_any_action(agent.decide_batch(seen), batch, params)
    if not isinstance(agent, Decides) and hasattr(agent, "predict"):
        rows = device_rows(seen, params) if _rows_of(agent, params) == "devices" else seen
        return read_any_action(agent.predict(rows, deterministic=True)[0], batch, params)
    decide = agent.decide if isinstance(agent, Decides) else agent
    each = [read_any_action(decide(row), None, params) for row in seen]
    return Decision(np.concatenate([one.choice for one in each]), np.concatenate([one.shares for one in each]))


def _world(params: LatencyParams) -> str:
    return f"{params.devices} devices, {params.servers} servers x {params.channels} sub-channels"
