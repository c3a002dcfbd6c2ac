"""An audit in tables a person can read: the verdict, what went wrong, one round, the evidence against somebody."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bfl.auditing.findings import Audit, AuditedRound
from bfl.auditing.one_round import RoundAudit
from bfl.auditing.verdict import WHAT, deeds, gaps_in, verdict
from bfl.show.chain_tables import pairs_table
from bfl.show.measures import LATENCY_TERMS
from bfl.show.names import full_hex
from bfl.show.text import printable, size_text, utc_time
from chain.protocol.genesis import Genesis
from chain.protocol.slots import Slot
from edge_servers.founding.network import Network
from edge_servers.replay.offences import DERIVED, FALSE_FLAG, SIGNED_TWICE, Offence

if TYPE_CHECKING:
    from bfl.auditing.portable_proof import VerifiedProof

_CHECKED = "seals, links, signatures, roles, turns, digests, events"
_MOST_LINES = 20
_PLACES: dict[int, str] = {
    Slot.PLAN: "plan", Slot.GRADIENT: "train", Slot.CLOSE: "close", Slot.MODEL: "model", Slot.EQUIVOCATION: "gossip",
    Slot.DOUBLE_ENDORSEMENT: "endorse", Slot.DOUBLE_PASS: "pass", Slot.BROKEN_PASS: "pass",
}  # fmt: skip


def verdict_table(audit: Audit, genesis: Genesis, seconds: float) -> Table:
    """What fits, what was believed, and what was looked at."""
    found, gaps = audit.found, gaps_in(audit)
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.by_kind.items())
    executed = "" if audit.not_executed else ", receipts, state roots"
    rows = {
        "verdict": verdict(audit.findings, gaps),
        **_row("misbehaved", deeds(audit.findings)),
        "believed": _lines(audit.believed, "nothing that a chain can show"),
        **({"not checked": _lines(map(printable, gaps))} if gaps else {}),
        **_row("absent", _absent(audit)),
        **_row("set aside", (f"device {n} in {_rounds(rounds)}" for n, rounds in sorted(audit.aside_in.items()))),
        **_row("attempts", map(needed_attempts, _late(audit.rounds))),
        **_simulated(audit.simulated),
        "checked": _CHECKED + executed + (", plans, models" if audit.founding is not None else ""),
        "models": _models(audit),
        **_row("began with", _beginning(audit)),
        **_row("model.pt", [printable(audit.model_file)] if audit.model_file else []),
        "final": f"blocks up to {found.final} of {found.blocks - 1}; {found.signed[0]} of {found.signed[1]} servers "
        "signed the last one",
        **_network(genesis, found.hashes[-1]),
        "blocks": f"{found.blocks} ({max(0, len(found.models) - 1)} models after model 0)",
        "transactions": f"{found.transactions} ({kinds})",
        "reverted": str(found.reverted),
        "payloads": size_text(found.payload_bytes) + " beside the blocks",
        "time": f"{seconds:.2f} s, {found.blocks / max(seconds, 1e-9):.0f} blocks per second",
    }
    return pairs_table("audit", rows)


def round_verdict_table(audit: RoundAudit, genesis: Genesis, seconds: float) -> Table:
    """What fits of one round, and what was left out."""
    executed = "" if audit.not_executed else ", receipts, state root"
    rows = {
        "verdict": verdict(audit.round.findings),
        **_row("misbehaved", deeds(audit.round.findings)),
        **_row("excluded", _excluded_before(audit.round)),
        "not looked at": audit.left_out,
        "believed": _lines(audit.believed),
        **_simulated(audit.simulated),
        "checked": f"of block {audit.round.header.block_number}: {_CHECKED}{executed}, plan, model",
        **_network(genesis, audit.head.hash),
        "time": f"{seconds:.2f} s",
    }
    return pairs_table(f"audit of round {audit.round.round} alone", rows)


def _row(name: str, told: Iterable[str]) -> dict[str, str]:
    """A row that is there only where there is something to say; of many lines the first ones."""
    lines = list(told)
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]
    return {name: _lines(lines)} if lines else {}


def _excluded_before(each: AuditedRound) -> list[str]:
    """Who was out of this round for what it had done before it."""
    return [f"{name}, for what it did before: bfl audit why '{name}'" for name in each.virtual]


def _absent(audit: Audit) -> list[str]:
    """Who was away, and how often: a crash is no lie, so nobody is accused of it (D3.6)."""
    return [f"{name} was absent in {_rounds(rounds)}" for name, rounds in sorted(audit.absent_in.items())]


def _rounds(rounds: Sequence[int]) -> str:
    return f"round {rounds[0]}" if len(rounds) == 1 else f"{len(rounds)} rounds"


def _beginning(audit: Audit) -> list[str]:
    """Where model 0 came from, where that is another chain (P2)."""
    origin = None if audit.founding is None else audit.founding.origin
    return [] if origin is None else [f"{origin}; {audit.before or 'not checked here: --before CHAIN does'}"]


def _late(rounds: Iterable[AuditedRound]) -> list[AuditedRound]:
    return [each for each in rounds if each.attempt]


def needed_attempts(each: AuditedRound) -> str:
    """Which attempt a round needed, and whom it passed over."""
    names = each.passed_over
    return f"round {each.round} needed attempt {each.attempt}: {', '.join(names)} {_was(names)} passed over"


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def _network(genesis: Genesis, head: bytes) -> dict[str, str]:
    network = f"chain {genesis.chain_id}, genesis {full_hex(genesis.header.hash)}"
    return {"network": network, "head": full_hex(head)}


def _simulated(told: str) -> dict[str, str]:
    if not told:
        return {}
    return {"keys and clock": f"{told}: they follow from the settings, so anybody could have signed this"}


def _models(audit: Audit) -> str:
    if audit.founding is None:
        return f"cannot be derived again: {printable(audit.obstacle)}"
    count, offences = len(audit.rounds), len(audit.findings)
    told = f"{count} of {count} rounds give their model again, bit for bit"
    told += f"; offences and flags: {offences}, listed below" if offences else "; nobody misbehaved"
    pruned = len(audit.found.pruned)
    return told + (f"\n{pruned} rounds are pruned: digests and signatures only" if pruned else "")


def findings_table(findings: Iterable[Offence]) -> Table:
    """Offences and flags of all rounds."""
    table = Table(title="offences and flags", title_justify="left")
    for column in ("round", "step", "who", "what", "verdict", "what came of it"):
        table.add_column(column, overflow="fold")
    for offence in findings:
        cells = [str(offence.round), _place(offence), offence.name, WHAT.get(offence.kind, "an unknown slot")]
        table.add_row(*map(Text, [*cells, f"{offence.verdict}: {printable(offence.detail)}", _outcome(offence)]))
    return table


def _place(offence: Offence) -> str:
    return str(offence.step) if offence.step is not None else _PLACES.get(offence.slot, "-")


def _outcome(offence: Offence) -> str:
    said = ["repaired"] if offence.step is not None and offence.verdict == DERIVED else []
    if offence.flagged_by:
        said.append(f"flagged by {', '.join(offence.flagged_by)}")
    if offence.excluded_through is not None:
        said.append(f"excluded through round {offence.excluded_through}")
    return ", ".join(said) or "nobody flagged it"


def round_table(each: AuditedRound) -> Table:
    """One round: who did what."""
    counted = [t for t in each.trained if t.is_counted]
    rows = {
        **_row("attempt", [needed_attempts(each)] if each.attempt else []),
        "planned by": each.planned_by,
        "trained": _lines(f"{t.name} ({t.samples} samples, {t.iterations} iterations)" for t in counted),
        "offloaded": _lines(f"device {n} to server {m}" for n, m in enumerate(each.plan.assignment) if m >= 0),
        "closed by": each.closed_by,
        "refused": _lines(printable(f"{who}: {reason}") for who, reason in each.refused),
        **_row("set aside", (f"device {one.device} through round {one.through}" for one in each.aside)),
        "left out": _lines(t.name for t in each.trained if not t.is_counted),
        "clipped": f"{each.clipped} gradients",
        "aggregated": _lines([f"{', '.join(each.aggregated) or 'nobody'} ({each.plan.phi} steps)", *_virtual(each)]),
        **_row("absent", dict.fromkeys(f"{absence.name}: computed by the others" for absence in each.absences)),
        "led by": each.led_by,
        "sealed by": f"{each.sealed_by} at {utc_time(each.header.timestamp)} UTC, difficulty {each.header.difficulty}",
        "latency by the plan": _lines(_latency(each)),
    }
    rows |= {f"{name} digest": full_hex(digest) for name, digest in each.digests.items()}
    rows |= {"state digest": f"0x{printable(each.plan.state_digest)}", "policy": printable(each.plan.policy_digest)}
    rows["block"] = f"{each.header.block_number}, {full_hex(each.header.hash)}"
    return pairs_table(f"round {each.round}, derived again", rows)


def _virtual(each: AuditedRound) -> list[str]:
    return [f"{name}: excluded, computed by everybody" for name in each.virtual]


def _latency(each: AuditedRound) -> list[str]:
    """Its terms in seconds, and what they are; the plan counts devices beside them."""
    terms = each.plan.latency_s
    return [printable(f"{term} {terms[term]:.3f} s: {told}") for term, told in LATENCY_TERMS.items() if term in terms]


def _lines(said: Iterable[str], nothing: str = "-") -> str:
    return "\n".join(said) or nothing


def evidence_table(offence: Offence, network: Network) -> Table:
    """Everything about one accusation; expected digests and distances are our own."""
    servers = len(network.servers)
    accusers = f"{', '.join(offence.flagged_by)} ({len(offence.flagged_by)} of {servers} servers)"
    rows = {
        "round": str(offence.round),
        "step": _place(offence),
        "what": printable(offence.detail),
        "verdict": offence.verdict + (" (the accusers are wrong)" if offence.verdict == FALSE_FLAG else ""),
        "transaction": full_hex(offence.transaction_hash) if any(offence.transaction_hash) else "none",
        **_digests(offence),
        "off by": _off_by(offence),
        "flagged by": accusers if offence.flagged_by else "nobody (flags name the first offence of a round)",
        "excluded": _excluded(offence),
    }
    return pairs_table(f"{offence.name}, {offence.offender}", rows)


def _digests(offence: Offence) -> dict[str, str]:
    if offence.kind == "close" and offence.verdict == DERIVED:
        return {
            "digest found": full_hex(offence.found),
            "gradient left out": f"transaction {full_hex(offence.expected)}",
        }
    if offence.slot in SIGNED_TWICE:
        return {"first digest": full_hex(offence.found), "second digest": full_hex(offence.expected)}
    expected = full_hex(offence.expected) if any(offence.expected) else "-"
    told = expected if offence.verdict == DERIVED else f"{expected} by the accusers"
    return {"digest found": full_hex(offence.found) if offence.found else "nothing", "digest expected": told}


def _off_by(offence: Offence) -> str:
    if offence.off_by is None:
        return "distance unknown: nobody kept the iterate" if offence.kind == "iterate" else "-"
    largest, distance = offence.off_by
    return f"largest |difference| {largest:.6g}, norm {distance:.6g} (units of the aggregate)"


def _excluded(offence: Offence) -> str:
    if offence.excluded_through is None:
        return "no"
    return f"from the flags of round {offence.round} through round {offence.excluded_through}"


def absences_table(name: str, absences: Iterable[Offence]) -> Table:
    """What somebody did not post, which is no offence."""
    table = Table(title=f"{name} was absent: no offence", title_justify="left")
    for column in ("round", "what was not there"):
        table.add_column(column)
    told: dict[int, list[str]] = {}
    for absence in absences:
        told.setdefault(absence.round, []).append(_place(absence))
    for round_, steps in told.items():
        table.add_row(str(round_), Text(f"iterates of step {', '.join(steps)}; the others computed them"))
    return table


def refusals_table(name: str, refusals: list[tuple[int, str]]) -> Table:
    """Rounds in which somebody's gradient did not count, and why."""
    table = Table(title=f"{name}: gradients that did not count", title_justify="left")
    for column in ("round", "reason"):
        table.add_column(column)
    for round_, reason in refusals:
        table.add_row(str(round_), Text(printable(reason)))
    return table


def proven_table(proven: "VerifiedProof", is_known: bool) -> Table:
    """What a portable proof proves, and to whom."""
    trust = "the genesis hash is the one you gave" if is_known else "compare the genesis hash with one you know"
    rows = {
        "verdict": f"{verdict(proven.round.findings)}: the model of round {proven.round.round} follows from the model "
        "before it, bit for bit",
        **_simulated(proven.simulated),
        "checked": "files, seals, links, turns; of its round and the founding: signatures, roles, receipts, digests",
        "final": "a strict majority of the servers has signed its block and the one before it",
        "model": full_hex(proven.model_digest),
        "block": f"{proven.block.block_number}, {full_hex(proven.block.hash)}",
        "network": f"chain {proven.genesis.chain_id}",
        "genesis": full_hex(proven.genesis.header.hash),
        "trust": f"rests on the genesis hash: {trust}" + ("" if is_known else " (--genesis)"),
    }
    return pairs_table("proof", rows)
