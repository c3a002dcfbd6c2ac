"""Two posts of one sender for one slot that say different things: evidence of equivocation (P15)."""

from chain.protocol.consensus import SignedCall
from chain.protocol.contract import Call

_SLOTTED = ("plan", "gradient", "close", "iterate", "model")  # what the registry takes as evidence


def is_conflict(left: SignedCall, right: SignedCall) -> bool:
    """Whether one sender says two things in one slot; the same thing sent again is no lie."""
    if left.sender != right.sender or left.place[:2] != right.place[:2] or left.call is None or right.call is None:
        return False
    if left.call.name not in _SLOTTED:
        return False
    same_slot = left.call.name == right.call.name and left.call["round"] == right.call["round"]
    return same_slot and _said(left.call) != _said(right.call)


def _said(call: Call) -> dict[str, object]:
    """What a post says; its payload is named by its digest."""
    return {name: value for name, value in call.arguments.items() if name != "payload"}
