"""Every constant of the latency model (spec S1-S31), in SI units: s, bit, Hz, W, cycle, hash, J."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from policy.errors import PolicyError, did_you_mean

BITS_PER_MB = 8e6
BITS_PER_KB = 8e3
GIGA = 1e9
MOST_DB = 300.0
"""Decibels beyond this are a slip of the pen"""


def dbm_to_w(dbm: float) -> float:
    """Power in W. W = 1e-3 * 10^(dBm / 10)."""
    return float(1e-3 * 10 ** (dbm / 10))


@dataclass(frozen=True)
class LatencyParams:
    """The world of the policy: who is there, and every constant of S1-S31. Another reading of the paper is another
    value here."""

    devices: int = 30
    """N"""
    servers: int = 5
    """M"""
    channels: int = 5
    """G, sub-channels of each server"""

    # S1, S2: geometry and channel
    server_circle_m: float = 300.0
    disc_m: float = 500.0
    min_distance_m: float = 10.0
    path_loss_db: float = 128.1
    path_loss_slope_db: float = 37.6
    noise_w: float = dbm_to_w(-100.0)
    """sigma^2, independent of the bandwidth (A8)"""

    # S3-S6: what devices bring
    data_min_bits: float = 0.5 * BITS_PER_MB
    data_max_bits: float = 2.0 * BITS_PER_MB
    reference_bits: float = 1.25 * BITS_PER_MB
    """D_ref, to which the cycles refer (A2)"""
    work_min_cycles: float = 0.7 * GIGA
    work_max_cycles: float = 1.1 * GIGA
    passes: float = 1.0
    """rho e (A3)"""
    cpu_min_hz: float = 0.2 * GIGA
    cpu_max_hz: float = 2.0 * GIGA
    hash_min_hashes_per_s: float = 100 * GIGA
    hash_max_hashes_per_s: float = 1000 * GIGA
    hold: float = 0.9
    """Probability that available CPU and hash rate stay as they are from one round to the next (S5, S6)"""

    # S8-S16: offloading and training
    power_min_dbm: float = 0.0
    power_max_dbm: float = 30.0
    bandwidth_hz: float = 20e6
    """W of each server (A7)"""
    bandwidth_min_hz: float = 0.1e6
    offload_timeout_s: float = 3.0
    server_cpu_hz: float = 5 * GIGA
    energy_per_cycle: float = 5e-27
    """kappa: E = kappa f^2 cycles"""
    energy_j: float = 10.0
    """E_L, the energy of learning (A20)"""
    model_bits: float = 5 * BITS_PER_KB
    """theta (A17)"""

    # S18-S22: consensus and mining
    phi: int = 5
    consensus_overhead_s: float = 0.05
    """t_p2p of each consensus round (A18)"""
    server_link_hz: float = 5e6
    server_link_w: float = 110.0
    noise_density_w_per_hz: float = dbm_to_w(-174.0)
    server_rate_bps: float = 0.0
    """Rate between servers; 0 computes it from S18"""
    hash_budget_hashes_per_s: float = 15e12
    """Psi_max, of all devices together (A19)"""
    block_hashes: float = 50 * GIGA
    """hbar"""
    broadcast_s_per_mb: float = 0.005
    """xi"""
    block_mb: float = 0.25
    forks: float = 3.0
    """zeta"""
    energy_per_hash_j: float = 5e-11
    """Xi (A20)"""

    # S25, S29
    latency_bound_s: float = 3.0
    """tau_n"""
    steps: int = 100
    """Rounds of an episode"""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise PolicyError(f"{field.name}: found {value!r}, expected a finite number")
        self._check_bounds()

    def _check_bounds(self) -> None:
        may_be_zero = {
            "power_min_dbm", "power_max_dbm", "phi", "consensus_overhead_s", "server_rate_bps", "hold", "passes",
            "broadcast_s_per_mb", "block_mb", "energy_per_hash_j", "forks", "model_bits", "server_circle_m",
        }  # fmt: skip
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if "dbm" not in field.name and (value < 0 or (value == 0 and field.name not in may_be_zero)):
                raise PolicyError(f"{field.name}: found {value!r}, expected a positive number")
        for name in ("devices", "servers", "channels", "phi", "steps"):
            if not isinstance(getattr(self, name), int):
                raise PolicyError(f"{name}: found {getattr(self, name)!r}, expected a whole number")
        ranges = ("data_{}_bits", "work_{}_cycles", "cpu_{}_hz", "hash_{}_hashes_per_s", "power_{}_dbm")
        for name in ranges:
            low, high = (getattr(self, name.format(end)) for end in ("min", "max"))
            if low > high:
                raise PolicyError(
                    f"{name.format('min')}: found {low!r}, expected at most {name.format('max')} = {high!r}"
                )
        for name in ("power_min_dbm", "power_max_dbm", "path_loss_db", "path_loss_slope_db"):
            if abs(getattr(self, name)) > MOST_DB:
                raise PolicyError(f"{name}: found {getattr(self, name)!r}, expected at most {MOST_DB:g} decibels")
        spent_j = dbm_to_w(self.power_max_dbm) * self.offload_timeout_s
        if spent_j >= self.energy_j:
            raise PolicyError(
                f"power_max_dbm: found {self.power_max_dbm!r}, which spends {spent_j:.3g} J in a time-out; expected "
                f"less than energy_j = {self.energy_j!r}, or nothing is left to train with (S12)"
            )
        if self.bandwidth_min_hz > self.bandwidth_hz or self.hold > 1:
            raise PolicyError("expected bandwidth_min_hz at most bandwidth_hz, and hold at most 1")

    @property
    def slots(self) -> int:
        """S = M G, the (server, sub-channel) pairs."""
        return self.servers * self.channels


def make_params(params: object, fields: Mapping[str, object]) -> LatencyParams:
    """A world from keyword arguments: ready-made, or some of its fields by name, the others as they are by default."""
    if params is not None:
        if not isinstance(params, LatencyParams):
            raise PolicyError(
                f"params: found {type(params).__name__}, expected LatencyParams; or give its fields by name, devices=10"
            )
        if fields:
            raise PolicyError(f"found params and {', '.join(fields)} beside it, expected one or the other")
        return params
    known = [field.name for field in dataclasses.fields(LatencyParams)]
    for name in fields:
        if name not in known:
            nearest = did_you_mean(name, known) or f": {', '.join(known)}"
            raise PolicyError(f"found the parameter {name}, expected one of policy.parameters.LatencyParams{nearest}")
    return LatencyParams(**{name: _plain(value) for name, value in fields.items()})


def _plain(value: object) -> Any:
    """numpy's numbers as Python's own."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
