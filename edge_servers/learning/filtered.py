"""What a filter is, and what it makes of the closed list (P7)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from chain.wire.address import Address
from edge_servers.learning.aggregation import Exact
from edge_servers.learning.gradients import Gradient

FEWEST = 3
"""Fewer gradients pass untouched: of two that differ, nothing says which one is wrong."""


@dataclass(frozen=True)
class Filtered:
    """What a filter made of the closed list."""

    kept: tuple[Gradient, ...]
    """In the given order; the same object where unchanged, else with new float64 values. D_y and e_y never change."""
    removed: Mapping[Address, str] = field(default_factory=dict)
    """Sender -> found and expected, of those taken out."""
    touched: int = 0
    """How many of the kept had values changed."""
    reasons: Mapping[Address, str] = field(default_factory=dict)
    """Sender -> reason code of the stage that took it out, where there are several stages."""


class Filter(Protocol):
    """One step over the whole closed list."""

    @property
    def name(self) -> str:
        """The text it was made from."""

    @property
    def reason(self) -> str:
        """Reason code of those it takes out; empty where it only changes values."""

    def __call__(self, closed: Sequence[Gradient]) -> Filtered:
        """The list after the filter."""


@dataclass(frozen=True)
class NamedFilter:
    """A rule under the name it was asked for by."""

    name: str
    reason: str
    rule: Callable[[Sequence[Gradient]], Filtered]

    def __call__(self, closed: Sequence[Gradient]) -> Filtered:
        return Filtered(tuple(closed)) if len(closed) < FEWEST else self.rule(closed)


def with_values(closed: Sequence[Gradient], values: Sequence[Exact | None]) -> Filtered:
    """The gradients with their new values; the same object where there are none or they are equal."""
    changed = [new is not None and not np.array_equal(new, g.values) for g, new in zip(closed, values, strict=True)]
    kept = tuple(
        replace(g, values=new) if is_new and new is not None else g
        for g, new, is_new in zip(closed, values, changed, strict=True)
    )
    return Filtered(kept, touched=sum(changed))
