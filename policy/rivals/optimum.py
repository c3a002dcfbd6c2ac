"""The near-optimal decision, the yardstick of every policy: local search for slots and powers, the rest exactly.

For fixed slots and powers the least T is known: all of the CPU, hash rates by water-filling, bandwidth in proportion
to a_n = sqrt(D_n / log2(1 + SINR_n)). What is left, who offloads where and how loud, is found by `local_search`.
"""

import numpy as np

from policy.parameters import LatencyParams, dbm_to_w
from policy.rivals.assignment import (
    NOBODY,
    SlotPlan,
    SlotUpdate,
    apply_updates,
    new_plan,
    placement_change_s,
    powers_w,
    taken_slots,
    upload_change_s,
    weights,
)
from policy.rivals.bound import (
    AssignmentProblem,
    assignment_problem,
    interference_free_learning_s,
    interference_free_weights,
    solve_assignment,
)
from policy.rivals.local_search import (
    GAIN_S,
    best_improvement,
    ejection_chain,
    local_search,
    place_device,
    remove_device,
    swap_devices,
)
from policy.world.latency import latency_of
from policy.world.projection import LOCAL, Allocation, Decision, cpu_hz, project_decision, water_filling
from policy.world.state import Array, State

POWER_STEP_DB = 1.0
"""Grid on which the power of a slot is refined"""
DETOURS = 10
"""Steps uphill from which a way down is looked for, the cheapest first"""
LOADS = (1.0, 2.0, 4.0)
"""Hungarian starts: slots priced at these multiples of the loads of the lower bound"""
MOVES = (place_device, remove_device, swap_devices, ejection_chain)


def near_optimum(state: State, params: LatencyParams) -> Decision:
    """The best decision found for each of the B states."""
    state.check(params)
    return decision_of(best_allocation(state, params), state, params)


def search_nearby(decision: Decision, state: State, params: LatencyParams) -> Decision:
    """Local search that starts from the slots and powers of `decision`; where nothing better is found it stays."""
    state.check(params)
    began = project_decision(decision, state, params)
    plans = []
    for row in range(state.shape[0]):
        occupant = began.occupant[row].T
        power = np.where(occupant >= 0, began.power_w[row][np.maximum(occupant, 0)], dbm_to_w(params.power_max_dbm))
        problem = assignment_problem(state, row, params)
        plans.append(
            local_search(problem, drop_timeouts(problem, new_plan(problem, occupant, power)), (*MOVES, refine_powers))
        )
    found = decision_of(allocation_of(plans, state, params), state, params)
    before, after = (latency_of(each, state, params).total_s for each in (decision, found))
    better = after < before
    return Decision(
        np.where(better[:, None], found.choice, decision.choice),
        np.where(better[:, None, None], found.shares, decision.shares),
    )


def best_allocation(state: State, params: LatencyParams) -> Allocation:
    """The allocation that `near_optimum` asks for."""
    return allocation_of(
        [best_plan(assignment_problem(state, row, params)) for row in range(state.shape[0])], state, params
    )


def allocation_of(plans: list[SlotPlan], state: State, params: LatencyParams) -> Allocation:
    """The plans of B states with the best of everything else."""
    batch, devices, _, channels = state.shape
    occupant = np.stack([plan.occupant.T for plan in plans])  # (B, M, G)
    slot = np.full((batch, devices), NOBODY)
    power = np.full((batch, devices), dbm_to_w(params.power_max_dbm))
    bandwidth = np.zeros((batch, devices))
    for row, plan in enumerate(plans):
        _, g, m, device = taken_slots(plan)
        slot[row, device] = m * channels + g
        power[row, device] = plan.power_w[g, m]
        bandwidth[row, device] = bandwidth_split_hz(plan.weight, params)[g, m]
    return Allocation(
        slot=slot,
        occupant=occupant,
        is_demoted=np.zeros(slot.shape, bool),
        power_w=power,
        bandwidth_hz=bandwidth,
        cpu_hz=cpu_hz(np.ones_like(state.cpu_hz), state, params),
        hash_rate=water_filling(state.hash_rate, params.hash_budget_hashes_per_s),
    )


def bandwidth_split_hz(weight: Array, params: LatencyParams) -> Array:
    """b_n = W a_n / sum a in each cell. S10 can ask for shares as unequal as b_min : W, not more.  # (G, M)"""
    least = weight.max(axis=0) * params.bandwidth_min_hz / params.bandwidth_hz
    reached = np.where(weight > 0, np.maximum(weight, least), 0.0)
    return np.asarray(params.bandwidth_hz * reached / np.maximum(reached.sum(axis=0), np.finfo(float).tiny))


def best_plan(problem: AssignmentProblem) -> SlotPlan:
    """Local search from an empty and from Hungarian starts; the best is rebuilt part by part, then powers refined."""
    found = [local_search(problem, start, MOVES) for start in starting_plans(problem)]
    plan = ruin_and_recreate(problem, min(found, key=lambda plan: plan.learning_s))
    return local_search(problem, plan, (*MOVES, refine_powers, uphill_move))


def starting_plans(problem: AssignmentProblem) -> list[SlotPlan]:
    """The empty plan, and assignments that are best without interference, less those it makes time out."""
    channels, servers, _ = problem.gain.shape
    loudest = np.full((channels, servers), dbm_to_w(problem.params.power_max_dbm))
    found = [new_plan(problem, np.full((channels, servers), NOBODY), loudest)]
    quiet, (_, loads) = interference_free_weights(problem), interference_free_learning_s(problem)
    for multiple in LOADS:
        plan = new_plan(problem, solve_assignment(problem, quiet, multiple * loads)[0], loudest)
        found.append(drop_timeouts(problem, plan))
    return found


def drop_timeouts(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan:
    """Empty the slots of devices that would time out, the heaviest upload first."""
    while np.isinf(plan.learning_s):
        g, m = np.unravel_index(plan.weight.argmax(), plan.weight.shape)
        plan = apply_updates(problem, plan, [(int(g), int(m), NOBODY, float(plan.power_w[g, m]))])
    return plan


def ruin_and_recreate(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan:
    """Empty a sub-channel or a cell and search again, until that helps for none of them."""
    channels, servers = plan.occupant.shape
    ruins = [[(g, m) for m in range(servers)] for g in range(channels)]
    ruins += [[(g, m) for g in range(channels)] for m in range(servers)]
    failed, turn = 0, 0
    while failed < len(ruins):
        emptied = [(g, m, NOBODY, plan.power_w[g, m]) for g, m in ruins[turn % len(ruins)]]
        found = local_search(problem, apply_updates(problem, plan, emptied), MOVES)
        better = found.learning_s < plan.learning_s - GAIN_S
        plan, failed, turn = (found, 0, turn + 1) if better else (plan, failed + 1, turn + 1)
    return plan


def refine_powers(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan | None:
    """The best power of the fine grid for one slot of each sub-channel; if that is too much at once, for one slot."""
    _, g, m, device = taken_slots(plan)
    grid = power_grid_w(problem.params)
    change = _power_change_s(problem, plan, grid)  # (I, F)

    def update(i: int, level: int) -> SlotUpdate:
        return int(g[i]), int(m[i]), int(device[i]), float(grid[level])

    rows = [np.flatnonzero(g == each) for each in np.unique(g)]
    best = [row[change[row].min(axis=1).argmin()] for row in rows]
    updates = [update(i, int(change[i].argmin())) for i in best if change[i].min() < -GAIN_S]
    together = apply_updates(problem, plan, updates)
    if together.learning_s < plan.learning_s - GAIN_S:
        return together
    return best_improvement(problem, plan, change, lambda index: [update(*index)])


def uphill_move(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan | None:
    """A placement that raises T by itself and lowers it after further moves, as when a softer neighbour makes room."""
    change, powers = placement_change_s(problem, plan), powers_w(problem)
    for step in np.argsort(change, axis=None)[:DETOURS]:
        g, m, k, n = (int(i) for i in np.unravel_index(step, change.shape))
        found = local_search(
            problem, apply_updates(problem, plan, [(g, m, n, powers[k])]), (place_device, refine_powers)
        )
        if found.learning_s < plan.learning_s - GAIN_S:
            return found
    return None


def power_grid_w(params: LatencyParams) -> Array:
    """S8: P_min to P_max in steps of about 1 dB.  # (F,)"""
    steps = max(1, round((params.power_max_dbm - params.power_min_dbm) / POWER_STEP_DB))
    return np.array([dbm_to_w(dbm) for dbm in np.linspace(params.power_min_dbm, params.power_max_dbm, steps + 1)])


def _power_change_s(problem: AssignmentProblem, plan: SlotPlan, grid_w: Array) -> Array:
    """Change of T when the device of a taken slot sends at another power.  # (I, F)"""
    _, g, m, _ = taken_slots(plan)
    everybody, taken, each = np.maximum(plan.occupant, 0), plan.occupant >= 0, np.arange(g.size)
    gain = problem.gain[np.arange(taken.shape[0])[:, None], :, everybody]  # (G, M, M')
    heard = np.where(taken[:, :, None], plan.power_w[:, :, None] * gain, 0.0)
    signal = np.einsum("gmm->gm", heard)
    others = heard.sum(axis=1) - signal + problem.params.noise_w
    own = grid_w[:, None] * gain[g, m][:, None]  # (I, F, M')
    noise = others[g][:, None] + own - heard[g, m][:, None]
    signals = np.broadcast_to(signal[g][:, None], noise.shape).copy()
    noise[each, :, m], signals[each, :, m] = others[g, m][:, None], own[each, :, m]
    data = np.where(taken, problem.data_bits[everybody], 0.0)[g][:, None]
    after = weights(data, signals, np.maximum(noise, problem.params.noise_w))
    return upload_change_s(problem, plan, after - plan.weight[g][:, None])


def decision_of(allocation: Allocation, state: State, params: LatencyParams) -> Decision:
    """The decision that `project_decision` turns into this allocation, which obeys the limits and demotes nobody."""
    decibels = 10 * np.log10(allocation.power_w * 1e3) - params.power_min_dbm
    lowest = np.minimum(params.cpu_min_hz, state.cpu_hz)
    least = params.hash_min_hashes_per_s
    width = params.bandwidth_hz - params.bandwidth_min_hz
    shares = [
        fraction(decibels, np.full_like(decibels, params.power_max_dbm - params.power_min_dbm)),
        fraction(bandwidth_requests_hz(allocation, params) - params.bandwidth_min_hz, np.full_like(decibels, width)),
        fraction(allocation.cpu_hz - lowest, state.cpu_hz - lowest),
        fraction(allocation.hash_rate - least, state.hash_rate - least),
    ]
    return Decision(np.where(allocation.slot >= 0, allocation.slot + 1, LOCAL), np.stack(shares, axis=-1))


def fraction(part: Array, whole: Array) -> Array:
    """part / whole within [0, 1]; 1 of nothing."""
    return np.clip(np.divide(part, whole, out=np.ones_like(part), where=whole != 0), 0.0, 1.0)


def bandwidth_requests_hz(allocation: Allocation, params: LatencyParams) -> Array:
    """S10 backwards: a cell that uses all of W asked for more, its widest device for W.  # (B, N)"""
    servers = np.where(allocation.slot >= 0, allocation.slot // params.channels, NOBODY)
    asked = allocation.bandwidth_hz.copy()
    for m in range(params.servers):
        cell = np.where(servers == m, asked, 0.0)
        full = cell.sum(axis=1, keepdims=True) >= params.bandwidth_hz * (1 - 1e-9)
        widest = np.maximum(cell.max(axis=1, keepdims=True), params.bandwidth_min_hz)
        asked = np.where(full & (servers == m), asked * params.bandwidth_hz / widest, asked)
    return asked
