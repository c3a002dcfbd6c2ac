"""Agents that were asked for by name: ours, rivals from the folder of trained ones, weights in a file, and own ones."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rich.console import Console

from bfl.errors import BflError
from bfl.policies.comparison import cached_agent
from clients.plugins import is_named, load_plugin, permit, plugin_digest
from policy.actor.weights import SHIPPED
from policy.agents import OURS, SEARCHES, Agent, check_name, fixed_agent, learning_params, policy_agent
from policy.cache import AgentCache
from policy.own_agents import OwnAgent
from policy.parameters import LatencyParams

KIND = "agent"
"""Of the open points"""
ONE_WORLD = ("a2c-paper",)
"""Agents whose networks serve the number of devices they were trained for"""
_DIGITS = 12


@dataclass(frozen=True)
class Contestant:
    """An agent in a world, and a key that changes with what it is made of."""

    key: str
    make: Callable[[], Agent]


@dataclass(frozen=True)
class Stable:
    """Where agents come from."""

    cache: Path
    effort: float
    seeds: int
    """Training seeds of rivals that learn"""
    weights: tuple[Path, ...]
    """Of our own agent, instead of the shipped ones"""
    console: Console

    def contestants(self, name: str, world: LatencyParams) -> list[Contestant]:
        """An agent for each training seed there is; none if it does not serve this world."""
        if name == OURS or name in SEARCHES:
            made = SEARCHES.get(name, policy_agent)
            return [_of_weights(name, path, made) for path in self.weights or (SHIPPED,)]
        if is_weights(name):
            return [_of_weights(OURS, weights_path(name), policy_agent)]
        if is_named(KIND, name):
            return _own(name, world)
        fixed = fixed_agent(name)
        if fixed:
            return [Contestant(name, lambda: fixed)]
        return self._trained(name, world)

    def _trained(self, name: str, world: LatencyParams) -> list[Contestant]:
        if name in ONE_WORLD and world.devices != learning_params(name, 0).devices[0]:
            return []
        cache = AgentCache(self.cache, LatencyParams(servers=world.servers, channels=world.channels), self.effort)
        return [
            Contestant(cache.key(name, seed), lambda seed=seed: cached_agent(cache, name, seed, self.console)[0])  # type: ignore[misc]
            for seed in range(self.seeds)
        ]


def permitted_name(name: str) -> str:
    """The name of an agent that somebody has typed; if it is code of theirs, it is permitted and loaded."""
    if is_weights(name):
        policy_agent(weights_path(name))
    elif is_named(KIND, name):
        permit({KIND: name})
        load_plugin(KIND, name, BflError)
    else:
        check_name(name)
    return name


def is_weights(name: str) -> bool:
    """Whether it is our own agent with weights of a file, `a2c:runs/mine/weights.json`."""
    return name.startswith(f"{OURS}:")


def weights_path(name: str) -> Path:
    """The file behind `a2c:`."""
    return Path(name.partition(":")[2])


def _of_weights(name: str, path: Path, made: Callable[[Path], Agent]) -> Contestant:
    agent = made(path)  # what cannot be read is refused before anything is computed
    return Contestant(f"{name}-{sha256(path.read_bytes()).hexdigest()[:_DIGITS]}", lambda: agent)


def _own(name: str, world: LatencyParams) -> list[Contestant]:
    """Known by its code and by what it decides in a few states: a new training is another agent."""
    agent = OwnAgent(name, load_plugin(KIND, name, BflError))
    if not agent.serves(world):
        return []
    made_of = plugin_digest(KIND, name, BflError) + agent.behaviour(world)
    safe = "".join(letter if letter.isalnum() or letter in "_-" else "." for letter in name)
    return [Contestant(f"{safe}-{sha256(made_of.encode()).hexdigest()[:_DIGITS]}", lambda: agent)]
