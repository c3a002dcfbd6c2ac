"""What the registry answers to a post that it accepts: exactly these logs, byte for byte.

Whether a vote or a flag was the one that was still needed depends on the state: that is told by execution alone (Q3).
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from eth_hash.auto import keccak

from chain.errors import InspectionError
from chain.protocol.contract import Call, decode_log, events
from chain.protocol.endorsements import Domain, posted_endorsements, typed_digest
from chain.protocol.passes import contradiction
from chain.protocol.posts import SignedCall
from chain.protocol.slots import Slot
from chain.wire.address import Address
from chain.wire.receipts import Log, Receipt

_ANSWERS = {
    "found": "Founded",
    "vote": "Voted",
    "begin_attempt": "AttemptBegun",
    "plan": "Planned",
    "gradient": "GradientPosted",
    "roll": "RollPosted",
    "close": "Closed",
    "iterate": "IteratePosted",
    "flag": "Flagged",
    "flag_equivocation": "Flagged",
    "flag_signatures": "Flagged",
    "model": "ModelPublished",
}
_SENDERS = ("founder", "leader", "sender", "server")
"""How events name who posted"""
_READ = ("Registered", "Excluded", "ModelPublished")
_POSTED = ("Planned", "GradientPosted", "RollPosted", "Closed", "IteratePosted", "ModelPublished")
"""What says who posted something in a slot: the second topic behind the name"""
CHANGES_MEMBERS = ("register", "vote", "flag", "flag_equivocation", "flag_signatures")
"""Calls after which other participants may take part"""


def check_events(post: SignedCall, receipt: Receipt, registry: Address, exclusion_rounds: int) -> None:
    """Raise `InspectionError` unless an accepted post has the events that the registry emits for it, and no other."""
    expected = answers_to(post, registry)
    if receipt.logs != expected and receipt.logs != (*expected, *_consequences(post, registry, exclusion_rounds)):
        found = ", ".join(_name(log) for log in receipt.logs) or "none"
        named = ", ".join(_name(log) for log in expected) or "none"
        what = post.call.name if post.call else "creation"
        raise InspectionError(f"{what} was accepted with other events than the registry emits: {found}, not {named}")


def answers_to(post: SignedCall, registry: Address) -> tuple[Log, ...]:
    """The logs of a post that is accepted, but for what may follow from it."""
    call = post.call
    if call is None:
        return ()
    if call.name == "register":
        pairs = zip(call["participants"], call["homes"], strict=True)
        return tuple(_log("Registered", {"participant": who, "home": home}, registry) for who, home in pairs)
    if call.name == "endorse":
        signed = posted_endorsements(call, Domain(post.transaction.chain_id, registry))
        return tuple(_log("Endorsed", {**call.arguments, "server": each.signer}, registry) for each in signed)
    said = {**call.arguments, **dict.fromkeys(_SENDERS, post.sender)}
    if call.name == "flag_equivocation":
        said |= {"slot": Slot.EQUIVOCATION, "transaction_hash": keccak(call["first"])}
        said["expected"] = keccak(call["second"])
    if call.name == "flag_signatures":
        domain = Domain(post.transaction.chain_id, registry)
        first, second = (typed_digest(domain, call[name]) for name in ("first", "second"))
        said |= {"slot": contradiction(call), "transaction_hash": first, "expected": second}
    return (_log(_ANSWERS[call.name], said, registry),)


def _consequences(post: SignedCall, registry: Address, exclusion_rounds: int) -> tuple[Log, ...]:
    """What the last vote or flag that was needed brings about."""
    call = post.call
    if call is None or call.name not in CHANGES_MEMBERS or call.name == "register":
        return ()
    if call.name == "vote":
        return (_log("Registered", call.arguments, registry),)
    last = int(call["round"]) + exclusion_rounds
    said = {"round": call["round"], "participant": call["offender"], "last_round": last}
    return (_log("Excluded", said, registry),)


def read_events(receipt: Receipt, registry: Address) -> Iterator[Call]:
    """The events that change who takes part or which model counts; every other log must be of the registry too."""
    if receipt.logs and receipt.status != 1:
        raise InspectionError("a reverted post has events")
    for log in receipt.logs:
        name = _names().get(log.topics[0]) if log.topics and log.address == registry else None
        if name is None or not _has_form(log, name):
            raise InspectionError("a log that is no event of the registry")
        if name in _READ:
            event = decode_log(log.topics, log.data)
            if event is None:
                raise InspectionError("a log that is no event of the registry")
            yield event


def senders_in(receipt: Receipt) -> set[Address]:
    """Who posted in a slot, by events that `read_events` has seen."""
    return {Address(log.topics[2][12:]) for log in receipt.logs if _names()[log.topics[0]] in _POSTED}


def attempt_begun(receipt: Receipt) -> int | None:
    """The attempt that began with a post, by its event; None for every other post."""
    begun = [log.data for log in receipt.logs if _names()[log.topics[0]] == "AttemptBegun"]
    return int.from_bytes(begun[0], "big") if begun else None


def _log(name: str, said: Mapping[str, Any], registry: Address) -> Log:
    topic, indexed, data = _form(name)
    words = tuple(_word(said[field]) for field in indexed)
    return Log(registry, (topic, *words), b"".join(_word(said[field]) for field in data))


def _word(value: int | bytes) -> bytes:
    """A field as the ABI has it: all of them are numbers, digests and addresses."""
    return value.to_bytes(32, "big") if isinstance(value, int) else bytes(value).rjust(32, b"\0")


@functools.cache
def _form(name: str) -> tuple[bytes, tuple[str, ...], tuple[str, ...]]:
    """First topic, names of the other topics, names in the data."""
    event = events()[name]
    return event.topic, tuple(field for field, _ in event.indexed), tuple(field for field, _ in event.data)


@functools.cache
def _names() -> dict[bytes, str]:
    return {event.topic: name for name, event in events().items()}


def _has_form(log: Log, name: str) -> bool:
    _, indexed, data = _form(name)
    return len(log.topics) == 1 + len(indexed) and len(log.data) == 32 * len(data)


def _name(log: Log) -> str:
    return _names().get(log.topics[0], "another log") if log.topics else "another log"
