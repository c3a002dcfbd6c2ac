"""Who offloads where: the planner's decision and its projection onto what devices allow."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from clients.models import Vector
from clients.orders import Order
from clients.parameters import DataParams, nearest
from clients.training import Recipe
from edge_servers.errors import PlanError
from edge_servers.graph import needed_steps, spectral_radius
from edge_servers.network import Network
from edge_servers.parameters import RoundParams
from edge_servers.posts import Plan, canonical_digest
from edge_servers.schemes import SCHEMES
from policy.parameters import LatencyParams
from policy.state import data_bits, data_samples
from policy.streams import Purpose, stream

LOCAL = -1
_OFFLOADERS_OF_TEN = (0, 4, 5)


@dataclass(frozen=True)
class RoundState:
    """What a planner sees of a round."""

    round: int
    samples: tuple[int, ...]
    """D_n by device."""
    homes: tuple[int, ...]
    consents: tuple[str, ...]
    servers: int

    @property
    def digest(self) -> str:
        """Names the state in the plan."""
        return canonical_digest(asdict(self))


def round_state(round_: int, network: Network, data: DataParams, sample_bytes: int) -> RoundState:
    """The state of a round: how much data each device works on (P22), where it belongs, what it allows."""
    shares = np.array([device.samples for device in network.devices])
    if data.data_per_round == "state":
        bits = data_bits(LatencyParams(), data.seed, round_, len(shares))
        shares = np.minimum(shares, data_samples(bits, sample_bytes))
    return RoundState(
        round=round_,
        samples=tuple(shares.tolist()),
        homes=tuple(device.home for device in network.devices),
        consents=tuple(device.consent.text for device in network.devices),
        servers=len(network.servers),
    )


def planned_phi(rounds: RoundParams, network: Network, round_: int, divergence: float) -> int:
    """Consensus steps of a round: 0 where the scheme has none, as configured, or by Corollary 1 (L16)."""
    if not SCHEMES[rounds.scheme].gossips:
        return 0
    if not rounds.is_auto_phi or round_ == 1:  # in round 1 no divergence has been measured yet
        return rounds.first_phi
    radius = spectral_radius(network.graph, network.weight)
    return needed_steps(radius, divergence, len(network.servers), rounds.rounds, rounds.xi, rounds.max_phi)


def planned_orders(plan: Plan, devices: Sequence[int], model: Vector, model_digest: str, recipe: Recipe) -> list[Order]:
    """The plan as orders to some of the devices: "offload, else train by the deadline", or "train" (P25)."""
    return [
        Order(
            round=plan.round,
            device=n,
            model=model,
            model_digest=model_digest,
            plan_digest=plan.digest,
            samples=plan.samples[n],
            iterations=plan.iterations[n],
            batch=recipe.batch,
            learning_rate=recipe.learning_rate,
            optimizer=recipe.optimizer,
            seed=recipe.seed,
            deadline_s=plan.deadline_s,
            offload_to=plan.assignment[n],
        )
        for n in devices
    ]


class Planner(Protocol):
    """Decides who offloads. A trained policy, a heuristic or a fixed list: all the same to a round."""

    @property
    def name(self) -> str:
        """What the plan records as its origin."""

    def offload(self, state: RoundState) -> list[int]:
        """The server each device should offload to, or -1, by device."""


@dataclass(frozen=True)
class FixedPlanner:
    """The same devices offload in every round, each to its home server."""

    devices: frozenset[int] | None
    """None: devices 0, 4, 5 of every ten."""
    name: str = "fixed"

    def offload(self, state: RoundState) -> list[int]:
        """The home server of every listed device."""
        return [home if self._is_listed(n) else LOCAL for n, home in enumerate(state.homes)]

    def _is_listed(self, device: int) -> bool:
        return device % 10 in _OFFLOADERS_OF_TEN if self.devices is None else device in self.devices


@dataclass(frozen=True)
class RandomPlanner:
    """Each device offloads with a probability, to any server alike."""

    probability: float
    seed: int
    name: str = "random"

    def offload(self, state: RoundState) -> list[int]:
        """Drawn from (seed, round, device) alone."""
        choices = []
        for n in range(len(state.homes)):
            rng = stream(self.seed, Purpose.PLAN, state.round, n)
            choices.append(int(rng.integers(state.servers)) if rng.random() < self.probability else LOCAL)
        return choices


def make_planner(text: str, seed: int, devices: int) -> Planner:
    """The planner that `text` names: fixed, fixed:0,4,5, fixed:none, random, random:0.3."""
    name, _, argument = text.partition(":")
    try:
        if name == "fixed":
            return FixedPlanner(_listed_devices(argument, devices), text)
        if name == "random":
            return RandomPlanner(_probability(argument), seed, text)
    except ValueError as error:
        raise PlanError(f'planner: found "{text}": {error}') from None
    raise PlanError(f'planner: found "{text}", expected fixed or random{nearest(name, ("fixed", "random"))}')


def _listed_devices(argument: str, devices: int) -> frozenset[int] | None:
    if not argument:
        return None
    if argument == "none":
        return frozenset()
    if not all(part.strip().isdecimal() for part in argument.split(",")):
        raise ValueError("expected device numbers such as fixed:0,4,5, or fixed:none")
    listed = frozenset(int(part) for part in argument.split(","))
    if max(listed) >= devices:
        raise ValueError(f"expected devices of 0 to {devices - 1}")
    return listed


def _probability(argument: str) -> float:
    try:
        probability = float(argument or 0.3)
    except ValueError:
        probability = -1.0
    if not 0 <= probability <= 1:
        raise ValueError("expected a probability such as random:0.3")
    return probability


def project(wanted: list[int], state: RoundState, network: Network) -> tuple[int, ...]:
    """The effective assignment: a device that does not consent to a server trains itself (P25)."""
    if len(wanted) != len(network.devices):
        raise PlanError(f"found a plan for {len(wanted)} devices, expected {len(network.devices)}")
    bad = [server for server in wanted if not LOCAL <= server < state.servers]
    if bad:
        raise PlanError(f"found server {bad[0]} in a plan, expected -1 to {state.servers - 1}")
    return tuple(
        server if server == LOCAL or device.consent.allows(server) else LOCAL
        for server, device in zip(wanted, network.devices, strict=True)
    )
