"""A filter that somebody else wrote, by its name (clients/plugins.py)."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clients.errors import ParameterError
from clients.plugins import load_plugin
from edge_servers.learning.filtered import Filter, Filtered, NamedFilter, with_values
from edge_servers.learning.gradients import Gradient

REASON = "filtered"
"""Reason code of those it takes out"""
OwnRule = Callable[[Sequence[Gradient]], Filtered | Iterable[Gradient]]
"""Of the closed list: what it makes of it, or simply the gradients that it keeps"""
_LONGEST_DETAIL = 200


def own_filter(name: str) -> Filter:
    """Somebody's own rule. Its answer is checked: who is in the list, and with which weight, is not its to change."""
    return NamedFilter(name, REASON, partial(_checked, name, load_plugin("filter", name, ParameterError)))


def _checked(name: str, rule: OwnRule, closed: Sequence[Gradient]) -> Filtered:
    in_order = tuple(sorted(closed, key=lambda gradient: gradient.sender))  # whatever the order they arrived in
    found = _filtered(name, rule(in_order), closed)
    values = {each.sender: each.values for each in found.kept}
    told = Counter([*(each.sender for each in found.kept), *found.removed])
    if told != Counter(gradient.sender for gradient in closed):
        raise ParameterError(
            f"filter {name}: found {len(found.kept)} gradients kept and {len(found.removed)} removed, expected each of "
            f"the {len(closed)} senders once"
        )
    kept = [gradient for gradient in closed if gradient.sender in values]
    for gradient in kept:
        new = np.asarray(values[gradient.sender])
        if new.shape != gradient.values.shape or not np.isfinite(new).all():
            raise ParameterError(
                f"filter {name}: found values of shape {new.shape} for {gradient.node}, expected "
                f"{gradient.values.shape} finite numbers"
            )
    same = [values[gradient.sender] is gradient.values for gradient in kept]
    changed = [
        None if is_same else np.asarray(values[gradient.sender], dtype=np.float64)
        for gradient, is_same in zip(kept, same, strict=True)
    ]
    removed = {sender: str(detail)[:_LONGEST_DETAIL] for sender, detail in found.removed.items()}
    return replace(with_values(kept, changed), removed=removed)


def _filtered(name: str, found: object, closed: Sequence[Gradient]) -> Filtered:
    """Also of a filter that returns just what it keeps."""
    if isinstance(found, Filtered):
        return found
    kept = tuple(found) if isinstance(found, Iterable) else (found,)
    if not all(isinstance(each, Gradient) for each in kept):
        raise ParameterError(
            f"filter {name}: found {type(found).__name__}, expected a Filtered, or the gradients that it keeps"
        )
    senders = {each.sender for each in kept}
    removed = {each.sender: f"{name} left it out" for each in closed if each.sender not in senders}
    return Filtered(kept, removed)
