"""The constants of the latency model that the learning needs; the rest comes with the policy."""

from dataclasses import dataclass

BITS_PER_MB = 8e6


@dataclass(frozen=True)
class StateParams:
    """How much data a device works on in a round (S3)."""

    data_min_bits: float = 0.5 * BITS_PER_MB
    data_max_bits: float = 2.0 * BITS_PER_MB
