"""What the founding block fixes of a device's work: it is told when it joins, and does nothing else (Q5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policy.parameters import LatencyParams
from policy.world.projection import hash_floor
from policy.world.round_data import data_samples, device_bits
from policy.world.rounds import hash_caps

_WORLD = LatencyParams()


@dataclass(frozen=True)
class FoundedWork:
    """How every device of a network trains, in every round, and on how much (P2, P22)."""

    seed: int
    iterations: int
    batch: int
    learning_rate: float
    optimizer: str
    codec: str
    deadline_s: float
    shares: tuple[int, ...]
    """Samples that each device registered."""
    sample_bytes: int
    """Of one sample, as the latency model counts data."""
    draws_samples: bool
    """Whether a round has a fresh subset of the share, or all of it (`data-per-round`)."""
    plan_bytes: int
    """Of a plan's payload, at most (B2)."""

    def samples(self, round_: int, device: int) -> int:
        """D_n of a round (P22): a function of seed, round and device, so nobody's wish."""
        share = self.shares[device]
        if not self.draws_samples:
            return share
        bits = np.array([device_bits(_WORLD, self.seed, round_, device)])
        return min(share, int(data_samples(bits, self.sample_bytes)[0]))

    def hash_share(self, round_: int, device: int, hash_rate: Sequence[float]) -> float:
        """Psi_n / H_n: the part of its own hash power (S6) that a plan gives to a device, by the plan's rates (D8).

        Rates outside of what S19 allows count as its nearest end: no leader stops a miner. All where none are planned.
        """
        devices = len(self.shares)
        if len(hash_rate) != devices:
            return 1.0
        has = float(hash_caps(LatencyParams(devices=devices), self.seed, round_)[device])
        return min(max(hash_rate[device], hash_floor(_WORLD, devices)), has) / has
