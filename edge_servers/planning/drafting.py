"""The leader's plan, drafted: the state of the round, what the planner proposes, and the post that says so."""

from math import isfinite

from chain.wire.plan import Plan
from edge_servers.founding.network import Network
from edge_servers.founding.standing import Standing
from edge_servers.parameters import Settings
from edge_servers.planning.latency import paper_terms
from edge_servers.planning.proposal import Draft, Planner, planned_phi, propose_offloading, round_state


def draft_plan(
    standing: Standing, network: Network, settings: Settings, planner: Planner, sample_bytes: int, start_s: float
) -> tuple[Draft, Plan]:
    """The plan of an attempt at the round after `standing`, and what it was made from (Algorithm 1, line 5)."""
    round_, iterations = standing.round + 1, settings.training.iterations
    barred = tuple(network.server_index(each) for each in standing.excluded)
    aside = standing.reputation.aside(round_)
    state = round_state(round_, network, settings.data, sample_bytes, barred, devices=settings.devices, aside=aside)
    proposal = propose_offloading(planner, state)
    given = proposal.allocation
    plan = Plan(
        round=round_,
        state_digest=state.digest,
        assignment=proposal.assignment,
        samples=state.samples,
        iterations=(iterations,) * len(network.devices),
        server_iterations=(iterations,) * len(network.servers),
        phi=planned_phi(settings.rounds, network, round_, standing.divergence),
        deadline_s=settings.rounds.deadline_s,
        divergence=standing.divergence,
        policy_digest=planner.digest,
        power_w=tuple(given.power_w[0].tolist()),
        bandwidth_hz=tuple(given.bandwidth_hz[0].tolist()),
        cpu_hz=tuple(given.cpu_hz[0].tolist()),
        hash_rate=tuple(given.hash_rate[0].tolist()),
        latency_s=paper_terms(proposal, state),
        start_ms=round(start_s * 1000) if isfinite(start_s) else 0,
        reputation=standing.reputation.rows,
    )
    return Draft(state, proposal), plan
