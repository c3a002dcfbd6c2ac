"""What a re-derivation tells people: who did what in each round, what was wrong, and what came of every flag."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bfl.auditing.double_signing import judged_equivocation, judged_signatures, signed_twice
from bfl.auditing.executing import why_not_executed
from bfl.auditing.verdict import believed_in
from chain.audit.archive import Archive
from chain.audit.found import Inspection
from chain.audit.inspection import InspectedBlock, inspected
from chain.client.posts import Flag
from chain.errors import CodecError
from chain.protocol.genesis import Genesis
from chain.protocol.slots import Slot, kind_of, step_of
from chain.wire.address import Address
from chain.wire.codec import decode_iterate
from chain.wire.headers import Header
from chain.wire.plan import Plan
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.founding.simulated import what_is_simulated
from edge_servers.learning.aggregation import SCALE_BITS, norm
from edge_servers.learning.reputation import Absence, absences_in, reputation_terms
from edge_servers.learning.verdicts import Jury
from edge_servers.replay.audit import Auditor, DerivedRound, believing
from edge_servers.replay.offences import DERIVED, FALSE_FLAG, SIGNED_TWICE, WORD, Offence

_LEADS = (Slot.PLAN, Slot.CLOSE, Slot.MODEL)


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
    findings: tuple[Offence, ...]
    absences: tuple[Offence, ...]
    """What was not there: no offence, whoever was away (D3.6)."""
    attempt: int
    """In which its block was built."""
    passed_over: tuple[str, ...]
    """Leaders of the attempts before it."""
    digests: Mapping[str, bytes]
    """Of plan, closed list and model."""
    filtered: tuple[int, ...]
    """Devices whose gradients the replay takes out of the list (R1)."""
    aside: tuple[Absence, ...]
    """Devices that took no part: no offence (R5)."""


@dataclass
class Audit:
    """A whole chain, inspected and derived again."""

    found: Inspection = field(default_factory=Inspection)
    founding: FoundingParameters | None = None
    obstacle: str = ""
    """Why models cannot be derived again: the founding parameters are not ours, or name code of others."""
    rounds: list[AuditedRound] = field(default_factory=list)
    beside: list[Offence] = field(default_factory=list)
    """Servers that signed what no honest one signs both of, whether somebody has flagged it or not (Q1, D3.2)."""
    not_executed: str = ""
    """Why receipts were believed; empty where every block was executed here (Q3)."""
    simulated: str = ""
    """That keys or clock are simulated, where the founding shows it (P3)."""
    is_judged: bool = False
    """Whether verdicts by the root set were judged again."""
    before: str = ""
    """What came of a look at the chain that this one began with; empty where nobody named it."""
    model_file: str = ""
    """Of which round the model file beside the chain is; empty where there is none."""
    believed: list[str] = field(default_factory=list)
    """What was taken as somebody says it is, line by line: shown under the verdict."""

    @property
    def findings(self) -> list[Offence]:
        """Of all rounds, and of what lies beside the chain."""
        told = [finding for each in self.rounds for finding in each.findings]
        known = {(finding.offender, finding.signed_round) for finding in told if finding.verdict == DERIVED}
        return told + [finding for finding in self.beside if (finding.offender, finding.round) not in known]

    @property
    def aside_in(self) -> dict[int, list[int]]:
        """In which rounds a device was set aside, by number."""
        found: dict[int, list[int]] = {}
        for each in self.rounds:
            for absence in each.aside:
                found.setdefault(absence.device, []).append(each.round)
        return found

    @property
    def absent_in(self) -> dict[str, list[int]]:
        """In which rounds somebody was absent, by name."""
        found: dict[str, list[int]] = {}
        for each in self.rounds:
            for name in dict.fromkeys(absence.name for absence in each.absences):
                found.setdefault(name, []).append(each.round)
        return found


def audit_rounds(
    archive: Archive,
    progress: Callable[[int, int], Any] | None = None,
    execute: bool | None = None,
    judge: bool = False,
) -> Audit:
    """Audit a chain; `InspectionError` or `AuditError` names the first place that does not fit.

    `progress` hears how many blocks of all fit. Blocks are executed where py-evm is installed, unless
    `execute` says no. `judge`: judge by the root set again.
    """
    auditor = Auditor(archive.genesis, _root_set if judge else believing)
    audit = Audit(not_executed=why_not_executed(execute), is_judged=judge)
    blocks = _watched(inspected(archive), audit, archive, progress)
    for derived in auditor.derived(blocks if audit.not_executed else _executed(blocks, archive.genesis)):
        audit.rounds.append(audited_round(derived))
    audit.founding, audit.obstacle = auditor.founding, auditor.obstacle
    if audit.founding is not None:
        audit.simulated = what_is_simulated(audit.founding, archive.genesis)
        audit.beside = signed_twice(archive, audit.found.members, audit.founding.network)
    audit.believed = believed_in(audit)
    return audit


def _root_set(founding: FoundingParameters) -> Jury | None:
    from edge_servers.replay.judging import founded_jury  # torch, and a data set

    return founded_jury(founding)


def _executed(blocks: Iterable[InspectedBlock], genesis: Genesis) -> Iterator[InspectedBlock]:
    """The blocks as they pass by, each executed once in a state of our own (Q3)."""
    from chain.audit.execution import Executor  # py-evm takes a second, and is an extra

    with closing(Executor(genesis)) as executor:
        for block in blocks:
            executor.execute(block)
            yield block


def _watched(
    blocks: Iterable[InspectedBlock], audit: Audit, archive: Archive, progress: Callable[[int, int], Any] | None
) -> Iterator[InspectedBlock]:
    """The blocks as they pass by, counted."""
    total = archive.head().block_number + 1 if progress is not None else 0
    for block in blocks:
        audit.found = block.found
        yield block
        if progress is not None:
            progress(block.number + 1, total)


def audited_round(derived: DerivedRound) -> AuditedRound:
    """What a derived round says, without its numbers."""
    record, replayed, network = derived.record, derived.replayed, derived.founding.network
    accepted = set(record.closed_list.accepted)
    wrong = {offence.offender for offence in replayed.offences if offence.step is not None}
    silent = wrong | set(derived.virtual)
    posts = {kind_of(slot): record.only(slot) for slot in _LEADS}
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
        absences=tuple(replace(each, round=derived.round) for each in derived.replayed.offences if each.is_absence),
        attempt=derived.attempt,
        passed_over=tuple(map(network.name, derived.passed_over)),
        digests={name: post.digest for name, post in posts.items() if post is not None},
        filtered=replayed.filtered,
        aside=absences_in(record.plan, reputation_terms(derived.founding.settings.rounds)),
    )


# --- findings


def findings_of(derived: DerivedRound) -> tuple[Offence, ...]:
    """The offences that the replay finds, then what was flagged beside them; each with its flags and what followed."""
    offences = [offence for offence in derived.replayed.offences if not offence.is_absence]
    found = {(o.offender, o.slot): replace(o, off_by=_off_by(o, derived)) for o in offences}
    name = derived.founding.network.name
    for flag in derived.record.flags:
        key = (flag.offender, flag.slot)
        offence = found.get(key) or _judged(flag, derived)
        found[key] = replace(offence, flagged_by=(*offence.flagged_by, name(flag.server)))
    return tuple(_concluded(offence, derived) for offence in found.values())


def _concluded(offence: Offence, derived: DerivedRound) -> Offence:
    """With what followed; where the chain cannot tell, with how many said so."""
    said = f": the word of {len(offence.flagged_by)} of {len(derived.founding.network.servers)} servers"
    return replace(
        offence,
        round=derived.round,
        detail=offence.detail + (said if offence.verdict == WORD else ""),
        excluded_through=derived.excluded.get(offence.offender),
    )


def _off_by(offence: Offence, derived: DerivedRound) -> tuple[float, float] | None:
    """How far a wrong iterate is from the right one; None where it is no array of this model, or was not kept (B3)."""
    step, founding = offence.step, derived.founding
    posted = None if step is None else derived.record.iterate(offence.offender, step)
    payload = None if posted is None else posted.payload
    if payload is None or step is None:
        return None
    try:
        found = decode_iterate(payload, founding.sizes)
    except CodecError:
        return None
    right = derived.replayed.iterates.values(step)[founding.network.server_index(offence.offender)]
    difference = (found.astype(np.float64) - right) / 2**SCALE_BITS
    return float(np.abs(difference).max()), norm(difference)


def _judged(flag: Flag, derived: DerivedRound) -> Offence:
    """What the chain says about a flag where the replay finds no offence."""
    slot, sent = flag.slot, flag.transaction_hash
    if slot == Slot.EQUIVOCATION:
        return judged_equivocation(flag, derived)
    if slot in SIGNED_TWICE:
        return judged_signatures(flag, derived)
    offender = Address(flag.offender)
    who, posted = derived.founding.network.name(offender), derived.record.posts.get(slot, {}).get(offender)
    kind, step, verdict = kind_of(slot), step_of(slot), FALSE_FLAG
    is_absent = any((each.offender, each.slot) == (offender, slot) for each in derived.replayed.offences)
    if posted is None and (step is None or is_absent):
        verdict, detail = WORD, f"no {kind} of {who} is on the chain"
    elif posted is None:
        detail = f"{who} owed no iterate of step {step}"
    elif sent not in (posted.transaction_hash, posted.digest):
        verdict, detail = WORD, f"the {kind} of {who} on the chain is right; another one is not on the chain"
    else:
        detail = f"the {kind} of {who} is what the replay gives"
    digest = b"" if posted is None else posted.digest
    return Offence(offender, who, kind, slot, sent, flag.expected, detail, digest, verdict=verdict)
