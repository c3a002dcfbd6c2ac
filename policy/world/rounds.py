"""The simulated world of a training round, drawn so that any round can be recomputed alone (P23).

`world` draws episodes for learning, one after the other from one generator. Here nothing is carried over: every number
is a function of (seed, round, device), and a device's numbers do not change when others join.
"""

import numpy as np

from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.streams import Purpose, stream
from policy.world.round_data import data_bits
from policy.world.state import Array, State, path_gain, server_positions_m

_BLOCK = 64
"""Rounds of a hold process drawn at once: one redraw in ten is nearly always among them"""


def simulated_state(params: LatencyParams, seed: int, round_: int) -> State:
    """The state of round k = 1, 2, ... of a run, as a batch of 1 (S1-S6): no episodes, positions and workloads stay."""
    if round_ < 1:
        raise PolicyError(f"round: found {round_}, expected at least 1")
    n, m, g = params.devices, params.servers, params.channels
    paths = path_gain(distances_m(params, seed), params)
    fading = stream(seed, Purpose.FADING, round_).exponential(size=(n, m, g))
    low, high = params.work_min_cycles, params.work_max_cycles
    cpu = _last_draws(Purpose.CPU, params, seed, round_)
    return State(
        path_gain=paths[None],
        gain=(paths[..., None] * np.maximum(fading, np.finfo(float).tiny))[None],
        data_bits=data_bits(params, seed, round_, n)[None],
        work_cycles=stream(seed, Purpose.WORK).uniform(low, high, n)[None],
        cpu_hz=_interpolate(cpu, params.cpu_min_hz, params.cpu_max_hz)[None],
        hash_rate=hash_caps(params, seed, round_)[None],
        server_work_cycles=stream(seed, Purpose.SERVER_WORK).uniform(low, high, m)[None],
    )


def hash_caps(params: LatencyParams, seed: int, round_: int) -> Array:
    """S6: H_n, the hash power that each device has in this round.  # (N,)"""
    drawn = _last_draws(Purpose.HASH_RATE, params, seed, round_)
    return _interpolate(drawn, params.hash_min_hashes_per_s, params.hash_max_hashes_per_s)


def distances_m(params: LatencyParams, seed: int) -> Array:
    """S1: from every device to every server, devices uniform in the disc; the same in all rounds.  # (N, M)"""
    drawn = stream(seed, Purpose.POSITION).random((params.devices, 2))
    radius, angle = params.disc_m * np.sqrt(drawn[:, 0]), 2 * np.pi * drawn[:, 1]
    places = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    distance = np.linalg.norm(places[:, None] - server_positions_m(params), axis=-1)
    return np.asarray(np.maximum(distance, params.min_distance_m))


def _interpolate(share: Array, low: float, high: float) -> Array:
    return low + share * (high - low)


def _last_draws(purpose: Purpose, params: LatencyParams, seed: int, round_: int) -> Array:
    """S5, S6: the number in [0, 1) that a device drew last, in round 1 or where it did not keep the one before.

    A block's stream is drawn device by device, so that the first devices have the same numbers whatever N is.  # (N,)
    """
    found = np.full(params.devices, np.nan)
    for block in range((round_ - 1) // _BLOCK, -1, -1):
        drawn = stream(seed, purpose, block).random((params.devices, _BLOCK, 2))  # [keep, number] of every round
        is_new = drawn[:, :, 0] >= params.hold
        is_new[:, 0] |= block == 0  # round 1 always draws
        is_new[:, max(0, round_ - block * _BLOCK) :] = False  # rounds to come
        last = _BLOCK - 1 - is_new[:, ::-1].argmax(axis=1)
        here = np.isnan(found) & is_new.any(axis=1)
        found[here] = drawn[here, last[here], 1]
        if not np.isnan(found).any():
            break
    return found
