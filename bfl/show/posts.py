"""What posts say, in words: for tables in a terminal and for the page."""

from collections.abc import Mapping
from typing import Any

from bfl.show.names import Names, full_hex
from bfl.show.text import size_text
from chain.errors import ChainError
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall, read_signed_call
from chain.protocol.slots import Slot, step_of
from chain.wire.address import Address
from chain.wire.transactions import Transaction

_SLOTS: Mapping[int, str] = {
    Slot.PLAN: "the plan", Slot.GRADIENT: "the gradient", Slot.CLOSE: "the closed list", Slot.MODEL: "the model",
    Slot.ROLL: "the roll", Slot.EQUIVOCATION: "equivocation",
    Slot.DOUBLE_ENDORSEMENT: "two endorsements in one attempt", Slot.DOUBLE_PASS: "two passes to one attempt",
    Slot.BROKEN_PASS: "a pass that hides an endorsement",
}  # fmt: skip


def find_post(transaction: Transaction, genesis: Genesis) -> SignedCall | None:
    """A transaction as a post of this network; None where it is none."""
    try:
        return read_signed_call(transaction, genesis)
    except ChainError:
        return None


def post_name(post: SignedCall | None) -> str:
    """What it calls."""
    if post is None:
        return "unreadable"
    return post.call.name if post.call else "creation"


def slot_text(slot: int) -> str:
    """What a flag is about."""
    step = step_of(slot)
    return f"iterate {step}" if step is not None else _SLOTS.get(slot, f"slot {slot}")


def describe_post(post: SignedCall | None, names: Names) -> str:
    """What a post says, in a few words."""
    if post is None or post.call is None:
        return ""
    call, said = post.call, []
    for name in ("step", "samples", "iterations"):
        if name in call:
            said.append(f"{name} {call[name]}")
    if "offender" in call:
        said.append(f"offender {names.short(call['offender'])}")
    if "slot" in call:
        said.append(f"about {slot_text(int(call['slot']))}")
    if call.name == "register":
        said.append(f"{len(call['participants'])} participants")
    said += [f"{size_text(each.size)} beside it" for each in post.commitments]
    return ", ".join(said)


def said_in(post: SignedCall | None) -> dict[str, Any]:
    """The arguments of its call by names for people."""
    if post is None or post.call is None:
        return {}
    return {"payload size" if name == "size" else name: value for name, value in post.call.arguments.items()}


def format_value(value: Any, names: Names) -> str:
    """An argument of a call, or a field of an event."""
    if isinstance(value, Address):
        return names.full(value)
    if isinstance(value, bytes):
        return full_hex(value) if len(value) <= 65 else f"{len(value)} bytes"
    if isinstance(value, list | tuple):
        return f"{len(value)} entries"
    return str(value)
