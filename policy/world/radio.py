"""Rates over the air and between servers (S11, S12, S16, S18)."""

import numpy as np

from policy.parameters import LatencyParams, dbm_to_w
from policy.world.projection import Allocation
from policy.world.state import Array, State, path_gain, server_positions_m


def sinr(state: State, allocation: Allocation, params: LatencyParams) -> Array:
    """S11: p h / (sigma^2 + sum over the winners of the same sub-channel at other servers, p_j h_j).  # (B, N)"""
    batch, _, _, channels = state.shape
    who = np.maximum(allocation.occupant, 0)  # (B, M', G)
    power = np.take_along_axis(allocation.power_w, who.reshape(batch, -1), axis=1).reshape(who.shape)
    power = np.where(allocation.occupant >= 0, power, 0.0)
    rows = np.arange(batch)[:, None, None]
    # gain of the winner of (m', g) to server m on g: (B, M', G, M)
    heard = state.gain[rows, who, :, np.arange(channels)]
    received = power[..., None] * heard
    total = received.sum(axis=1).transpose(0, 2, 1)  # (B, M, G)
    signal = np.einsum("bmgm->bmg", received)
    ratio = signal / (params.noise_w + np.maximum(total - signal, 0.0))
    slot = np.maximum(allocation.slot, 0)
    found = np.take_along_axis(ratio.reshape(batch, -1), slot, axis=1)
    return np.where(allocation.slot >= 0, found, 0.0)


def uplink_rate_bps(bandwidth_hz: Array, signal_to_noise: Array) -> Array:
    """S12: R = b log2(1 + SINR)."""
    return np.asarray(bandwidth_hz * np.log2(1 + signal_to_noise))


def home_servers(state: State) -> np.ndarray:
    """S16: the server with the best path.  # (B, N)"""
    return np.asarray(state.path_gain.argmax(axis=2))


def model_upload_rate_bps(state: State, uploads: np.ndarray, params: LatencyParams) -> Array:
    """S16: (W / k) log2(1 + P_max mean_g h / sigma^2), k devices upload to the same home.  # (B, N)"""
    home = home_servers(state)
    count = np.stack([(uploads & (home == m)).sum(axis=1) for m in range(params.servers)], axis=1)
    sharing = np.maximum(np.take_along_axis(count, home, axis=1), 1)
    gain = np.take_along_axis(state.gain.mean(axis=3), home[..., None], axis=2)[..., 0]
    power = dbm_to_w(params.power_max_dbm)
    return np.asarray(params.bandwidth_hz / sharing * np.log2(1 + power * gain / params.noise_w))


def server_rate_bps(params: LatencyParams) -> float:
    """S18: the slowest link between servers, 5 MHz log2(1 + 110 W g(d) / (N0 5 MHz)); infinite for one server."""
    if params.server_rate_bps or params.servers < 2:
        return params.server_rate_bps or float("inf")
    places = server_positions_m(params)
    distance = np.linalg.norm(places[:, None] - places[None], axis=-1)
    np.fill_diagonal(distance, params.min_distance_m)
    noise_w = params.noise_density_w_per_hz * params.server_link_hz
    gain = path_gain(np.maximum(distance, params.min_distance_m), params)
    rate = params.server_link_hz * np.log2(1 + params.server_link_w * gain / noise_w)
    return float(rate.min())
