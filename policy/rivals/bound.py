"""The assignment problem of one state, and a certified lower bound on T: the same problem without interference."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from policy.parameters import LatencyParams, dbm_to_w
from policy.world.latency import consensus_s, generation_s, propagation_s
from policy.world.projection import Choices, execution_s, fastest_local_s, water_filling
from policy.world.radio import home_servers
from policy.world.state import Array, State

TANGENTS = 40
"""Tangent planes tried for a bound; from 20 on it moves by less than 0.1 %"""


@dataclass(frozen=True)
class AssignmentProblem:
    """What a slot is worth in one state: the constants of T_learn for G sub-channels, M servers, N devices."""

    gain: Array  # (G, M, N)
    data_bits: Array  # (N,)
    local_s: Array  # (N,): S15 at the fastest CPU the energy allows
    server_s: Array  # (M, N): S13, what n's data costs server m
    home: Choices  # (N,)
    upload_s: Array  # (N,): S16 with the whole band, k = 1
    params: LatencyParams


def assignment_problem(state: State, row: int, params: LatencyParams) -> AssignmentProblem:
    """The assignment problem of environment `row`."""
    data = state.data_bits[row]
    home = home_servers(state)[row]
    heard = state.gain[row].mean(axis=2)[np.arange(home.size), home]
    efficiency = np.log2(1 + dbm_to_w(params.power_max_dbm) * heard / params.noise_w)
    return AssignmentProblem(
        gain=np.ascontiguousarray(state.gain[row].transpose(2, 1, 0)),
        data_bits=data,
        local_s=fastest_local_s(state, params)[row],
        server_s=execution_s(state, params)[row].T,
        home=home,
        upload_s=params.model_bits / (params.bandwidth_hz * efficiency),
        params=params,
    )


def interference_free_weights(problem: AssignmentProblem) -> Array:
    """a = sqrt(D / log2(1 + P_max h / sigma^2)), as if nobody else transmitted.  # (G, M, N)"""
    power = dbm_to_w(problem.params.power_max_dbm)
    return np.asarray(np.sqrt(problem.data_bits / np.log2(1 + power * problem.gain / problem.params.noise_w)))


def solve_assignment(problem: AssignmentProblem, weights: Array, loads: Array) -> tuple[Choices, float]:
    """Who takes which slot when a slot of server m costs 2 A_m a / W + exe instead of training locally.

    Hungarian method; slots that save nothing stay empty.  # occupant (G, M), -1 if nobody, and the seconds saved < 0
    """
    channels, servers, devices = problem.gain.shape
    slope = 2 * loads[:, None] / problem.params.bandwidth_hz
    cost = (slope * weights + problem.server_s - problem.local_s - problem.upload_s).reshape(-1, devices)
    slot, device = linear_sum_assignment(np.minimum(cost, 0.0))
    gains = cost[slot, device] < 0
    occupant = np.full(channels * servers, -1)
    occupant[slot[gains]] = device[gains]
    return occupant.reshape(channels, servers), float(cost[slot[gains], device[gains]].sum())


def loads_of(occupant: Choices, weights: Array) -> Array:
    """A_m = sum of the weights a of the server's devices.  # (M,)"""
    chosen = np.take_along_axis(weights, np.maximum(occupant, 0)[..., None], axis=2)[..., 0]
    return np.asarray(np.where(occupant >= 0, chosen, 0.0).sum(axis=0))


def interference_free_learning_s(problem: AssignmentProblem) -> tuple[float, Array]:
    """Lower bound on T_learn, and the loads A_m at which it is reached.

    With the best split of W a server's uploads take A_m^2 / W (Cauchy-Schwarz), A_m = sum a, and interference only
    raises a. A^2 >= 2 A' A - A'^2 for every A', which makes the least over all assignments a linear assignment
    problem: any A' certifies a bound. Frank-Wolfe steps look for the largest.
    """
    weights = interference_free_weights(problem)
    loads = np.full(weights.shape[1], weights.min(axis=(0, 1)).mean())  # and never 0, where all sub-channels are alike
    best = (-np.inf, loads)
    alone_s = float((problem.local_s + problem.upload_s).sum())
    for step in range(TANGENTS):
        occupant, saved_s = solve_assignment(problem, weights, loads)
        bound_s = alone_s + saved_s - float((loads**2).sum()) / problem.params.bandwidth_hz
        best = max(best, (bound_s, loads), key=lambda found: found[0])
        loads = loads + 2 / (step + 3) * (loads_of(occupant, weights) - loads)
    return best


def lower_bound_s(state: State, params: LatencyParams) -> Array:
    """No decision is faster than this: T >= bound. Mining and consensus are exact, learning is
    `interference_free_learning_s`.  # (B,)
    """
    devices = state.shape[1]
    caps = np.maximum(state.hash_rate, params.hash_min_hashes_per_s)
    mined = generation_s(water_filling(caps, params.hash_budget_hashes_per_s), params).sum(axis=1)
    fixed_s = params.forks * (mined + devices * propagation_s(devices, params)) + consensus_s(params)
    learned = [interference_free_learning_s(assignment_problem(state, row, params))[0] for row in range(state.shape[0])]
    return np.asarray(fixed_s + np.array(learned))
