"""Whether a run has learned anything: one that has not says so, and why, instead of ending as if all were well."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

_CHANCE = 1.02
"""What is within two percent of guessing is guessing"""
_WORSE = 2.0
"""Times the loss of a guess: a model that is sure of wrong answers"""
_BLOWN_UP = 20.0
"""Times the loss of a guess, after which an accuracy of up to twice that of guessing is luck"""
_FIRST_WORD = 2
"""Rounds before which a loss says nothing: a new network may begin far off"""
_PATIENCE = 10
"""Rounds at chance, with gradients refused, after which nobody waits any longer"""


def why_nothing_learned(metrics: Sequence[dict[str, Any]], classes: int) -> str:
    """Empty where the run may have learned something, or where it was never evaluated."""
    if not metrics:
        return ""
    refused = Counter(each["reason"] for line in metrics for each in line["refused"])
    reasons = ", ".join(f"{reason} {count} times" for reason, count in refused.most_common(3))
    counted = sum(line["training-nodes"] for line in metrics)
    if not counted:
        return f"no gradient counted in any of {len(metrics)} rounds ({reasons or 'nobody trained'}){_advice(reasons)}"
    evaluated = [line for line in metrics if line["accuracy"] is not None]
    if not evaluated:
        return ""
    last = evaluated[-1]
    accuracy, loss = last["accuracy"], last["loss"]
    if loss is None:
        return f"the loss is no number any more after round {last['round']}{_ADVICE}"
    is_blown_up = loss > _BLOWN_UP * math.log(classes)
    if accuracy > (2.0 if is_blown_up else _CHANCE) / classes:
        return ""
    found = f"accuracy {100 * accuracy:.2f} % is that of guessing among {classes} classes"
    if is_blown_up or (loss > _WORSE * math.log(classes) and len(metrics) >= _FIRST_WORD):
        return f"{found}, and the loss {loss:.4g} is worse than a guess's{_ADVICE}"
    if refused.total() >= counted or (refused and len(metrics) >= _PATIENCE):
        return f"{found}, and {refused.total()} gradients were refused ({reasons}){_advice(reasons)}"
    return ""


_ADVICE = "; try a smaller learning-rate"


def _advice(reasons: str) -> str:
    return _ADVICE if "out-of-bounds" in reasons else ""
