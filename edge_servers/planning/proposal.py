"""The leader's plan of a round: who really offloads where, for how many steps servers gossip, and the orders."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chain.wire.plan import Plan
from clients.models import Vector
from clients.orders import Order
from clients.training import Recipe
from edge_servers.errors import PlanError
from edge_servers.founding.network import Network
from edge_servers.learning.graph import needed_steps, spectral_radius
from edge_servers.learning.schemes import scheme_of
from edge_servers.parameters import RoundParams
from edge_servers.planning.planners import FixedPlanner, Planner, RandomPlanner, Request, make_planner
from edge_servers.planning.state import LOCAL, RoundState, round_state, widen_channels
from policy.errors import PolicyError
from policy.world.latency import Latency, latency_of
from policy.world.projection import CPU, Allocation, Decision
from policy.world.projection import LOCAL as TRAINS

__all__ = [
    "LOCAL",
    "FixedPlanner",
    "Planner",
    "Proposal",
    "RandomPlanner",
    "RoundState",
    "make_planner",
    "planned_orders",
    "planned_phi",
    "propose_offloading",
    "round_state",
]


@dataclass(frozen=True, eq=False)
class Proposal:
    """Who really offloads in a round, with what, and how long that is predicted to take."""

    assignment: tuple[int, ...]
    """Server each device offloads to, or -1: after consent, exclusions, projection and time-outs."""
    allocation: Allocation
    """A batch of 1. Who is predicted to time out has a slot here and -1 in the assignment (S12)."""
    latency: Latency
    """Of exactly this allocation, with the parameters of the state."""

    @property
    def channels(self) -> int:
        """Sub-channels of a server in which the allocation's slots are counted: G, or more for a list of devices."""
        _, _, channels = self.allocation.occupant.shape
        return int(channels)


def propose_offloading(planner: Planner, state: RoundState) -> Proposal:
    """What a planner's decision comes to within what devices allow and channels carry (P25, S9, S12)."""
    try:
        request = planner.decide(state)
        world, params = widen_channels(state, request.channels)
        request.decision.check(world)
    except PolicyError as error:
        raise PlanError(f"planner {planner.name}: {error}") from error
    latency = latency_of(_permitted(request, state), world, params)
    slot = latency.allocation.slot[0]
    arrives = (slot >= 0) & (request.insists | ~latency.is_timeout[0])
    assignment = np.where(arrives, slot // params.channels, LOCAL)
    return Proposal(tuple(assignment.tolist()), latency.allocation, at_rest(latency, state))


def at_rest(latency: Latency, state: RoundState) -> Latency:
    """The latency of a round in which who is set aside uploads nothing (R5): it has no data in the world already."""
    if not state.aside:
        return latency
    rests = np.isin(np.arange(len(state.homes)), state.aside)[None]
    return replace(latency, trains=latency.trains & ~rests, upload_s=np.where(rests, 0.0, latency.upload_s))


def _permitted(request: Request, state: RoundState) -> Decision:
    """Who may not offload where it should trains with all of its CPU, like one that lost its slot (P25, S9)."""
    barred = np.array([m != LOCAL and not state.allows(n, m) for n, m in enumerate(request.servers)])
    shares = request.decision.shares.copy()
    shares[0, barred, CPU] = 1.0
    return Decision(np.where(barred, TRAINS, request.decision.choice), shares)


def planned_phi(rounds: RoundParams, network: Network, round_: int, divergence: float) -> int:
    """Consensus steps of a round: 0 where the scheme has none, as configured, or by Corollary 1 (L16)."""
    if not scheme_of(rounds.scheme).gossips:
        return 0
    if not rounds.is_auto_phi or round_ == 1:  # in round 1 no divergence has been measured yet
        return rounds.first_phi
    radius = spectral_radius(network.graph, network.weight)
    return max(1, needed_steps(radius, divergence, len(network.servers), rounds.rounds, rounds.xi, rounds.max_phi))


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


@dataclass
class Draft:
    """What a leader planned with: the state it saw and what the policy proposed."""

    state: RoundState
    proposal: Proposal
