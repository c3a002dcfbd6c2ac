"""Where values lie on a chart: round numbers along its axes, and the points of a line between them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_POINTS = 600
"""Of one line: more than a chart of this width can show"""
_TICKS = 5
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Frame:
    """The area that lines are drawn in, and what its edges stand for."""

    left: float
    top: float
    right: float
    bottom: float
    first: float
    last: float
    low: float
    high: float

    def x(self, value: float) -> float:
        """From the left of the picture."""
        span = self.last - self.first or 1.0
        return round(self.left + (value - self.first) / span * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """From its top."""
        span = self.high - self.low or 1.0
        return round(self.bottom - (value - self.low) / span * (self.bottom - self.top), 1)


def ticks(low: float, high: float, most: int = _TICKS) -> list[float]:
    """Round numbers from `low` to `high`, about `most` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in _STEPS if each * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def number_text(value: float) -> str:
    """A number on an axis: three digits are enough."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def span_of(values: Iterable[float | None], from_zero: bool) -> tuple[float, float]:
    """From the lowest to the highest, with a little air; from 0 on where the area below a line means something."""
    found = [value for value in values if value is not None and math.isfinite(value)]
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    low = min(0.0, low) if from_zero else low
    air = 0.06 * (high - low) or 0.5
    return (low if from_zero else low - air), high + air


def thinned(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """Those that are there, about `MOST_POINTS`: of each stretch the lowest and the highest, so no peak is lost."""
    found = [(x, y) for x, y in points if y is not None and math.isfinite(y)]
    if len(found) <= MOST_POINTS:
        return found
    size = math.ceil(2 * len(found) / MOST_POINTS)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(found), size):
        stretch = found[start : start + size]
        ends = {min(stretch, key=lambda each: each[1]), max(stretch, key=lambda each: each[1])}
        kept += sorted(ends)
    return kept
