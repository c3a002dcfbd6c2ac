"""Latency of a round, one function per equation (S12-S26). All arrays are (B, N) or (B, M); times in seconds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy.parameters import LatencyParams
from policy.world.projection import Allocation, Decision, execution_s, local_cycles, project_decision
from policy.world.radio import model_upload_rate_bps, server_rate_bps, sinr, uplink_rate_bps
from policy.world.state import Array, State


@dataclass(frozen=True)
class Latency:
    """A round's latency, term by term."""

    allocation: Allocation
    rate_bps: Array
    is_timeout: NDArray[np.bool_]
    trains: NDArray[np.bool_]  # itself, from the start or after a time-out
    offload_s: Array
    server_share_s: Array  # (B, N): what a device's data costs its server; sums to T_exe
    local_s: Array
    upload_s: Array
    consensus_s: float
    generation_s: Array
    propagation_s: float
    energy_j: Array
    forks: float

    @property
    def device_s(self) -> Array:
        """Learning latency by device: T_off + its share of T_exe + T_loc + T_up."""
        return self.offload_s + self.server_share_s + self.local_s + self.upload_s

    @property
    def learning_s(self) -> Array:
        """S17: T_learn, the paper's sum over devices and servers.  # (B,)"""
        return np.asarray(self.device_s.sum(axis=1))

    @property
    def mining_s(self) -> Array:
        """S22: T_mine = sum_n zeta (T_gen,n + T_prop).  # (B,)"""
        return np.asarray(self.forks * (self.generation_s + self.propagation_s).sum(axis=1))

    @property
    def total_s(self) -> Array:
        """S23: T = T_learn + T_cons + T_mine.  # (B,)"""
        return self.learning_s + self.consensus_s + self.mining_s

    @property
    def per_device_s(self) -> Array:
        """T / N, the number that is reported.  # (B,)"""
        return np.asarray(self.total_s / self.offload_s.shape[1])


def offload_s(state: State, rate_bps: Array, has_slot: NDArray[np.bool_], params: LatencyParams) -> Array:
    """S12: T_off = D / R, at most the time-out; 0 without a slot."""
    with np.errstate(divide="ignore"):
        wanted = state.data_bits / rate_bps
    return np.where(has_slot, np.minimum(wanted, params.offload_timeout_s), 0.0)


def server_share_s(state: State, allocation: Allocation, executed: NDArray[np.bool_], params: LatencyParams) -> Array:
    """S13: C_m (D_n / D_ref) rho e / f_m for data that reached server m."""
    server = np.maximum(allocation.slot, 0) // params.channels
    needed = np.take_along_axis(execution_s(state, params), server[..., None], axis=2)[..., 0]
    return np.where(executed, needed, 0.0)


def training_cpu_hz(state: State, allocation: Allocation, timeout: NDArray[np.bool_], params: LatencyParams) -> Array:
    """S14, S12: the allocated CPU; after a time-out what the energy left over allows, at most what is available."""
    cycles = np.maximum(local_cycles(state, params), 1.0)
    left_j = np.maximum(params.energy_j - allocation.power_w * params.offload_timeout_s, np.finfo(float).tiny)
    late = np.minimum(state.cpu_hz, np.sqrt(left_j / (params.energy_per_cycle * cycles)))
    return np.where(timeout, late, allocation.cpu_hz)


def upload_s(state: State, trains: NDArray[np.bool_], params: LatencyParams) -> Array:
    """S16: T_up = theta / R for those who trained themselves."""
    return np.where(trains, params.model_bits / model_upload_rate_bps(state, trains, params), 0.0)


def consensus_s(params: LatencyParams) -> float:
    """S18: T_cons = phi (theta / R + t_p2p); does not depend on the action."""
    return params.phi * (params.model_bits / server_rate_bps(params) + params.consensus_overhead_s)


def generation_s(hash_rate: Array, params: LatencyParams) -> Array:
    """S20: T_gen = hbar / Psi."""
    return np.asarray(params.block_hashes / hash_rate)


def propagation_s(devices: int, params: LatencyParams) -> float:
    """S21: T_prop = xi B (M + N - 1)."""
    return params.broadcast_s_per_mb * params.block_mb * (params.servers + devices - 1)


def reward(total_s: Array, devices: int, params: LatencyParams) -> Array:
    """S25: U = exp(1 - T / (N tau)) - 1, clipped to [-1, e - 1]."""
    return np.asarray(np.clip(np.exp(1 - total_s / (devices * params.latency_bound_s)) - 1, -1.0, np.e - 1))


def wall_clock_s(latency: Latency, params: LatencyParams) -> Array:
    """S26: T_wall: what a clock on the wall would show; devices and servers work side by side.  # (B,)"""
    slot = latency.allocation.slot
    server = np.where(slot >= 0, slot // params.channels, -1)
    clusters = []
    for m in range(params.servers):
        mine = server == m
        waited = np.where(mine, latency.offload_s, 0.0).max(axis=1)
        clusters.append(waited + np.where(mine, latency.server_share_s, 0.0).sum(axis=1))
    trained = np.where(latency.trains, latency.offload_s + latency.local_s + latency.upload_s, 0.0).max(axis=1)
    learning = np.maximum(np.max(clusters, axis=0), trained)
    mining = params.forks * (latency.generation_s.min(axis=1) + latency.propagation_s)
    return np.asarray(learning + latency.consensus_s + mining)


def latency_of(decision: Decision, state: State, params: LatencyParams) -> Latency:
    """The latency of a round in which `decision` is carried out."""
    return latency_of_allocation(project_decision(decision, state, params), state, params)


def latency_of_allocation(allocation: Allocation, state: State, params: LatencyParams) -> Latency:
    """The latency of an allocation that obeys the limits already."""
    has_slot = allocation.slot >= 0
    rate = uplink_rate_bps(allocation.bandwidth_hz, sinr(state, allocation, params))
    with np.errstate(divide="ignore"):
        timeout = has_slot & (state.data_bits / rate > params.offload_timeout_s)
    trains = ~has_slot | timeout
    sent = offload_s(state, rate, has_slot, params)
    cpu = training_cpu_hz(state, allocation, timeout, params)
    cycles = local_cycles(state, params)
    return Latency(
        allocation=allocation,
        rate_bps=rate,
        is_timeout=timeout,
        trains=trains,
        offload_s=sent,
        server_share_s=server_share_s(state, allocation, has_slot & ~timeout, params),
        local_s=np.where(trains, cycles / cpu, 0.0),
        upload_s=upload_s(state, trains, params),
        consensus_s=consensus_s(params),
        generation_s=generation_s(allocation.hash_rate, params),
        propagation_s=propagation_s(has_slot.shape[1], params),
        energy_j=np.where(has_slot, allocation.power_w * sent, 0.0)
        + np.where(trains, params.energy_per_cycle * cpu**2 * cycles, 0.0),
        forks=params.forks,
    )
