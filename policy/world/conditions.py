"""What devices are like in a simulated world: how fast, and whether they are there in a round.

Every draw is a function of (seed, round, device): two runs differ by what they are asked for alone, and any round can
be drawn by itself (P23).
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from policy.streams import Purpose, stream
from policy.world.state import Array
from policy.world.traces import FASTEST, SLOWEST, Trace, read_speeds, read_trace


@dataclass(frozen=True)
class Conditions:
    """The devices of a run as its settings describe them; by default all are alike, and always there."""

    speeds: str = ""
    dropout: float = 0.0
    availability: str = ""
    seed: int = field(default=0, kw_only=True)

    @cached_property
    def _trace(self) -> Trace:
        return read_trace(self.availability)

    def factors(self, devices: int) -> Array:
        """The factor on the CPU of each device (S5), the same in all rounds.  # (N,)"""
        speeds = read_speeds(self.speeds)
        if isinstance(speeds, float):
            drawn = [stream(self.seed, Purpose.SPEED, who=n).standard_normal() for n in range(devices)]
            return np.asarray(np.clip(np.exp(speeds * np.array(drawn)), SLOWEST, FASTEST))
        return np.resize(np.array(speeds or (1.0,)), devices)

    def is_away(self, round_: int, device: int) -> bool:
        """Whether a device is not there in a round: by its trace, or because it drops out."""
        spans = self._trace.get(device)
        if spans is not None and not any(span.has(round_) for span in spans):
            return True
        return bool(self.dropout) and stream(self.seed, Purpose.ABSENCE, round_, device).random() < self.dropout

    def there(self, round_: int, devices: int) -> list[bool]:
        """Who is there in a round, by device."""
        return [not self.is_away(round_, n) for n in range(devices)]
