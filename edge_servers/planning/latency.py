"""What a round is predicted to take, twice (P24): as the policy was trained, and with the run's own sizes and graph.

Keys of both: T = T_learn + T_cons + T_mine, the paper's sums; T_wall, what a clock on the wall would show (seconds);
n_off devices with a slot, n_timeout of which do not get their data across, n_demoted that lost their slot to another.
Where devices may miss a round, `real` also has n_late and n_away.
Hash rates are simulated in both.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edge_servers.errors import PlanError
from edge_servers.learning.graph import Graph
from edge_servers.planning.answers import expected_answers, spent_until_due, waited_until_due
from edge_servers.planning.proposal import Proposal, at_rest
from edge_servers.planning.state import NEXT_TO_NOTHING, RoundState, widen_channels
from policy.parameters import LatencyParams
from policy.world.latency import Latency, latency_of_allocation, wall_clock_s
from policy.world.state import Array, State, path_gain, server_positions_m

BYTES_PER_MB = 1e6
CODEC_BYTES = {"fp32": 4, "fp16": 2, "int8": 1}
"""Of a value of a gradient"""


def paper_terms(proposal: Proposal, state: RoundState) -> dict[str, float]:
    """The terms with the parameters the policy was trained with (S17-S26)."""
    _, params = widen_channels(state, proposal.channels)
    return _terms(proposal.latency, params)


def real_terms(
    proposal: Proposal,
    state: RoundState,
    payload_bytes: int,
    block_bytes: int,
    batch: int,
    iterations: int,
    graph: Graph,
    phi: int,
    sample_bytes: int,
    missed: tuple[float, Sequence[bool]] | None = None,
) -> dict[str, float]:
    """The same allocation with the actual model, block, data, mini-batches, graph and steps.

    `missed`: who may be away or late, which is counted then.
    """
    latency, params = real_latency(proposal, state, payload_bytes, block_bytes, batch, iterations, phi, sample_bytes)
    latency = replace(latency, consensus_s=graph_consensus_s(graph, params))
    if missed is None:
        return _terms(latency, params)
    answers = expected_answers(latency, proposal.assignment, *missed)
    terms = _terms(spent_until_due(latency, answers), params)
    wall_s = float(wall_clock_s(waited_until_due(latency, answers), params)[0])
    return {**terms, "T_wall": wall_s, "n_late": int(answers.late.sum()), "n_away": int(answers.away.sum())}


def real_latency(
    proposal: Proposal,
    state: RoundState,
    payload_bytes: int,
    block_bytes: int,
    batch: int,
    iterations: int,
    phi: int,
    sample_bytes: int,
) -> tuple[Latency, LatencyParams]:
    """How long the actual work of a round takes everybody, with consensus as on a complete graph."""
    world, params = widen_channels(state, proposal.channels)
    params = replace(params, model_bits=8.0 * payload_bytes, block_mb=block_bytes / BYTES_PER_MB, phi=phi, passes=1.0)
    world = _real_world(world, proposal, state, batch, iterations, sample_bytes)
    return at_rest(latency_of_allocation(proposal.allocation, world, params), state), params


def graph_consensus_s(graph: Graph, params: LatencyParams) -> float:
    """S18 on any graph: T_cons = max_m sum_{l=1..phi} (max_{m' in nbr(m)} theta / R_{m,m'} + t_p2p)."""
    if graph.servers != params.servers:
        raise PlanError(f"found a graph of {graph.servers} servers, expected {params.servers}")
    rate_bps = server_rates_bps(params)
    step_s = [
        max((params.model_bits / float(rate_bps[m, other]) for other in graph.neighbours(m)), default=0.0)
        + params.consensus_overhead_s
        for m in range(graph.servers)
    ]
    return params.phi * max(step_s)


def server_rates_bps(params: LatencyParams) -> Array:
    """S18: R_{m,m'} = 5 MHz log2(1 + 110 W g(d) / (N0 5 MHz)) of every pair; the diagonal means nothing.  # (M, M)"""
    if params.server_rate_bps:
        return np.full((params.servers, params.servers), params.server_rate_bps)
    places = server_positions_m(params)
    distance_m = np.maximum(np.linalg.norm(places[:, None] - places[None], axis=-1), params.min_distance_m)
    noise_w = params.noise_density_w_per_hz * params.server_link_hz
    ratio = params.server_link_w * path_gain(distance_m, params) / noise_w
    return np.asarray(params.server_link_hz * np.log2(1 + ratio))


def passes(samples: Array, batch: int, iterations: int) -> Array:
    """P24: rho e = B e / D with B = min(batch, D); 0 without data."""
    return np.asarray(np.minimum(batch, samples) * iterations / np.maximum(samples, 1))


def _real_world(
    world: State, proposal: Proposal, state: RoundState, batch: int, iterations: int, sample_bytes: int
) -> State:
    """The world with whole samples, and with rho e, which differs by node, in the cycles."""
    samples = np.array(state.samples)
    assignment = np.array(proposal.assignment)
    offloaded = np.array([samples[assignment == m].sum() for m in range(state.servers)])
    return replace(
        world,
        data_bits=np.maximum(samples[None] * (8.0 * sample_bytes), NEXT_TO_NOTHING),
        work_cycles=world.work_cycles * passes(samples, batch, iterations),
        server_work_cycles=world.server_work_cycles * passes(offloaded, batch, iterations),
    )


def _terms(latency: Latency, params: LatencyParams) -> dict[str, float]:
    """S30, for a batch of 1. Not `policy.env.offloading.round_info`: an edge server has no gymnasium."""
    return {
        "T": float(latency.total_s[0]),
        "T_learn": float(latency.learning_s[0]),
        "T_cons": float(latency.consensus_s),
        "T_mine": float(latency.mining_s[0]),
        "T_wall": float(wall_clock_s(latency, params)[0]),
        "n_off": int((latency.allocation.slot >= 0).sum()),
        "n_demoted": int(latency.allocation.is_demoted.sum()),
        "n_timeout": int(latency.is_timeout.sum()),
    }
