"""What each device's action adds to T: the difference credit, which tells N devices apart where the reward does not.

Against the default action "train yourself with all you have" (u = 1), others as they are: who lost a slot to device n
has it then. Learning and mining are apart, because hash rates only change the one and everything else only the other.
"""

from dataclasses import dataclass

import numpy as np

from policy.parameters import LatencyParams
from policy.world.latency import Latency, generation_s, training_cpu_hz
from policy.world.projection import (
    BANDWIDTH,
    HASH,
    LOCAL,
    Choices,
    Decision,
    execution_s,
    fastest_local_s,
    hash_requests,
    local_cycles,
    occupants,
    requested_hz,
)
from policy.world.radio import model_upload_rate_bps
from policy.world.state import Array, State


@dataclass(frozen=True)
class Credit:
    """Seconds that device n adds to T; negative where its action helps."""

    learning_s: Array  # (B, N)
    mining_s: Array  # (B, N)


def credit(decision: Decision, latency: Latency, state: State, params: LatencyParams) -> Credit:
    """T minus T with device n on its default action. Uploads of models (S16, milliseconds) are charged as they are."""
    return Credit(learning_credit_s(decision, latency, state, params), mining_credit_s(decision, state, params))


def mining_credit_s(decision: Decision, state: State, params: LatencyParams) -> Array:
    """T_mine (S19-S22) minus T_mine with all of n's hash rate.  # (B, N)"""
    floor, above = hash_requests(decision.shares[..., HASH], state, params)
    _, everything = hash_requests(np.ones_like(above), state, params)
    total = above.sum(axis=1, keepdims=True)
    room = params.hash_budget_hashes_per_s - above.shape[1] * floor

    def mining_s(rates: Array) -> Array:
        return params.forks * generation_s(floor + rates, params)

    now = mining_s(above * np.minimum(1.0, room / np.maximum(total, 1.0))).sum(axis=1, keepdims=True)
    scale = np.minimum(1.0, room / np.maximum(total - above + everything, 1.0))  # (B, N): n offers everything
    others = mining_s(above[:, None, :] * scale[:, :, None]).sum(axis=2) - mining_s(above * scale)
    return np.asarray(now - others - mining_s(everything * scale))


def learning_credit_s(decision: Decision, latency: Latency, state: State, params: LatencyParams) -> Array:
    """T_learn minus T_learn with n training itself; for those without a slot what a slower CPU costs.  # (B, N)"""
    added = latency.local_s - fastest_local_s(state, params)
    occupant = latency.allocation.occupant
    now = senders(occupant, decision, latency, state, params)
    then = senders(next_in_line(decision, latency, state), decision, latency, state, params)
    rows, m, g = np.nonzero(occupant >= 0)
    added[rows, occupant[rows, m, g]] = slots_credit_s(now, then, params)[rows, m, g]
    return added


@dataclass(frozen=True)
class Senders:
    """Who would send in each slot, and what is known of them; zeros where nobody does."""

    burden: Array  # (3, B, M, G): data in bits, seconds if it times out (S12), seconds of the server's work (S13)
    asked_hz: Array  # (B, M, G)
    heard_w: Array  # (B, M, G, M'): at every server
    alone_s: Array  # (B, M, G): if it trained itself

    @property
    def signal_w(self) -> Array:
        """At its own server.  # (B, M, G)"""
        return np.asarray(np.einsum("bmgm->bmg", self.heard_w))


def senders(who: Choices, decision: Decision, latency: Latency, state: State, params: LatencyParams) -> Senders:
    """What is known of the devices `who`, -1 for nobody.  # (B, M, G)"""
    batch, _, _, channels = state.shape
    rows, there, at = np.arange(batch)[:, None, None], who >= 0, np.maximum(who, 0)

    def of(values: Array) -> Array:
        return np.where(there, values[rows, at], 0.0)

    upload_s = params.model_bits / model_upload_rate_bps(state, latency.trains, params)
    everybody_late = np.ones_like(latency.is_timeout)
    late_hz = training_cpu_hz(state, latency.allocation, everybody_late, params)
    late_s = params.offload_timeout_s + local_cycles(state, params) / late_hz + upload_s
    server_s = execution_s(state, params)[rows, at, np.arange(who.shape[1])[:, None]]
    return Senders(
        burden=np.stack([of(state.data_bits), of(late_s), np.where(there, server_s, 0.0)]),
        asked_hz=of(requested_hz(decision.shares[..., BANDWIDTH], params)),
        heard_w=of(latency.allocation.power_w)[..., None] * state.gain[rows, at, :, np.arange(channels)],
        alone_s=of(fastest_local_s(state, params) + upload_s),
    )


def spent_s(burden: Array, hz: Array, ratio: Array, params: LatencyParams) -> Array:
    """S12, S13: sending and the server's work, or the time-out and what comes after it; 0 without data."""
    data, late, server = burden
    sent = data / np.maximum(hz * np.log2(1 + ratio), np.finfo(float).tiny)
    return np.where(data > 0, np.where(sent > params.offload_timeout_s, late, sent + server), 0.0)


def slots_credit_s(now: Senders, then: Senders, params: LatencyParams) -> Array:
    """T_learn minus T_learn after the sender `now` in a slot has made room for the one in `then`.  # (B, M, G)"""
    channels, servers = np.arange(now.asked_hz.shape[2]), np.arange(now.asked_hz.shape[1])
    noise = params.noise_w + np.maximum(now.heard_w.sum(axis=1).transpose(0, 2, 1) - now.signal_w, 0.0)
    ratio, asked = now.signal_w / noise, now.asked_hz.sum(axis=2, keepdims=True)
    hz = now.asked_hz * _band_scale(asked, params)
    spent = spent_s(now.burden, hz, ratio, params)

    # the slot itself
    fit = _band_scale(asked - now.asked_hz + then.asked_hz, params)  # (B, M, G)
    follower = spent_s(then.burden, then.asked_hz * fit, then.signal_w / noise, params)
    slot = spent - now.alone_s - (follower - then.alone_s)

    # the other sub-channels of the cell: another share of the band.  # (B, M, G, G')
    shared = spent_s(now.burden[:, :, :, None], now.asked_hz[:, :, None] * fit[..., None], ratio[:, :, None], params)
    cell = spent[:, :, None] - shared
    cell[:, :, channels, channels] = 0.0

    # the same sub-channel of the other cells: another interference.  # (B, M, G, M')
    heard = np.maximum(_beside_slots(noise) - now.heard_w + then.heard_w, params.noise_w)
    disturbed = spent_s(_beside_slots(now.burden), _beside_slots(hz), _beside_slots(now.signal_w) / heard, params)
    others = _beside_slots(spent) - disturbed
    others[:, servers, :, servers] = 0.0
    return np.asarray(slot + cell.sum(axis=3) + others.sum(axis=3))


def _band_scale(asked_hz: Array, params: LatencyParams) -> Array:
    """S10: the factor by which a cell is scaled down."""
    return np.minimum(1.0, params.bandwidth_hz / np.maximum(asked_hz, params.bandwidth_min_hz))


def _beside_slots(values: Array) -> Array:
    """(..., B, M', G) beside every slot of its sub-channel: (..., B, 1, G, M')."""
    return np.expand_dims(np.swapaxes(values, -1, -2), -3)


def next_in_line(decision: Decision, latency: Latency, state: State) -> Choices:
    """Who would have each slot if its occupant had not asked for it, -1 if nobody (S9).  # (B, M, G)"""
    batch, devices, servers, channels = state.shape
    asked = np.maximum(decision.choice - 1, 0)[..., None]
    gain = np.take_along_axis(state.gain.reshape(batch, devices, -1), asked, axis=2)[..., 0]
    losers = np.where(latency.allocation.is_demoted, decision.choice, LOCAL)
    return occupants(losers, latency.allocation.power_w * gain, servers * channels).reshape(batch, servers, channels)
