"""What a sender posts once per attempt at a round: the slots of registry.vy, by number and by kind."""

from enum import IntEnum

MAX_STEP = 100
"""The last step of the gossip that the registry takes an iterate of."""


class Slot(IntEnum):
    """A sender's post in a round. An iterate of step l has slot ITERATE + l: `iterate_slot`, `step_of`."""

    PLAN = 0
    GRADIENT = 1
    CLOSE = 2
    MODEL = 3
    ENDORSE = 4
    ROLL = 5
    ITERATE = 16
    BROKEN_PASS = 2**256 - 4
    """No post: a pass that hides what its signer endorsed (D3.2)."""
    DOUBLE_PASS = 2**256 - 3
    """No post: two passes to one attempt that name different things (D3.2)."""
    DOUBLE_ENDORSEMENT = 2**256 - 2
    """No post: two blocks of one attempt, signed by one server (Q1)."""
    EQUIVOCATION = 2**256 - 1
    """No post: what a flag names whose evidence is two posts for one slot (P15)."""


_KINDS: dict[int, str] = {slot: slot.name.lower() for slot in Slot}


def iterate_slot(step: int) -> int:
    """The slot of an iterate of this step."""
    return Slot.ITERATE + step


def step_of(slot: int) -> int | None:
    """The step of an iterate's slot; None for every other slot."""
    return slot - Slot.ITERATE if Slot.ITERATE <= slot <= iterate_slot(MAX_STEP) else None


def kind_of(slot: int) -> str:
    """plan, gradient, close, model, iterate, ...; "unknown" for a number the registry has no post for.

    A flag may name any number, so this has an answer to all of them.
    """
    return _KINDS[Slot.ITERATE] if step_of(slot) is not None else _KINDS.get(slot, "unknown")


def slot_of_kind(kind: str, step: int = 0) -> int:
    """The slot of a kind of post; `step` counts for an iterate only."""
    slot = Slot[kind.upper()]
    return iterate_slot(step) if slot == Slot.ITERATE else slot
