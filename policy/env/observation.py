"""What an agent sees (S27): per device 4 + 2 G + M G numbers, and one per server."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy.parameters import LatencyParams
from policy.world.projection import Allocation
from policy.world.state import Array, State

BOUND = 4.0
_GAIN_CENTRE_DB, _GAIN_SCALE_DB = -110.0, 15.0


@dataclass(frozen=True)
class LastAllocation:
    """The round before: which sub-channel a device had, and how much of its server's band."""

    channel: Array  # (B, N, G), one-hot, zeros for local
    bandwidth: Array  # (B, N, G), share of W at that sub-channel

    @classmethod
    def of(cls, allocation: Allocation, params: LatencyParams) -> "LastAllocation":
        """What an allocation leaves for the next observation."""
        channel = np.where(allocation.slot >= 0, allocation.slot % params.channels, -1)
        one_hot = (channel[..., None] == np.arange(params.channels)).astype(float)
        return cls(one_hot, one_hot * (allocation.bandwidth_hz / params.bandwidth_hz)[..., None])

    @classmethod
    def none(cls, batch: int, params: LatencyParams) -> "LastAllocation":
        """Zeros, before the first round of an episode."""
        nothing = np.zeros((batch, params.devices, params.channels))
        return cls(nothing, nothing)


def features_per_device(params: LatencyParams) -> int:
    """4 + 2 G + M G: 39 with five servers and five sub-channels."""
    return 4 + 2 * params.channels + params.slots


def observation_size(params: LatencyParams) -> int:
    """Length of a flat observation."""
    return params.devices * features_per_device(params) + params.servers


def _rescale(values: Array, low: float, high: float) -> Array:
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def gain_feature(gain: Array) -> Array:
    """(10 log10 h + 110) / 15, clipped to [-4, 4]."""
    return np.clip((10 * np.log10(gain) - _GAIN_CENTRE_DB) / _GAIN_SCALE_DB, -BOUND, BOUND)


def observation(state: State, last: LastAllocation, params: LatencyParams) -> NDArray[np.float32]:
    """The flat observations of B environments.  # (B, N (4 + 2 G + M G) + M)"""
    batch, devices = state.data_bits.shape
    own = np.stack(
        [
            _rescale(state.data_bits, params.data_min_bits, params.data_max_bits),
            _rescale(state.work_cycles, params.work_min_cycles, params.work_max_cycles),
            _rescale(state.cpu_hz, params.cpu_min_hz, params.cpu_max_hz),
            _rescale(state.hash_rate, params.hash_min_hashes_per_s, params.hash_max_hashes_per_s),
        ],
        axis=-1,
    )
    gains = gain_feature(state.gain).reshape(batch, devices, -1)
    per_device = np.concatenate([own, last.channel, last.bandwidth, gains], axis=-1)
    servers = _rescale(state.server_work_cycles, params.work_min_cycles, params.work_max_cycles)
    flat = np.concatenate([per_device.reshape(batch, -1), servers], axis=1)
    return np.asarray(np.clip(flat, -BOUND, BOUND), np.float32)


def device_rows(flat: NDArray[np.float32], params: LatencyParams) -> NDArray[np.float32]:
    """What each device sees of flat observations: its own part, the servers' numbers, and the load log(N / (M G)).

    # (B N, 4 + 2 G + M G + M + 1)
    """
    servers, own = params.servers, flat[:, : -params.servers].reshape(-1, features_per_device(params))
    shared = np.repeat(flat[:, -servers:], params.devices, axis=0)
    load = np.clip(math.log(params.devices / params.slots), -BOUND, BOUND)
    return np.concatenate([own, shared, np.full((len(own), 1), load, np.float32)], axis=1)
