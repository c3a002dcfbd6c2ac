"""Who should offload where: the trained policy, simple rules, or a fixed list. All the same to a round."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from clients.parameters import did_you_mean
from clients.plugins import is_named, load_plugin, plugin_digest
from edge_servers.errors import PlanError
from edge_servers.planning.state import LOCAL, RoundState
from policy.errors import PolicyError
from policy.rivals.heuristics import Heuristic, request_everything
from policy.streams import Purpose, stream
from policy.world.projection import Decision

TRAINED = "a2c"
AGENTS = {
    TRAINED: "a2c",
    "random-action": "random",
    "all-local": "all-local",
    "all-offload": "all-offload",
    "greedy-channel": "greedy-channel",
    "threshold": "threshold",
    "near-optimum": "near-optimum",
}
"""Planners that are agents of `policy`, and what they are called there: `random` is a planner of its own here"""
NAMES = ("fixed", "random", *AGENTS)
_OFFLOADERS_OF_TEN = (0, 4, 5)


@dataclass(frozen=True, eq=False)
class Request:
    """What a planner asks for, before consent, projection and time-outs."""

    decision: Decision
    channels: int
    """Sub-channels of a server, in which the decision's slots are counted."""
    insists: bool = False
    """A list is obeyed also where the channel model says that the transfer times out"""

    @property
    def servers(self) -> list[int]:
        """The server each device asks for, or -1."""
        return [int(server) for server in (self.decision.choice[0] - 1) // self.channels]


class Planner(Protocol):
    """Decides who offloads."""

    @property
    def name(self) -> str:
        """What people call it: the text of the setting."""

    @property
    def digest(self) -> str:
        """What the plan records as its origin: the name, and the weights if there are any."""

    def decide(self, state: RoundState) -> Request:
        """What each device should do."""


@dataclass(frozen=True)
class FixedPlanner:
    """The same devices offload in every round, each to its home server."""

    devices: frozenset[int] | None
    """None: devices 0, 4, 5 of every ten."""
    name: str = "fixed"

    @property
    def digest(self) -> str:
        """The list itself."""
        return self.name

    def decide(self, state: RoundState) -> Request:
        """The home server of every listed device."""
        return list_request([home if self._is_listed(n) else LOCAL for n, home in enumerate(state.homes)], state)

    def _is_listed(self, device: int) -> bool:
        return device % 10 in _OFFLOADERS_OF_TEN if self.devices is None else device in self.devices


@dataclass(frozen=True)
class RandomPlanner:
    """Each device offloads with a probability, to any server alike."""

    probability: float
    seed: int
    name: str = "random"

    @property
    def digest(self) -> str:
        """The probability; the seed is the run's."""
        return self.name

    def decide(self, state: RoundState) -> Request:
        """Drawn from (seed, round, device) alone."""
        choices = []
        for n in range(len(state.homes)):
            rng = stream(self.seed, Purpose.PLAN, state.round, n)
            choices.append(int(rng.integers(state.servers)) if rng.random() < self.probability else LOCAL)
        return list_request(choices, state)


@dataclass(frozen=True)
class AgentPlanner:
    """An agent of `policy`: the shipped weights or those of a file, a simple rule, or the near-optimum."""

    name: str
    seed: int

    @property
    def digest(self) -> str:
        """The name, and the sha256 of the weights' file for the trained policy."""
        kind, _, path = self.name.partition(":")
        return f"{TRAINED}:{_weights_digest(path)}" if kind == TRAINED else self.name

    def decide(self, state: RoundState) -> Request:
        """What the agent decides; if it draws, from (seed, round)."""
        rng = stream(self.seed, Purpose.PLAN, state.round)
        return Request(_agent(self.name)(state.world, state.params, rng), state.params.channels)


@cache
def _agent(name: str) -> Heuristic:
    """Loaded when it first decides: scipy and the weights take half a second."""
    from policy.agents import fixed_agent, policy_agent

    _, _, path = name.partition(":")
    agent = policy_agent(Path(path)) if path else fixed_agent(AGENTS[name])
    if agent is None:
        raise PlanError(f"planner: found agent {name}, expected one that needs no training")
    return agent


@cache
def _weights_digest(path: str) -> str:
    """Of a file of weights, the shipped one if there is no path."""
    from policy.actor.weights import SHIPPED

    return hashlib.sha256((Path(path) if path else SHIPPED).read_bytes()).hexdigest()


@dataclass(frozen=True)
class ForeignPlanner:
    """Somebody's own function of (state, params, rng): a `Decision`, or the server of each device (-1: it trains).

    Or somebody's own agent (`policy.own_agents`): a function of the world alone.
    """

    name: str
    seed: int

    @property
    def digest(self) -> str:
        """The name, and the sha256 of its code."""
        return f"{self.name}:{plugin_digest('planner', self.name, PlanError)}"

    def decide(self, state: RoundState) -> Request:
        """What the function says; if it draws, from (seed, round)."""
        decide = _decider(self.name, load_plugin("planner", self.name, PlanError))
        said = decide(state.world, state.params, stream(self.seed, Purpose.PLAN, state.round))
        if isinstance(said, Decision):
            said.check(state.world)
            return Request(said, state.params.channels)
        servers = np.asarray(said)
        if servers.shape != (len(state.homes),) or not np.issubdtype(servers.dtype, np.integer):
            raise PlanError(
                f"planner {self.name}: found {type(said).__name__} of shape {servers.shape}, expected a "
                f"policy.world.projection.Decision, or {len(state.homes)} numbers of servers (-1: train)"
            )
        if not ((servers >= LOCAL) & (servers < state.servers)).all():
            raise PlanError(
                f"planner {self.name}: found servers {servers.min()} to {servers.max()}, expected -1 to "
                f"{state.servers - 1}"
            )
        return list_request(servers.tolist(), state)


@cache
def _decider(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A planner's function as it is; what makes an agent is made once."""
    from policy.own_agents import OwnAgent, takes_a_world

    return OwnAgent(name, function) if takes_a_world(function) else function


def list_request(servers: Sequence[int], state: RoundState) -> Request:
    """A list of servers as a request: u = 1, the devices of a cell take its sub-channels in order.

    Every cell begins where the one before it ended, so that few devices do not all meet on sub-channel 0 (S11). A list
    is not limited by G: there are as many sub-channels as the fullest cell needs. Who may not offload to its server
    does not count.
    """
    allowed = [server if server != LOCAL and state.allows(n, server) else LOCAL for n, server in enumerate(servers)]
    counts = [allowed.count(m) for m in range(state.servers)]
    channels = max(state.params.channels, *counts)
    following = [sum(counts[:m]) for m in range(state.servers)]
    choice = np.zeros((1, len(allowed)), np.int64)
    for n, m in enumerate(allowed):
        if m != LOCAL:
            choice[0, n] = 1 + m * channels + following[m] % channels
            following[m] += 1
    return Request(request_everything(choice), channels, insists=True)


def make_planner(text: str, seed: int, devices: int) -> Planner:
    """The planner that `text` names: a2c, a2c:weights.json, fixed, fixed:0,4,5, fixed:none, random, random:0.3, or
    a rule of `AGENTS`.
    """
    name, colon, argument = text.partition(":")
    try:
        if name == "fixed":
            return FixedPlanner(_listed_devices(argument, devices), text)
        if name == "random":
            return RandomPlanner(_probability(argument), seed, text)
        if name == TRAINED and argument:
            _agent(text)  # what cannot be read is refused before the first round
            return AgentPlanner(text, seed)
        if name in AGENTS and colon:
            raise ValueError(f"expected {name} without an argument")
    except (ValueError, PolicyError) as error:
        raise PlanError(f'planner: found "{text}": {error}') from None
    if name in AGENTS:
        return AgentPlanner(name, seed)
    if is_named("planner", text):
        return ForeignPlanner(text, seed)
    raise PlanError(
        f'planner: found "{text}", expected one of {", ".join(NAMES)} or your own as module:function'
        f"{did_you_mean(name, NAMES)}"
    )


def _listed_devices(argument: str, devices: int) -> frozenset[int] | None:
    if not argument:
        return None
    if argument == "none":
        return frozenset()
    if not all(part.strip().isdecimal() for part in argument.split(",")):
        raise ValueError("expected device numbers such as fixed:0,4,5, or fixed:none")
    numbers = frozenset(int(part) for part in argument.split(","))
    if max(numbers) >= devices:
        raise ValueError(f"expected devices of 0 to {devices - 1}")
    return numbers


def _probability(argument: str) -> float:
    try:
        probability = float(argument or 0.3)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise ValueError("expected a probability such as random:0.3")
    return probability
