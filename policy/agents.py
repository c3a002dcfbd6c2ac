"""Every agent by its name: ours, the paper's rivals, the simple rules and the near-optimum."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from policy.actor.networks import SharedActor
from policy.actor.planner import Policy
from policy.actor.weights import SHIPPED, actor_of, read_weights
from policy.errors import PolicyError, did_you_mean
from policy.parameters import LatencyParams
from policy.rivals.heuristics import HEURISTICS
from policy.rivals.optimum import near_optimum, search_nearby
from policy.training.settings import LearningParams, StepParams
from policy.world.projection import Decision
from policy.world.state import State

Agent = Callable[[State, LatencyParams, np.random.Generator], Decision]
"""Decides for B states of any world it can serve"""

OURS, OPTIMUM = "a2c", "near-optimum"
TRIES = 32
"""Drawn decisions of `a2c-best-of`"""

VANILLA = StepParams(method="gradient")

LEARNERS: dict[str, LearningParams] = {
    "a2c": LearningParams(),
    "a2c-vanilla": LearningParams(step=VANILLA),
    "actor-critic": LearningParams(step=VANILLA, has_advantage=False),
    "a2c-paper": LearningParams(architecture="paper", devices=(30,), rows=7680, samples=4),
}
"""Agents of our own: the parameterised A2C; the same with the vanilla gradient; that without advantage; the paper's
networks"""

UPDATES: dict[str, int] = {"a2c": 1300, "a2c-vanilla": 1300, "actor-critic": 1300, "a2c-paper": 300}
"""Updates of a whole training"""


@dataclass(frozen=True)
class AgentDescription:
    """Name and meaning of an agent, and whether it learns: a line of `bfl policy agents`."""

    name: str
    text: str
    is_learned: bool


DESCRIPTIONS = [
    AgentDescription("a2c", "parameterised A2C with trust region and matching: the policy we ship", True),
    AgentDescription("a2c-best-of", f"a2c, then the best of {TRIES} drawn decisions (search at decision time)", True),
    AgentDescription("a2c-searched", "a2c, then local search from its plan (search at decision time)", True),
    AgentDescription("a2c-untrained", "its network before training: given physics and matching alone", False),
    AgentDescription("a2c-vanilla", "the same networks and credit, plain gradient steps", True),
    AgentDescription("actor-critic", "the same without advantage", True),
    AgentDescription("a2c-paper", "the paper's flat networks, one reward for all devices; N = 30 only", True),
    AgentDescription("ddpg", "stable-baselines3 DDPG, relaxed choice", True),
    AgentDescription("dqn", "stable-baselines3 DQN, discretised", True),
    AgentDescription("a2c-relaxed", "stable-baselines3 A2C, relaxed action space", True),
    AgentDescription("a2c-discretised", "stable-baselines3 A2C, approximated (discretised) action space", True),
    AgentDescription("random", "any action", False),
    AgentDescription("all-local", "everybody trains", False),
    AgentDescription("all-offload", "everybody asks the nearest server", False),
    AgentDescription("greedy-channel", "everybody asks for its best slot", False),
    AgentDescription("threshold", "offload if it seems faster", False),
    AgentDescription(OPTIMUM, "local search and exact continuous part: the yardstick", False),
]
NAMES = [each.name for each in DESCRIPTIONS]


def check_name(name: str) -> None:
    """Raise `PolicyError` unless there is an agent of this name."""
    if name not in NAMES:
        raise PolicyError(
            f"found agent {name!r}, expected one of {', '.join(NAMES)}, or your own as module:function"
            f"{did_you_mean(name, NAMES)}"
        )


def policy_agent(path: Path = SHIPPED, tries: int = 0) -> Agent:
    """The policy in a file of weights, for any world its networks can serve."""
    weights = read_weights(path)

    @cache
    def policy(params: LatencyParams) -> Policy:
        return Policy(actor_of(weights, params), params, tries=tries)

    def decide(state: State, params: LatencyParams, rng: np.random.Generator) -> Decision:
        return policy(params).decide(state, rng)

    return decide


def searched_agent(path: Path = SHIPPED) -> Agent:
    """The policy, and local search from its plan."""
    plain = policy_agent(path)
    return lambda state, params, rng: search_nearby(plain(state, params, rng), state, params)


def best_of_agent(path: Path = SHIPPED) -> Agent:
    """The policy, and the best of several drawn decisions."""
    return policy_agent(path, tries=TRIES)


def untrained_agent() -> Agent:
    """Our network before its first update: what its physics and the matching are worth alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        actor = SharedActor(passes=LEARNERS[OURS].settled_passes)
    return lambda state, params, _rng: Policy(actor, params).decide(state)


SEARCHES: dict[str, Callable[..., Agent]] = {"a2c-best-of": best_of_agent, "a2c-searched": searched_agent}
"""Search at decision time, on top of a file of weights"""


def fixed_agent(name: str) -> Agent | None:
    """Agents that need no weights but the shipped ones; None if this one has to be trained."""
    if name in HEURISTICS:
        return HEURISTICS[name]
    made: dict[str, Callable[[], Agent]] = {
        OURS: policy_agent,
        "a2c-untrained": untrained_agent,
        OPTIMUM: lambda: lambda state, params, _rng: near_optimum(state, params),
        **SEARCHES,
    }
    return made[name]() if name in made else None


def learning_params(name: str, seed: int) -> LearningParams:
    """The settings with which one of our own agents is trained."""
    return replace(LEARNERS[name], seed=seed)
