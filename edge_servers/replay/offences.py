"""What somebody did wrong in a round, with the evidence that a flag carries (P15), in the words that people read.

`Offence` is what was found, by a referee while the round runs or by whoever replays it later; a server's own word for
it on the ledger is a `Flag` (`chain.client.posts`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eth_hash.auto import keccak

from chain.client.posts import Flag
from chain.protocol.passes import Pass, Signed
from chain.protocol.posts import Post
from chain.protocol.slots import Slot, iterate_slot, kind_of, step_of
from chain.wire.address import Address
from edge_servers.founding.network import Network
from edge_servers.learning.gradients import Gradient

DERIVED, FALSE_FLAG, WORD = "derived again", "false flag", "not on the chain"
"""What an audit says of an offence: it is so; it is not so; the chain cannot tell, it is the accusers' word."""
ABSENT = "absent"
SIGNED_TWICE: dict[int, str] = {
    Slot.EQUIVOCATION: "signed two different posts for one slot",
    Slot.DOUBLE_ENDORSEMENT: "endorsed two different blocks in one attempt",
    Slot.DOUBLE_PASS: "passed twice to one attempt, naming different things",
    Slot.BROKEN_PASS: "hid in its pass what it had endorsed",
}
"""Offences whose evidence is two signatures, in words"""
NOTHING = bytes(32)
"""In place of a hash or digest: nothing was posted, or nothing else was expected"""


@dataclass(frozen=True)
class Offence:
    """Something that was wrong in a round, or was said to be."""

    offender: Address
    name: str
    """The offender's, for people: "server 1"."""
    kind: str
    """iterate, absent, close, plan, gradient, model, equivocation, double_endorsement, double_pass, broken_pass."""
    slot: int
    transaction_hash: bytes
    expected: bytes
    detail: str
    """The sentence for people."""
    found: bytes = b""
    """Digest of what was posted; empty where nothing is on the chain."""
    round: int = 0
    verdict: str = DERIVED
    flagged_by: tuple[str, ...] = ()
    """Names of the servers that accused."""
    excluded_through: int | None = None
    """Last round of the exclusion that followed in this block."""
    off_by: tuple[float, float] | None = None
    """Of a wrong iterate: the largest |difference| and its norm, in units of the aggregate."""
    signed_round: int | None = None
    """Of two signatures: the round that they are about, which may be flagged in a later one."""

    @property
    def is_absence(self) -> bool:
        """Whether something was not there in time: a crash is no lie, and nobody is accused of it (D3.6)."""
        return self.kind == ABSENT

    @property
    def step(self) -> int | None:
        """The consensus step, for an iterate."""
        return step_of(self.slot)


def absent_iterate(offender: Address, step: int, expected: bytes, network: Network) -> Offence:
    """A server posted no iterate by the deadline; `expected` is the right digest, which the others computed (P14)."""
    name = network.name(offender)
    detail = f"{name} posted no iterate of step {step}"
    return Offence(offender, name, ABSENT, iterate_slot(step), NOTHING, expected, detail)


def wrong_iterate(posted: Post, step: int, expected: bytes, network: Network) -> Offence:
    """A server's iterate is not what eq. 8 (step 0) or eq. 9 gives; `expected` is the right digest."""
    offender, sent = Address(posted.sender), posted.transaction_hash
    name = network.name(offender)
    detail = f"{name}: iterate of step {step} is not what eq. {9 if step else 8} gives"
    return Offence(offender, name, "iterate", iterate_slot(step), sent, expected, detail, posted.digest)


def omitted_gradients(close: Post, omitted: Sequence[Gradient], network: Network) -> Offence:
    """The leader left gradients out of the closed list without a word (P4)."""
    offender, sent = Address(close.sender), close.transaction_hash
    name, victims = network.name(offender), ", ".join(gradient.node for gradient in omitted)
    detail = f"{name} left {victims} out of the closed list without a reason"
    return Offence(offender, name, "close", Slot.CLOSE, sent, omitted[0].transaction_hash, detail, close.digest)


def refused_post(
    offender: Address, slot: Slot, sent: bytes, detail: str, network: Network, expected: bytes = b""
) -> Offence:
    """A leader's plan, closed list or model that the others do not take."""
    name = network.name(offender)
    return Offence(offender, name, kind_of(slot), slot, sent or NOTHING, expected or NOTHING, detail)


def wrong_model(offender: Address, sent: bytes, network: Network, expected: bytes = b"") -> Offence:
    """A leader's model is another than the round gives."""
    detail = f"{network.name(offender)} published a model that eqs. 11 and 12 do not give"
    return refused_post(offender, Slot.MODEL, sent, detail, network, expected)


def absent_post(offender: Address, slot: Slot, what: str, network: Network) -> Offence:
    """A leader let its time pass: it posted nothing, or (`what` is "seal") had no block sealed."""
    name = network.name(offender)
    return Offence(offender, name, ABSENT, slot, NOTHING, NOTHING, f"{name} posted no {what} in its time")


def failed_attempt(offender: Address, network: Network) -> Offence:
    """The same, as a block tells it: an attempt that it led came to no end."""
    name = network.name(offender)
    return Offence(offender, name, ABSENT, Slot.PLAN, NOTHING, NOTHING, f"{name} led an attempt that came to no end")


def equivocation(offender: Address, first: bytes, second: bytes, network: Network) -> Offence:
    """A participant signed two different posts for one slot; their transactions' hashes."""
    return signed_twice(offender, Slot.EQUIVOCATION, first, second, network)


def double_signing(first: Signed, second: Signed, network: Network) -> Offence:
    """A server signed two things that no honest one signs both of (Q1, D3.2)."""
    passes = [isinstance(each, Pass) for each in (first, second)]
    slot = Slot.DOUBLE_PASS if all(passes) else Slot.BROKEN_PASS if any(passes) else Slot.DOUBLE_ENDORSEMENT
    return signed_twice(first.signer, slot, keccak(first.said), keccak(second.said), network)


def signed_twice(offender: Address, slot: int, first: bytes, second: bytes, network: Network) -> Offence:
    """The same, as a flag tells it: by the digests of what was signed."""
    name = network.name(offender)
    return Offence(offender, name, kind_of(slot), slot, first, second, f"{name} {SIGNED_TWICE[slot]}")


def told_by_flag(flag: Flag, network: Network) -> Offence:
    """An offence of which only the flag is left: the post it is about was dropped from the block."""
    offender, kind = Address(flag.offender), kind_of(flag.slot)
    if flag.slot in SIGNED_TWICE:
        return signed_twice(offender, flag.slot, flag.transaction_hash, flag.expected, network)
    if flag.slot == Slot.MODEL:
        return wrong_model(offender, flag.transaction_hash, network, flag.expected)
    detail = f"{network.name(offender)} posted a {kind} that the others refused"
    return refused_post(offender, Slot(flag.slot), flag.transaction_hash, detail, network, flag.expected)
