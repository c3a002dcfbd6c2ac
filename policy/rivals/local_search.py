"""Local search over plans: moves that place a device in a slot, remove, swap or chain devices, until none helps."""

from collections.abc import Callable, Sequence

import numpy as np

from policy.rivals.assignment import (
    NOBODY,
    SlotPlan,
    SlotUpdate,
    apply_updates,
    exchange_change_s,
    placement_change_s,
    powers_w,
    taken_slots,
    upload_change_s,
)
from policy.rivals.bound import AssignmentProblem
from policy.world.state import Array

GAIN_S = 1e-6
"""A step must shorten T by more than this"""
TRIES = 50
"""Candidates checked before a kind of move is given up; more than a few only where the time-out is very short"""


def best_improvement(
    problem: AssignmentProblem,
    plan: SlotPlan,
    change_s: Array,
    updates: Callable[[tuple[int, ...]], Sequence[SlotUpdate]],
) -> SlotPlan | None:
    """The plan after the candidate that shortens T most, or None. Estimates neglect time-outs of others and that two
    devices of one home share its band, so each is checked."""
    for _ in range(min(TRIES, change_s.size)):
        best = int(change_s.argmin())
        if change_s.flat[best] > -GAIN_S:
            return None
        index = tuple(int(i) for i in np.unravel_index(best, change_s.shape))
        found = apply_updates(problem, plan, updates(index))
        if found.learning_s < plan.learning_s - GAIN_S / 2:
            return found
        change_s.flat[best] = np.inf
    return None


def place_device(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan | None:
    """Insert, move or replace: a device takes a slot."""
    powers = powers_w(problem)
    return best_improvement(
        problem, plan, placement_change_s(problem, plan), lambda i: [(i[0], i[1], i[3], powers[i[2]])]
    )


def remove_device(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan | None:
    """A device gives its slot back and trains itself."""
    _, g, m, _ = taken_slots(plan)
    change = upload_change_s(problem, plan, plan.cleared[g, :, m]) + exchange_change_s(problem, plan)[1][g, m]
    return best_improvement(problem, plan, change, lambda i: [(int(g[i[0]]), int(m[i[0]]), NOBODY, 0.0)])


def best_levels(problem: AssignmentProblem, plan: SlotPlan) -> tuple[Array, Array]:
    """For each device in each slot the power (S, N) that shortens T most, and how the loads change then (S, N, M)."""
    servers = plan.weight.shape[1]
    twice = plan.changed + 2 * plan.weight.sum(axis=0)[:, None, None, None]
    level = np.einsum("gxmkn,gxmkn->gmkn", plan.changed, twice).argmin(axis=2)  # (G, M, N)
    change = np.take_along_axis(plan.changed, level[:, None, :, None], axis=3)[:, :, :, 0]  # (G, M', M, N)
    devices = change.shape[-1]
    return powers_w(problem)[level].reshape(-1, devices), change.transpose(0, 2, 3, 1).reshape(-1, devices, servers)


def swap_devices(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan | None:
    """Two devices on different sub-channels change places."""
    taken, g, m, device = taken_slots(plan)
    power, change = best_levels(problem, plan)
    there = change[taken][:, device]  # (I, I, M): the device of j in the slot of i
    server_s = problem.server_s[m][:, device] - problem.server_s[m, device]
    total = upload_change_s(problem, plan, there + there.transpose(1, 0, 2)) + server_s + server_s.T
    total[g[:, None] == g] = np.inf

    def updates(index: tuple[int, ...]) -> list[SlotUpdate]:
        i, j = index
        return [(int(g[a]), int(m[a]), int(device[b]), power[taken[a], device[b]]) for a, b in ((i, j), (j, i))]

    return best_improvement(problem, plan, total, updates)


def ejection_chain(problem: AssignmentProblem, plan: SlotPlan) -> SlotPlan | None:
    """Device n takes a slot, and who was there takes another slot on another sub-channel."""
    taken, g, m, device = taken_slots(plan)
    servers = plan.occupant.shape[1]
    power, change = best_levels(problem, plan)

    def updates(index: tuple[int, ...]) -> list[SlotUpdate]:
        i, n, s = index
        first = (int(g[i]), int(m[i]), n, power[taken[i], n])
        return [first, (s // servers, s % servers, int(device[i]), power[s, device[i]])]

    return best_improvement(problem, plan, _chain_change_s(problem, plan, change), updates)


def _chain_change_s(problem: AssignmentProblem, plan: SlotPlan, change: Array) -> Array:
    """Change of T when n takes the slot of device i and i goes to slot s.  # (I, N, S)"""
    taken, g, m, device = taken_slots(plan)
    servers = plan.occupant.shape[1]
    own, place = plan.slot // servers, np.arange(plan.occupant.size)
    left = np.zeros((taken.size, *change.shape[1:]))
    left[:, device] = plan.cleared[g, :, m]
    left[g[:, None] == own] = 0.0
    first, then = change[taken] + left, change[:, device].transpose(1, 0, 2)  # (I, N, M), (I, S, M)
    comes_s, out = exchange_change_s(problem, plan)
    comes = upload_change_s(problem, plan, first) + comes_s[g, m] - out[g, m][:, None]
    goes = upload_change_s(problem, plan, then) + out.ravel() - problem.server_s[m, device][:, None]
    goes += problem.server_s[place % servers][:, device].T
    comes[np.arange(taken.size), device] = np.inf
    goes[place // servers == g[:, None]] = np.inf
    total = comes[:, :, None] + goes[:, None] + 2 / problem.params.bandwidth_hz * (first @ then.transpose(0, 2, 1))
    total[:, own[:, None] == place // servers] = np.inf
    return np.asarray(total)


def local_search(
    problem: AssignmentProblem,
    plan: SlotPlan,
    moves: Sequence[Callable[[AssignmentProblem, SlotPlan], SlotPlan | None]],
) -> SlotPlan:
    """The plan after best-improvement steps; a later kind of move only when the earlier ones find nothing."""
    while True:
        for move in moves:
            found = move(problem, plan)
            if found is not None:
                plan = found
                break
        else:
            return plan
