"""What the shared network knows of a round: the state in seconds, and what an expected assignment does to everybody.

Given the probabilities q that device n has slot (m, g), `messages` is the mean-field answer of the latency model: the
interference at every slot, the load of every server, and what one more device there would cost its own cell and the
others. All of it is differentiable, any N, M and G, and O(N M G).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policy.parameters import LatencyParams, dbm_to_w
from policy.world.projection import execution_s, fastest_local_s, water_filling
from policy.world.state import Array, State

WORST_S = 6.0
"""Costs beyond this look all the same"""
_LEAST_EFFICIENCY = 1e-3
_TINY = 1e-6


@dataclass(frozen=True)
class Inputs:
    """B states as the network reads them."""

    snr: Tensor  # (B, N, M, G): P_max h / sigma^2
    data_s: Tensor  # (B, N): D / W, the upload at 1 bit/s/Hz on the whole band
    local_s: Tensor  # (B, N): training on the device with all it has
    server_s: Tensor  # (B, N, M): what n's data costs server m
    hash_rate: Tensor  # (B, N): over the largest there is
    level: Tensor  # (B, N): the share that water-filling would ask for
    demand: Tensor  # (B, N): tradeable hash rates of all, over the budget

    def __getitem__(self, rows: slice) -> "Inputs":
        return Inputs(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def inputs_of(state: State, params: LatencyParams) -> Inputs:
    """States as tensors in seconds and ratios."""
    demand = state.hash_rate.sum(axis=1, keepdims=True) / params.hash_budget_hashes_per_s
    parts = (
        state.gain * (dbm_to_w(params.power_max_dbm) / params.noise_w),
        state.data_bits / params.bandwidth_hz,
        fastest_local_s(state, params),
        execution_s(state, params),
        state.hash_rate / params.hash_max_hashes_per_s,
        water_level(state, params),
        np.broadcast_to(np.minimum(demand, 8.0), state.hash_rate.shape),
    )
    return Inputs(*(torch.from_numpy(np.ascontiguousarray(part, np.float32)) for part in parts))


def water_level(state: State, params: LatencyParams) -> Array:
    """The share (S19) with which a device asks for min(H_n, lambda).  # (B, N)"""
    least = params.hash_min_hashes_per_s
    wanted = water_filling(state.hash_rate, params.hash_budget_hashes_per_s) - least
    return np.clip(wanted / np.maximum(state.hash_rate - least, np.finfo(float).tiny), 0.0, 1.0)


@dataclass(frozen=True)
class Messages:
    """What the expected assignment means for device n in slot (m, g).  # (B, N, M, G) each"""

    noise: Tensor  # noise and interference over noise
    efficiency: Tensor  # log2(1 + SINR)
    weight: Tensor  # a = sqrt(D / (W efficiency))
    load: Tensor  # sum of a of the others at this server
    upload_s: Tensor  # a^2 + 2 a load: what n adds to the uploads of the cell, the band split at its best
    harm_s: Tensor  # what n's signal adds to the uploads of the other cells


def messages(inputs: Inputs, q: Tensor) -> Messages:
    """The mean field of q.  # q: (B, N, M, G)"""
    snr, data_s = inputs.snr, inputs.data_s[:, :, None, None]
    signal = (q * snr).sum(dim=1)  # (B, M, G)
    disturbing = (q.sum(dim=2, keepdim=True) - q).clamp(min=0.0) * snr  # n at (m, g), if it has a slot elsewhere
    noise = (disturbing.sum(dim=1, keepdim=True) - disturbing).clamp(min=0.0) + 1
    efficiency = torch.log2(1 + snr / noise)
    weight = torch.sqrt(data_s / efficiency.clamp(min=_LEAST_EFFICIENCY))
    weighted = q * weight
    loads = weighted.sum(dim=(1, 3))[:, None, :, None]
    rivals = weighted.sum(dim=1, keepdim=True) - weighted
    load = (loads - weighted.sum(dim=3, keepdim=True) - rivals).clamp(min=0.0)
    taken = q.sum(dim=1).clamp(max=1.0)
    bits_s, heard = (q * data_s).sum(dim=1) / (taken + _TINY), signal / (taken + _TINY)
    quiet, loud = (_weight(bits_s[:, None], heard[:, None], level) for level in (noise, noise + snr))
    more = loud - quiet
    harm = taken[:, None] * more * (more + 2 * torch.maximum(loads, quiet))
    return Messages(
        noise=noise,
        efficiency=efficiency,
        weight=weight,
        load=load,
        upload_s=(weight * weight + 2 * weight * load).clamp(max=WORST_S),
        harm_s=(harm.sum(dim=2, keepdim=True) - harm).clamp(max=WORST_S),
    )


def _weight(data_s: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
    return torch.sqrt(data_s / torch.log2(1 + signal / noise).clamp(min=_LEAST_EFFICIENCY))
