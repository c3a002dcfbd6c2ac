"""Simple policies: what learning has to beat, as functions of a state.

Unless they are random, all ask for everything: u = 1 for power, bandwidth, CPU and hash rate. S10 then splits W equally
among a cell's devices, S19 scales all hash rates alike, and of those who want one slot the best heard gets it (S9).
"""

from collections.abc import Callable

import numpy as np

from policy.parameters import LatencyParams, dbm_to_w
from policy.world.projection import LOCAL, Choices, Decision, execution_s, fastest_local_s
from policy.world.state import Array, State

Heuristic = Callable[[State, LatencyParams, np.random.Generator], Decision]

INTERFERENCE_MARGIN_DB = 10.0
"""What `threshold` allows for the other cells, which it does not know"""


def request_everything(choice: Choices) -> Decision:
    """These choices with all shares u = 1."""
    return Decision(choice, np.ones((*choice.shape, 4)))


def random_decision(state: State, _params: LatencyParams, rng: np.random.Generator) -> Decision:
    """A uniformly random choice and uniformly random shares."""
    batch, devices, servers, channels = state.shape
    choice = rng.integers(0, servers * channels + 1, (batch, devices))
    return Decision(choice, rng.random((batch, devices, 4)))


def all_local(state: State, _params: LatencyParams, _rng: np.random.Generator) -> Decision:
    """Every device trains locally."""
    return request_everything(np.full(state.data_bits.shape, LOCAL, np.int64))


def all_offload(state: State, _params: LatencyParams, rng: np.random.Generator) -> Decision:
    """Everybody asks the nearest server, on any sub-channel."""
    _, _, _, channels = state.shape
    nearest = state.path_gain.argmax(axis=2)
    return request_everything(1 + nearest * channels + rng.integers(0, channels, nearest.shape))


def greedy_channel(state: State, _params: LatencyParams, _rng: np.random.Generator) -> Decision:
    """Everybody asks for the slot on which it is heard best."""
    batch, devices, _, _ = state.shape
    return request_everything(1 + state.gain.reshape(batch, devices, -1).argmax(axis=2))


def threshold(state: State, params: LatencyParams, _rng: np.random.Generator) -> Decision:
    """Everybody asks for its fastest slot if that seems faster than training itself."""
    batch, devices, _, _ = state.shape
    offload_s = estimated_offload_s(state, params).reshape(batch, devices, -1)
    local_s = fastest_local_s(state, params)
    return request_everything(np.where(offload_s.min(axis=2) < local_s, 1 + offload_s.argmin(axis=2), LOCAL))


def estimated_offload_s(state: State, params: LatencyParams) -> Array:
    """D / ((W / G) log2(1 + P_max h / (10 sigma^2))) + C_m D / (D_ref f_m): in a full cell, with a margin of 10 dB for
    the other cells.  # (B, N, M, G)"""
    noise_w = params.noise_w * 10 ** (INTERFERENCE_MARGIN_DB / 10)
    ratio = dbm_to_w(params.power_max_dbm) * state.gain / noise_w
    rate_bps = params.bandwidth_hz / params.channels * np.log2(1 + ratio)
    with np.errstate(divide="ignore"):
        sent_s = state.data_bits[:, :, None, None] / rate_bps
    return np.asarray(sent_s + execution_s(state, params)[..., None])


HEURISTICS: dict[str, Heuristic] = {
    "random": random_decision,
    "all-local": all_local,
    "all-offload": all_offload,
    "greedy-channel": greedy_channel,
    "threshold": threshold,
}
