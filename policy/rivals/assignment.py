"""Who gets which slot at which power: a plan, and what every change of it would cost (`local_search` tries them).

With the best split of the bandwidth (S10), b_n = W a_n / A_m, the uploads to server m take A_m^2 / W together, where
a_n = sqrt(D_n / log2(1 + SINR_n)) is the weight of device n and A_m the sum over the server's devices. A change on
sub-channel g changes only weights on g, by interference, and A_m by their sum. `SlotPlan.changed` holds those for every
device in every slot, and a step recomputes them only for the sub-channels it touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy.parameters import dbm_to_w
from policy.rivals.bound import AssignmentProblem
from policy.world.projection import Choices
from policy.world.state import Array

BACK_OFFS_DB = (20.0, 10.0, 0.0)
"""Powers below P_max at which a device is tried in a slot"""
NEVER = 1e9
"""Weight of a device that is not heard at all: D / R in years"""
NOBODY = -1
SlotUpdate = tuple[int, int, int, float]
"""(g, m, device or NOBODY, power in W)"""


@dataclass(frozen=True)
class SlotPlan:
    """An assignment of slots and powers, and how the weights change with every change of one slot."""

    occupant: Choices  # (G, M), NOBODY if the slot is empty
    power_w: Array  # (G, M)
    weight: Array  # (G, M), 0 if the slot is empty
    cleared: Array  # (G, M', M): change of the weight at m' when slot (m, g) is emptied
    changed: Array  # (G, M', M, K, N): the same when it is given to device n at power level k
    learning_s: float  # T_learn; infinite if an upload would time out

    @property
    def slot(self) -> Choices:
        """The slot g M + m of each device, NOBODY if it trains itself.  # (N,)"""
        found = np.full(self.changed.shape[-1], NOBODY)
        taken = np.flatnonzero(self.occupant.ravel() >= 0)
        found[self.occupant.ravel()[taken]] = taken
        return found


def powers_w(problem: AssignmentProblem) -> Array:
    """The coarse levels, K of them, at which a device is tried in a slot."""
    params = problem.params
    return np.array([dbm_to_w(max(params.power_min_dbm, params.power_max_dbm - back)) for back in BACK_OFFS_DB])


def weights(data_bits: Array, signal_w: Array, noise_w: Array) -> Array:
    """a = sqrt(D / log2(1 + SINR)); 0 without data."""
    efficiency = np.log2(1 + signal_w / noise_w) + np.finfo(float).tiny
    return np.minimum(np.sqrt(data_bits / efficiency), NEVER)


def channel_weights(
    problem: AssignmentProblem, g: int, occupant: Choices, power_w: Array
) -> tuple[Array, Array, Array]:
    """`weight`, `cleared` and `changed` of one sub-channel."""
    everybody, servers = np.maximum(occupant, 0), np.arange(occupant.size)
    taken = occupant >= 0
    heard = np.where(taken, power_w * problem.gain[g][:, everybody], 0.0)  # (M', M): at m' from slot m
    data, signal = np.where(taken, problem.data_bits[everybody], 0.0), heard.diagonal()
    others = heard.sum(axis=1) + problem.params.noise_w - signal
    weight = weights(data, signal, others)
    without = np.maximum(others[:, None] - heard, problem.params.noise_w)
    without[servers, servers] = others
    cleared = weights(data[:, None], signal[:, None], without)
    cleared[servers, servers] = 0.0
    changed = _weights_after_change(problem, g, occupant, (data, signal, without, heard))
    return weight, cleared - weight[:, None], changed - weight[:, None, None, None]


def _weights_after_change(
    problem: AssignmentProblem, g: int, occupant: Choices, now: tuple[Array, Array, Array, Array]
) -> Array:
    """Weights (M', M, K, N) on g after slot m went to device n; a device that had another slot on g leaves it."""
    data, signal, without, heard = now
    own = powers_w(problem)[:, None] * problem.gain[g][:, None, :]  # (M', K, N)
    noise = without[:, :, None, None] + own[:, None]
    here = np.arange(occupant.size)
    noise[here, here] -= own
    leaving = [(m, n, here != m) for m, n in enumerate(occupant.tolist()) if n >= 0]
    for m, n, elsewhere in leaving:
        noise[..., n] -= (heard[:, m, None] * elsewhere)[:, :, None]
    signals, bits = np.empty_like(noise), np.empty_like(noise)
    signals[:], bits[:] = signal[:, None, None, None], data[:, None, None, None]
    signals[here, here], bits[here, here] = own, problem.data_bits
    for m, n, elsewhere in leaving:
        bits[m, elsewhere, :, n] = 0.0
    return weights(bits, signals, np.maximum(noise, problem.params.noise_w))


def learning_s(problem: AssignmentProblem, occupant: Choices, weight: Array) -> float:
    """S17 with the best split of the bandwidth: sum_m A_m^2 / W + T_exe + T_loc + T_up; infinite with a time-out."""
    width = problem.params.bandwidth_hz
    loads = weight.sum(axis=0)
    if (weight.max(axis=0) * loads > problem.params.offload_timeout_s * width).any():
        return np.inf
    channel_, server = np.nonzero(occupant >= 0)
    at_home = np.ones(problem.data_bits.size, bool)
    at_home[occupant[channel_, server]] = False
    sharing = np.bincount(problem.home[at_home], minlength=loads.size)
    upload = np.bincount(problem.home[at_home], problem.upload_s[at_home], minlength=loads.size)
    served = problem.server_s[server, occupant[channel_, server]].sum()
    return float((loads**2).sum() / width + served + problem.local_s[at_home].sum() + (sharing * upload).sum())


def local_cost_s(problem: AssignmentProblem, plan: SlotPlan) -> Array:
    """What T pays for one more device that trains itself, or saves with one less: T_loc and S16's T_up, whose k each
    other device at the same home feels.  # (N,)"""
    at_home = plan.slot < 0
    servers = plan.occupant.shape[1]
    sharing = np.bincount(problem.home[at_home], minlength=servers)[problem.home]
    upload = np.bincount(problem.home[at_home], problem.upload_s[at_home], minlength=servers)[problem.home]
    others = upload - np.where(at_home, problem.upload_s, 0.0)
    return np.asarray(problem.local_s + others + np.where(at_home, sharing, sharing + 1) * problem.upload_s)


def new_plan(problem: AssignmentProblem, occupant: Choices, power_w: Array) -> SlotPlan:
    """The plan with these occupants and powers."""
    parts = [channel_weights(problem, g, occupant[g], power_w[g]) for g in range(occupant.shape[0])]
    weight, cleared, changed = (np.stack(part) for part in zip(*parts, strict=True))
    return SlotPlan(occupant, power_w, weight, cleared, changed, learning_s(problem, occupant, weight))


def apply_updates(problem: AssignmentProblem, plan: SlotPlan, updates: Sequence[SlotUpdate]) -> SlotPlan:
    """The plan after these slots were given to other devices, all at once, or emptied."""
    occupant, power = plan.occupant.copy(), plan.power_w.copy()
    for g, m, n, _ in updates:
        occupant[occupant == n] = NOBODY
        occupant[g, m] = NOBODY
    for g, m, n, power_w in updates:
        occupant[g, m], power[g, m] = n, power_w
    weight, cleared, changed = plan.weight.copy(), plan.cleared.copy(), plan.changed.copy()
    stale = (occupant != plan.occupant) | (power != plan.power_w)
    for g in np.flatnonzero(stale.any(axis=1)).tolist():
        weight[g], cleared[g], changed[g] = channel_weights(problem, g, occupant[g], power[g])
    return SlotPlan(occupant, power, weight, cleared, changed, learning_s(problem, occupant, weight))


def upload_change_s(problem: AssignmentProblem, plan: SlotPlan, change: Array) -> Array:
    """Change of sum_m A_m^2 / W when the loads change by `change` (..., M)."""
    return np.asarray((change * (change + 2 * plan.weight.sum(axis=0))).sum(axis=-1) / problem.params.bandwidth_hz)


def taken_slots(plan: SlotPlan) -> tuple[Choices, Choices, Choices, Choices]:
    """The I taken slots: s = g M + m, g, m, and the device that has each."""
    taken = np.flatnonzero(plan.occupant.ravel() >= 0)
    g, m = np.divmod(taken, plan.occupant.shape[1])
    return taken, g, m, plan.occupant[g, m]


def exchange_change_s(problem: AssignmentProblem, plan: SlotPlan) -> tuple[Array, Array]:
    """Change of T_exe + T_loc + T_up when n comes into (g, m) and its occupant trains itself (G, M, N), and the part of
    it that is the occupant's (G, M)."""
    _, g, m, device = taken_slots(plan)
    alone = local_cost_s(problem, plan)
    before = alone.copy()
    before[device] = problem.server_s[m, device]
    out = np.zeros(plan.occupant.shape)
    out[g, m] = alone[device] - problem.server_s[m, device]
    change = (problem.server_s - before)[None] + out[:, :, None]
    change[g, m, device] = 0.0
    return change, out


def placement_change_s(problem: AssignmentProblem, plan: SlotPlan) -> Array:
    """Change of T when device n takes slot (m, g) at power level k and who was there trains itself; infinite if n would
    time out.  # (G, M, K, N)"""
    _, g, m, device = taken_slots(plan)
    loads, width = plan.weight.sum(axis=0), problem.params.bandwidth_hz
    left = np.zeros((*plan.occupant.shape, problem.data_bits.size))  # (G, M', N): n's old slot on another sub-channel
    left[:, :, device] = plan.cleared[g, :, m].T
    left[g, :, device] = 0.0
    twice = plan.changed + 2 * (loads[:, None] + left)[:, :, None, None, :]
    change = np.einsum("gxmkn,gxmkn->gmkn", plan.changed, twice) / width
    moved = (left * (left + 2 * loads[:, None])).sum(axis=1) / width
    change += (exchange_change_s(problem, plan)[0] + moved[:, None])[:, :, None]
    own = np.einsum("gmmkn->gmkn", plan.changed)
    late = (own + plan.weight[:, :, None, None]) * (
        own + loads[:, None, None]
    ) > problem.params.offload_timeout_s * width
    change[late] = np.inf
    return np.asarray(change)
