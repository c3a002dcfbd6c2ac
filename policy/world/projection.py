"""From what was asked for to what is done: slots, bandwidth, CPU and hash rate within their limits (S7-S14, S19)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy.errors import ActionError
from policy.parameters import LatencyParams
from policy.world.state import Array, State

LOCAL = 0
POWER, BANDWIDTH, CPU, HASH = range(4)
Choices = NDArray[np.int64]


@dataclass(frozen=True)
class Decision:
    """An action for B environments: where each device offloads, and its four shares in [0, 1]."""

    choice: Choices  # (B, N): 0 = local, 1 + m G + g = offload to (m, g)
    shares: Array  # (B, N, 4): power, bandwidth, CPU, hash

    def check(self, state: State) -> None:
        """Raise `ActionError` unless it is an action for this state."""
        batch, devices, servers, channels = state.shape
        if self.choice.shape != (batch, devices) or self.shares.shape != (batch, devices, 4):
            raise ActionError(
                f"found choices {self.choice.shape} and shares {self.shares.shape}, "
                f"expected {(batch, devices)} and {(batch, devices, 4)}"
            )
        if not np.issubdtype(self.choice.dtype, np.integer):
            raise ActionError(f"found choices of type {self.choice.dtype}, expected whole numbers")
        if (self.choice < 0).any() or (self.choice > servers * channels).any():
            raise ActionError(f"found a choice outside 0..{servers * channels}")
        if not ((self.shares >= 0) & (self.shares <= 1)).all():
            raise ActionError("found a share that is not in [0, 1]")


@dataclass(frozen=True)
class Allocation:
    """What every device really gets: slot, power, bandwidth, CPU and hash rate within all limits."""

    slot: Choices  # (B, N): the slot a device really has, -1 if none
    occupant: Choices  # (B, M, G): who has the slot, -1 if nobody
    is_demoted: NDArray[np.bool_]  # (B, N): asked for a slot and lost it
    power_w: Array  # (B, N)
    bandwidth_hz: Array  # (B, N), 0 without a slot
    cpu_hz: Array  # (B, N), for training on the device
    hash_rate: Array  # (B, N)


def power_w(share: Array, params: LatencyParams) -> Array:
    """S8: linear in dBm between P_min and P_max."""
    dbm = params.power_min_dbm + share * (params.power_max_dbm - params.power_min_dbm)
    return np.asarray(1e-3 * 10 ** (dbm / 10))


def occupants(choice: Choices, received_w: Array, slots: int) -> Choices:
    """S9: who wins each slot, the largest received power, ties to the lowest device; -1 if nobody asked.  # (B, S)"""
    batch = choice.shape[0]
    rows, who = np.nonzero(choice > LOCAL)
    place = rows * slots + choice[rows, who] - 1
    order = np.lexsort((who, -received_w[rows, who], place))
    first = np.ones(order.size, bool)
    first[1:] = place[order][1:] != place[order][:-1]
    found = np.full(batch * slots, -1, np.int64)
    found[place[order][first]] = who[order][first]
    return found.reshape(batch, slots)


def slots_of(occupant: Choices, devices: int) -> Choices:
    """The slot of each device, -1 if it has none.  # (B, N)"""
    batch, _ = occupant.shape
    rows, slot = np.nonzero(occupant >= 0)
    found = np.full((batch, devices), -1, np.int64)
    found[rows, occupant[rows, slot]] = slot
    return found


def requested_hz(share: Array, params: LatencyParams) -> Array:
    """S10: b_min + u (W - b_min)."""
    return np.asarray(params.bandwidth_min_hz + share * (params.bandwidth_hz - params.bandwidth_min_hz))


def bandwidth_hz(share: Array, server: Choices, params: LatencyParams) -> Array:
    """S10: what is asked for; where a cell asks for more than W, all of it is scaled down.  # (B, N)"""
    wanted = np.where(server >= 0, requested_hz(share, params), 0.0)
    total = np.stack([np.where(server == m, wanted, 0.0).sum(axis=1) for m in range(params.servers)], axis=1)
    scale = np.minimum(1.0, params.bandwidth_hz / np.maximum(total, params.bandwidth_min_hz))
    return np.asarray(wanted * np.take_along_axis(scale, np.maximum(server, 0), axis=1))


def local_cycles(state: State, params: LatencyParams) -> Array:
    """S4: w = C (D / D_ref) rho e."""
    return np.asarray(state.work_cycles * state.data_bits / params.reference_bits * params.passes)


def cpu_hz(share: Array, state: State, params: LatencyParams) -> Array:
    """S14: F_lo + u (F - F_lo), at most what the energy allows: sqrt(E_L / (kappa w))."""
    low = np.minimum(params.cpu_min_hz, state.cpu_hz)
    wanted = low + share * (state.cpu_hz - low)
    cycles = local_cycles(state, params)
    return np.minimum(wanted, np.sqrt(params.energy_j / (params.energy_per_cycle * np.maximum(cycles, 1.0))))


def execution_s(state: State, params: LatencyParams) -> Array:
    """S13: C_m (D_n / D_ref) rho e / f_m, what n's data costs server m.  # (B, N, M)"""
    cycles = state.server_work_cycles[:, None] * (state.data_bits / params.reference_bits)[..., None] * params.passes
    return np.asarray(cycles / params.server_cpu_hz)


def fastest_local_s(state: State, params: LatencyParams) -> Array:
    """S14, S15: training on the device with all the CPU that the energy allows.  # (B, N)"""
    return np.asarray(local_cycles(state, params) / cpu_hz(np.ones_like(state.cpu_hz), state, params))


def hash_floor(params: LatencyParams, devices: int) -> float:
    """S19: lo = min(Psi_lo, Psi_max / N), the hash rate that nobody gets less of."""
    return min(params.hash_min_hashes_per_s, params.hash_budget_hashes_per_s / devices)


def hash_requests(share: Array, state: State, params: LatencyParams) -> tuple[float, Array]:
    """S19: the hash rate everybody has, and what each asks for above it.  # (B, N)"""
    low, floor = params.hash_min_hashes_per_s, hash_floor(params, share.shape[1])
    return floor, low + share * (state.hash_rate - low) - floor


def hash_rates(share: Array, state: State, params: LatencyParams) -> Array:
    """S19: what is asked for, scaled so that all devices together stay within Psi_max."""
    floor, above = hash_requests(share, state, params)
    room = params.hash_budget_hashes_per_s - share.shape[1] * floor
    scale = np.minimum(1.0, room / np.maximum(above.sum(axis=1, keepdims=True), 1.0))
    return np.asarray(floor + above * scale)


def water_filling(caps: Array, budget: float) -> Array:
    """The hash rates with the least sum of 1 / Psi (S19, S20): Psi_n = min(H_n, lambda), together min(Psi_max, sum H).

    sum_n min(H_n, lambda) is the least of the lines "the j smallest at their cap, the others at lambda", so that
    lambda is the largest of their roots.  # (B, N)
    """
    devices = caps.shape[1]
    rising = np.sort(caps, axis=1)
    capped = np.cumsum(rising, axis=1) - rising
    level = ((budget - capped) / (devices - np.arange(devices))).max(axis=1, keepdims=True)
    return np.asarray(np.minimum(caps, level))


def project_decision(decision: Decision, state: State, params: LatencyParams) -> Allocation:
    """Project a decision onto the limits of slots, bandwidth, CPU and hash rate (S7-S10, S14, S19)."""
    batch, devices, servers, channels = state.shape
    power = power_w(decision.shares[..., POWER], params)
    asked = np.maximum(decision.choice - 1, 0)
    gain = np.take_along_axis(state.gain.reshape(batch, devices, -1), asked[..., None], axis=2)[..., 0]
    occupant = occupants(decision.choice, power * gain, servers * channels)
    slot = slots_of(occupant, devices)
    demoted = (decision.choice > LOCAL) & (slot < 0)
    cpu_share = np.where(demoted, 1.0, decision.shares[..., CPU])
    server = np.where(slot >= 0, slot // channels, -1)
    return Allocation(
        slot=slot,
        occupant=occupant.reshape(batch, servers, channels),
        is_demoted=demoted,
        power_w=power,
        bandwidth_hz=bandwidth_hz(decision.shares[..., BANDWIDTH], server, params),
        cpu_hz=cpu_hz(cpu_share, state, params),
        hash_rate=hash_rates(decision.shares[..., HASH], state, params),
    )
