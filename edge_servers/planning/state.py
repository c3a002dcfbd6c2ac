"""What a planner sees of a round: data, consent, channels, CPU and hash rates of every device (P22, P23, P25)."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

import numpy as np

from chain.wire.documents import canonical_digest
from clients.consent import Consent
from clients.parameters import DataParams
from edge_servers.errors import PlanError
from edge_servers.founding.network import Network
from policy.parameters import LatencyParams
from policy.world.conditions import Conditions
from policy.world.round_data import data_bits, data_samples
from policy.world.rounds import simulated_state
from policy.world.state import Array, State

NEXT_TO_NOTHING = 1.0
"""Bits of data that a planner sees of who is set aside: a world has some everywhere"""
LOCAL = -1
"""In an assignment: the device trains itself"""


@dataclass(frozen=True, eq=False)
class RoundState:
    """What a planner sees of a round. The world is simulated, everything else is the network's own."""

    round: int
    samples: tuple[int, ...]
    """D_n by device."""
    homes: tuple[int, ...]
    consents: tuple[str, ...]
    excluded: tuple[int, ...]
    """Servers that may not take data in this round."""
    aside: tuple[int, ...]
    """Devices that take no part in this round (R5): they have no data."""
    world: State
    """A batch of 1; its data is that of `samples`, before rounding to whole samples."""
    params: LatencyParams
    """What the policy was trained with, for this many devices and servers."""

    @property
    def servers(self) -> int:
        """M."""
        return self.params.servers

    def allows(self, device: int, server: int) -> bool:
        """Whether a plan may send this device's data to this server (P25)."""
        is_free = server not in self.excluded and device not in self.aside
        return is_free and Consent(self.consents[device]).allows(server)

    @cached_property
    def digest(self) -> str:
        """Names the state in the plan: sha256 over the numbers, and over the bytes of the world's arrays."""
        return canonical_digest(
            {
                "round": self.round,
                "samples": self.samples,
                "homes": self.homes,
                "consents": self.consents,
                "excluded": self.excluded,
                "world": {field.name: _array_digest(getattr(self.world, field.name)) for field in fields(State)},
                "params": asdict(self.params),
                **({"aside": self.aside} if self.aside else {}),
            }
        )


def _array_digest(values: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, "<f8").tobytes()).hexdigest()


def round_state(
    round_: int,
    network: Network,
    data: DataParams,
    sample_bytes: int,
    excluded: Iterable[int] = (),
    phi: int = LatencyParams.phi,
    devices: Conditions | None = None,
    aside: Iterable[int] = (),
) -> RoundState:
    """The state of a round: how much data each device works on (P22), what it allows, and the world it is in (P23).

    `devices`: how fast they are, where they are not all alike; `aside`: who is set aside (R5).
    """
    away = tuple(sorted(aside))
    barred = tuple(sorted(set(excluded)))
    if any(not 0 <= server < len(network.servers) for server in barred):
        raise PlanError(f"excluded servers: found {barred}, expected servers of 0 to {len(network.servers) - 1}")
    params = LatencyParams(devices=len(network.devices), servers=len(network.servers), phi=phi)
    world = simulated_state(params, data.seed, round_)
    bits = np.array([device.samples for device in network.devices]) * (8.0 * sample_bytes)
    if data.data_per_round == "state":
        bits = np.minimum(bits, world.data_bits[0])
    if devices is not None and devices.speeds:
        world = replace(world, cpu_hz=world.cpu_hz * devices.factors(len(network.devices)))
    bits[list(away)] = NEXT_TO_NOTHING
    return RoundState(
        round=round_,
        samples=without(away, round_samples(round_, network, data, sample_bytes)),
        homes=tuple(device.home for device in network.devices),
        consents=tuple(device.consent.text for device in network.devices),
        excluded=barred,
        aside=away,
        world=replace(world, data_bits=bits[None]),
        params=params,
    )


def round_samples(round_: int, network: Network, data: DataParams, sample_bytes: int) -> tuple[int, ...]:
    """D_n of a round, by device (P22): a function of the seed, the round and the device, the same on any machine."""
    shares = np.array([device.samples for device in network.devices])
    if data.data_per_round == "state":
        bits = data_bits(LatencyParams(), data.seed, round_, len(shares))
        shares = np.minimum(shares, data_samples(bits, sample_bytes))
    return tuple(shares.tolist())


def without(aside: Collection[int], samples: Sequence[int]) -> tuple[int, ...]:
    """The data of a round, by device; who is set aside has none in it (R5)."""
    return tuple(0 if n in aside else count for n, count in enumerate(samples))


def widen_channels(state: RoundState, channels: int) -> tuple[State, LatencyParams]:
    """The world with this many sub-channels per server. Those beyond G fade like the first ones, in turn."""
    if channels == state.params.channels:
        return state.world, state.params
    gain = state.world.gain[..., np.arange(channels) % state.params.channels]
    return replace(state.world, gain=gain), replace(state.params, channels=channels)
