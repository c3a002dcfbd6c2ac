"""A filter that somebody else wrote, by its name (clients/plugins.py)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clients.errors import ParameterError
from clients.plugins import load_plugin
from edge_servers.learning.filtered import Filter, Filtered, NamedFilter, with_values
from edge_servers.learning.gradients import Gradient

REASON = "filtered"
"""Reason code of those it takes out"""


def foreign_filter(name: str) -> Filter:
    """Somebody's own function of the closed list, which returns a `Filtered`. Its answer is checked, and given in the
    order of the list: who is in it, and the weights, are not its to change.
    """
    rule = load_plugin("filter", name, ParameterError)
    return NamedFilter(name, REASON, partial(_checked_rule, name, rule))


def _checked_rule(name: str, rule: Callable[[Sequence[Gradient]], Filtered], closed: Sequence[Gradient]) -> Filtered:
    found = rule(tuple(closed))
    given = {gradient.sender: gradient for gradient in closed}
    kept = [each.sender for each in found.kept] if isinstance(found, Filtered) else []
    removed = set(found.removed) if isinstance(found, Filtered) else set()
    if len(kept) + len(removed) != len(given) or {*kept, *removed} != set(given):
        raise ParameterError(
            f"filter {name}: found {len(kept)} gradients kept and {len(removed)} removed, expected a Filtered that has "
            f"each of the {len(given)} senders once"
        )
    values = {}
    for each in found.kept:
        if each.values.shape != given[each.sender].values.shape or not np.isfinite(each.values).all():
            raise ParameterError(f"filter {name}: found values that are no gradient, expected finite ones of its shape")
        values[each.sender] = each.values
    changed = [
        None if values[g.sender] is g.values else values[g.sender].astype(np.float64)
        for g in closed
        if g.sender in values
    ]
    result = with_values([g for g in closed if g.sender in values], changed)
    return replace(result, removed={sender: str(detail)[:200] for sender, detail in found.removed.items()})
