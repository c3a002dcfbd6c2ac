"""What a re-derivation tells people: who did what in each round, what was wrong, and what came of every flag."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import rlp
from eth_hash.auto import keccak
from rlp.exceptions import RLPException

from chain.audit.archive import Archive
from chain.audit.inspection import Inspection
from chain.client.posts import slot_of
from chain.errors import ChainError, CodecError, NotRegistryCallError
from chain.protocol.consensus import SignedCall, read_signed_call
from chain.protocol.contract import Call
from chain.protocol.genesis import Genesis
from chain.protocol.slots import Slot, step_of
from chain.wire.codec import decode_iterate
from chain.wire.headers import Header
from chain.wire.transactions import TYPE, decode_transaction
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.aggregation import SCALE_BITS, norm
from edge_servers.planning.plan import Plan
from edge_servers.replay.audit import DerivedRound, audit_chain
from edge_servers.replay.record import Accusation, text
from edge_servers.replay.replay import Offence

DERIVED, FALSE_FLAG, WORD = "derived again", "false flag", "not on the chain"
"""What comes of an accusation: it is so; it is not so; the chain cannot tell, it is the accusers' word."""
_KINDS: dict[int, str] = {Slot.PLAN: "plan", Slot.GRADIENT: "gradient", Slot.CLOSE: "close", Slot.MODEL: "model"}


@dataclass(frozen=True)
class Finding:
    """Something that was wrong in a round, or was said to be."""

    round: int
    offender: str
    """Address of the accused."""
    kind: str
    """iterate, missing, close, plan, gradient, model, equivocation."""
    slot: int
    transaction_hash: bytes
    found: bytes
    """Digest of what was posted; empty where nothing is on the chain."""
    expected: bytes
    detail: str
    verdict: str
    flagged_by: tuple[str, ...] = ()
    excluded_through: int | None = None
    """Last round of the exclusion that followed in this block."""
    off_by: tuple[float, float] | None = None
    """Of a wrong iterate: the largest |difference| and its norm, in units of the aggregate."""

    @property
    def step(self) -> int | None:
        """The consensus step, for an iterate."""
        return step_of(self.slot)


@dataclass(frozen=True)
class Trained:
    """Somebody's gradient that may count."""

    name: str
    samples: int
    iterations: int
    is_counted: bool


@dataclass(frozen=True)
class AuditedRound:
    """A round that follows from its own posts, by names."""

    round: int
    header: Header
    plan: Plan
    planned_by: str
    closed_by: str
    led_by: str
    sealed_by: str
    trained: tuple[Trained, ...]
    refused: tuple[tuple[str, str], ...]
    """(who, reason code) as the leader closed the list."""
    clipped: int
    """Gradients that a filter has changed."""
    aggregated: tuple[str, ...]
    """Servers whose every iterate was posted and right."""
    virtual: tuple[str, ...]
    """Servers excluded before the round: everybody computes their iterates (P14)."""
    findings: tuple[Finding, ...]
    digests: Mapping[str, bytes]
    """Of plan, closed list and model."""


@dataclass
class Audit:
    """A whole chain, inspected and derived again."""

    found: Inspection = field(default_factory=Inspection)
    founding: FoundingParameters | None = None
    obstacle: str = ""
    """Why models cannot be derived again, where the founding parameters are not ours."""
    rounds: list[AuditedRound] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """Of all rounds."""
        return [finding for each in self.rounds for finding in each.findings]


def audit_rounds(archive: Archive, progress: Callable[[int, int], Any] | None = None) -> Audit:
    """Audit a chain; `InspectionError` or `AuditError` names the first place that does not fit."""
    audit = Audit()
    audit.found, auditor = audit_chain(archive, lambda derived: audit.rounds.append(audited_round(derived)), progress)
    audit.founding, audit.obstacle = auditor.founding, auditor.obstacle
    return audit


def audited_round(derived: DerivedRound) -> AuditedRound:
    """What a derived round says, without its numbers."""
    record, replayed, network = derived.record, derived.replayed, derived.founding.network
    accepted = set(record.closed_list.accepted)
    wrong = {offence.offender for offence in replayed.offences if offence.step is not None}
    silent = wrong | set(derived.virtual)
    posts = {name: record.only(slot) for slot, name in _KINDS.items() if slot != Slot.GRADIENT}
    return AuditedRound(
        round=derived.round,
        header=derived.header,
        plan=record.plan,
        planned_by=derived.who_posted(Slot.PLAN),
        closed_by=derived.who_posted(Slot.CLOSE),
        led_by=derived.who_posted(Slot.MODEL),
        sealed_by=derived.sealed_by,
        trained=tuple(
            Trained(
                network.name(sender),
                int(post.arguments["samples"]),
                int(post.arguments["iterations"]),
                post.transaction_hash in accepted,
            )
            for sender, post in record.gradient_posts().items()
        ),
        refused=replayed.refused,
        clipped=replayed.touched,
        aggregated=tuple(network.name(server) for server in network.servers if server not in silent),
        virtual=tuple(map(network.name, derived.virtual)),
        findings=findings_of(derived),
        digests={name: post.digest for name, post in posts.items() if post is not None},
    )


# --- findings


def findings_of(derived: DerivedRound) -> tuple[Finding, ...]:
    """The offences that the replay finds, then what was flagged beside them; each with its flags and what followed."""
    found = {(o.offender, o.slot): _offence(o, derived) for o in derived.replayed.offences}
    name = derived.founding.network.name
    for accusation in derived.record.accusations:
        key = (accusation.offender, accusation.slot)
        finding = found.get(key) or _judged(accusation, derived)
        found[key] = replace(finding, flagged_by=(*finding.flagged_by, name(accusation.server)))
    return tuple(_concluded(finding, derived) for finding in found.values())


def _concluded(finding: Finding, derived: DerivedRound) -> Finding:
    """With what followed; where the chain cannot tell, with how many said so."""
    said = f": the word of {len(finding.flagged_by)} of {len(derived.founding.network.servers)} servers"
    detail = finding.detail + (said if finding.verdict == WORD else "")
    return replace(finding, detail=detail, excluded_through=derived.excluded.get(finding.offender))


def _offence(offence: Offence, derived: DerivedRound) -> Finding:
    posted = derived.record.posts.get(offence.slot, {}).get(offence.offender)
    return Finding(
        derived.round, offence.offender, offence.kind, offence.slot, offence.transaction_hash,
        b"" if posted is None else posted.digest, offence.expected, offence.detail, DERIVED,
        off_by=_off_by(offence, derived),
    )  # fmt: skip


def _off_by(offence: Offence, derived: DerivedRound) -> tuple[float, float] | None:
    """How far a wrong iterate is from the right one; None where it is no array of this model."""
    step, founding = offence.step, derived.founding
    posted = None if step is None else derived.record.iterate(offence.offender, step)
    if posted is None or step is None:
        return None
    try:
        found = decode_iterate(posted.payload, founding.sizes)
    except CodecError:
        return None
    right = derived.replayed.iterates[step][founding.network.server_index(offence.offender)]
    difference = (found.astype(np.float64) - right) / 2**SCALE_BITS
    return float(np.abs(difference).max()), norm(difference)


def _judged(accusation: Accusation, derived: DerivedRound) -> Finding:
    """What the chain says about a flag where the replay finds no offence."""
    who, slot = derived.founding.network.name(accusation.offender), accusation.slot
    posted = derived.record.posts.get(slot, {}).get(accusation.offender)
    kind = "iterate" if _is_step(slot) else _KINDS.get(slot, "equivocation")
    sent, verdict = accusation.transaction_hash, FALSE_FLAG
    if slot == Slot.EQUIVOCATION:
        return _judged_equivocation(accusation, derived)
    if posted is None and not _is_step(slot):
        verdict, detail = WORD, f"no {kind} of {who} is on the chain"
    elif posted is None:
        detail = f"{who} owed no iterate of step {slot - Slot.ITERATE}"
    elif not any(sent):
        verdict, detail = WORD, f"the {kind} of {who} is right; that it came too late is not on the chain"
    elif sent not in (posted.transaction_hash, posted.digest):
        verdict, detail = WORD, f"the {kind} of {who} on the chain is right; another one is not on the chain"
    else:
        detail = f"the {kind} of {who} is what the replay gives"
    digest = b"" if posted is None else posted.digest
    return Finding(
        derived.round, accusation.offender, kind, slot, sent, digest, accusation.expected, detail, verdict
    )  # fmt: skip


def _judged_equivocation(accusation: Accusation, derived: DerivedRound) -> Finding:
    """Two signed posts for one slot speak for themselves: both signatures are recovered here."""
    who = derived.founding.network.name(accusation.offender)
    finding = Finding(
        derived.round, accusation.offender, "equivocation", accusation.slot, accusation.transaction_hash,
        accusation.transaction_hash, accusation.expected, "", DERIVED,
    )  # fmt: skip
    try:
        call = _evidence(accusation, derived)
        first, second = (_signed(call, name, derived.genesis) for name in ("first", "second"))
    except (ChainError, RLPException, ValueError, TypeError) as error:
        return replace(finding, verdict=FALSE_FLAG, detail=f"the evidence against {who} cannot be read: {error}")
    slots = {(slot_of(post), int(post.call["round"])) for post in (first, second) if post.call is not None}
    digests = [bytes(post.call["digest"]) for post in (first, second) if post.call is not None]
    senders = {text(post.sender) for post in (first, second)}
    if senders != {accusation.offender} or len(slots) != 1 or len(set(digests)) != 2:
        return replace(finding, verdict=FALSE_FLAG, detail=f"the evidence is not two posts of {who} for one slot")
    slot, round_ = slots.pop()
    place = f"step {slot - Slot.ITERATE}" if slot is not None and _is_step(slot) else _KINDS.get(slot or 0, "?")
    detail = f"{who} signed two different posts for one slot ({place} of round {round_})"
    return replace(
        finding, transaction_hash=first.transaction.hash, found=digests[0], expected=digests[1], detail=detail
    )


def _evidence(accusation: Accusation, derived: DerivedRound) -> Call:
    """The call that carries both signatures; a reverted one beside it may carry others."""
    expected = accusation.transaction_hash, accusation.expected
    for post in derived.posts:
        call = post.call
        if call is None or call.name != "flag_equivocation" or text(post.sender) != accusation.server:
            continue
        if (keccak(call["first"]), keccak(call["second"])) == expected:
            return call
    raise NotRegistryCallError(f"found no flag with the evidence 0x{expected[0].hex()}")


def _signed(call: Call, name: str, genesis: Genesis) -> SignedCall:
    """One of the two posts in a flag: its unsigned transaction and its signature, put together again."""
    unsigned, signature = bytes(call[name]), bytes(call[f"{name}_signature"])
    if len(signature) != 65:
        raise NotRegistryCallError(f"found {len(signature)} bytes of signature, expected 65")
    numbers = [part.lstrip(b"\0") for part in (signature[64:], signature[:32], signature[32:64])]
    raw = TYPE + bytes(rlp.encode([*rlp.decode(unsigned[1:]), *numbers], infer_serializer=False))
    transaction = decode_transaction(raw)
    if keccak(transaction.unsigned) != keccak(unsigned):
        raise NotRegistryCallError("the evidence is no transaction in canonical form")
    return read_signed_call(transaction, genesis)


def _is_step(slot: int) -> bool:
    return step_of(slot) is not None
