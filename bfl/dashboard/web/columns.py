"""Rounds as columns, for charts: decimated where there are more than a screen has room for."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bfl.dashboard.facts import TERMS, RoundFact
from bfl.dashboard.index.figures import bands, marks

SUMS = ("T", "T_wall")
MOST_POINTS = 2000
_DIGITS = 6


def columns_of(rounds: Sequence[RoundFact], after: int, points: int) -> dict[str, Any]:
    """Rounds behind `after`, at most about `points` of them. Offences and exclusions are of all rounds, all of them."""
    wanted = rounds[after:]
    step = max(1, math.ceil(len(wanted) / points))
    shown = list(wanted[::step])
    if wanted and shown[-1] is not wanted[-1]:
        shown.append(wanted[-1])
    return {
        "first": wanted[0].round if wanted else None,
        "last": wanted[-1].round if wanted else None,
        "step": step,
        "round": [each.round for each in shown],
        "accuracy": [short(each.accuracy) for each in shown],
        "loss": [short(each.loss) for each in shown],
        "leader": [each.leader for each in shown],
        "winner": [each.winner for each in shown],
        "offloaded": [each.offloaded for each in shown],
        "training_nodes": [each.training_nodes for each in shown],
        "refused": [len(each.refused) for each in shown],
        "latency": _latency(shown),
        "seconds": _named(shown, lambda each: each.seconds, _names(shown)),
        "marks": [vars(each) for each in marks(rounds)],
        "bands": [{"from": each.first, "through": each.last, "who": each.who} for each in bands(rounds)],
    }


def short(value: float | None) -> float | None:
    """Six digits: a chart has no room for more."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")


def _names(shown: Sequence[RoundFact]) -> list[str]:
    return list(dict.fromkeys(name for each in shown for name in each.seconds))


def _named(shown: Sequence[RoundFact], of: Callable[[RoundFact], Any], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [short(of(each).get(name)) for each in shown] for name in names}


def _latency(shown: Sequence[RoundFact]) -> dict[str, Any]:
    kinds = list(dict.fromkeys(kind for each in shown for kind in each.latency))
    found = {kind: _named(shown, partial(_terms, kind=kind), (*TERMS, *SUMS)) for kind in kinds}
    if any(each.measured for each in shown):
        found["measured"] = _named(shown, lambda each: each.measured, (*TERMS, *SUMS))
    return found


def _terms(fact: RoundFact, kind: str) -> Mapping[str, float]:
    return fact.latency.get(kind, {})
