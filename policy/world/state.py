"""The state of a round: channels, data, CPU, hash rates of B environments at once, and how it changes (S1-S6, S28)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from policy.errors import ObservationError
from policy.parameters import LatencyParams

Array = NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """What is known before a round is planned. B environments, N devices, M servers, G sub-channels."""

    path_gain: Array  # (B, N, M)
    gain: Array  # (B, N, M, G)
    data_bits: Array  # (B, N)
    work_cycles: Array  # (B, N), for reference_bits of data
    cpu_hz: Array  # (B, N)
    hash_rate: Array  # (B, N), tradeable
    server_work_cycles: Array  # (B, M)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, N, M, G)."""
        batch, devices, servers, channels = self.gain.shape
        return batch, devices, servers, channels

    def check(self, params: LatencyParams) -> None:
        """Raise `ObservationError` unless all numbers are finite, positive and of the sizes `params` say."""
        for name in self.__dataclass_fields__:
            values = getattr(self, name)
            if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, np.floating):
                raise ObservationError(f"{name}: found {type(values).__name__}, expected an array of numbers")
        batch = self.gain.shape[0] if self.gain.ndim == 4 else 0
        if batch < 1:
            raise ObservationError(f"gain: found shape {self.gain.shape}, expected (B, N, M, G) with B of at least 1")
        n, m, g = params.devices, params.servers, params.channels
        expected = {
            "path_gain": (batch, n, m),
            "gain": (batch, n, m, g),
            "data_bits": (batch, n),
            "work_cycles": (batch, n),
            "cpu_hz": (batch, n),
            "hash_rate": (batch, n),
            "server_work_cycles": (batch, m),
        }
        for name, shape in expected.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise ObservationError(f"{name}: found shape {values.shape}, expected {shape}")
            if not np.isfinite(values).all() or (values <= 0).any():
                raise ObservationError(f"{name}: found a number that is not finite and positive")


def check_state(state: object, params: LatencyParams) -> None:
    """Raise `ObservationError` unless it is a state, of the sizes `params` say."""
    if not isinstance(state, State):
        shape = getattr(state, "shape", None)
        found = f"{type(state).__name__}{f' of shape {tuple(shape)}' if isinstance(shape, tuple) else ''}"
        raise ObservationError(
            f"found {found}, expected a policy.world.state.State of {params.devices} devices, {params.servers} servers "
            f"and {params.channels} sub-channels: an observation shows env.unwrapped.state of its environment, one "
            "drawn afresh is new_state(params, 1, rng)"
        )
    state.check(params)


def server_positions_m(params: LatencyParams) -> Array:
    """S1: server 0 at the origin, the others equally spaced on a circle, the first at angle 0.  # (M, 2)"""
    around = params.servers - 1
    angles = 2 * np.pi * np.arange(around) / max(1, around)
    circle = params.server_circle_m * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return np.concatenate([np.zeros((1, 2)), circle])


def path_gain(distance_m: Array, params: LatencyParams) -> Array:
    """S2: g0 = 10^(-(128.1 + 37.6 log10(d / 1 km)) / 10)."""
    loss_db = params.path_loss_db + params.path_loss_slope_db * np.log10(distance_m / 1000)
    return np.asarray(10 ** (-loss_db / 10))


def new_state(params: LatencyParams, batch: int, rng: np.random.Generator) -> State:
    """The first round of B episodes: everything is drawn."""
    n, m = params.devices, params.servers
    radius = params.disc_m * np.sqrt(rng.random((batch, n)))
    angle = 2 * np.pi * rng.random((batch, n))
    positions = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    offsets = positions[:, :, None, :] - server_positions_m(params)
    distance_m = np.maximum(np.linalg.norm(offsets, axis=-1), params.min_distance_m)
    state = State(
        path_gain=path_gain(distance_m, params),
        gain=np.empty((batch, n, m, params.channels)),
        data_bits=np.empty((batch, n)),
        work_cycles=rng.uniform(params.work_min_cycles, params.work_max_cycles, (batch, n)),
        cpu_hz=rng.uniform(params.cpu_min_hz, params.cpu_max_hz, (batch, n)),
        hash_rate=rng.uniform(params.hash_min_hashes_per_s, params.hash_max_hashes_per_s, (batch, n)),
        server_work_cycles=rng.uniform(params.work_min_cycles, params.work_max_cycles, (batch, m)),
    )
    return _draw_channels_and_data(state, params, rng)


def next_state(state: State, params: LatencyParams, rng: np.random.Generator) -> State:
    """The next round of the same episodes: new channels and data; CPU and hash rates mostly stay (S28)."""
    shape = state.cpu_hz.shape
    kept_cpu, kept_hash = rng.random(shape) < params.hold, rng.random(shape) < params.hold
    cpu = rng.uniform(params.cpu_min_hz, params.cpu_max_hz, shape)
    hash_rate = rng.uniform(params.hash_min_hashes_per_s, params.hash_max_hashes_per_s, shape)
    held = replace(
        state,
        cpu_hz=np.where(kept_cpu, state.cpu_hz, cpu),
        hash_rate=np.where(kept_hash, state.hash_rate, hash_rate),
    )
    return _draw_channels_and_data(held, params, rng)


def _draw_channels_and_data(state: State, params: LatencyParams, rng: np.random.Generator) -> State:
    """S2: Rayleigh fading, h = g0 Exp(1); S3: D ~ U[0.5, 2] MB."""
    fading = rng.exponential(size=state.gain.shape)
    return replace(
        state,
        gain=state.path_gain[..., None] * np.maximum(fading, np.finfo(float).tiny),
        data_bits=rng.uniform(params.data_min_bits, params.data_max_bits, state.data_bits.shape),
    )
