"""An audit in tables a person can read: the verdict, what went wrong, one round, the evidence against somebody."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bfl.auditing.findings import DERIVED, FALSE_FLAG, Audit, AuditedRound, Finding
from bfl.show.chain_tables import full_hex, pairs_table, printable, size_text, utc_time
from chain.protocol.contract import CLOSE, EQUIVOCATION, GRADIENT, MODEL, PLAN
from chain.protocol.genesis import Genesis
from edge_servers.founding.network import Network

if TYPE_CHECKING:
    from bfl.auditing.portable_proof import VerifiedProof

_WHAT = {
    "iterate": "a wrong iterate",
    "missing": "no iterate",
    "close": "the closed list",
    "plan": "the plan",
    "gradient": "its gradient",
    "model": "the model",
    "equivocation": "two posts for one slot",
}
_PLACES = {PLAN: "plan", GRADIENT: "train", CLOSE: "close", MODEL: "model", EQUIVOCATION: "gossip"}


def verdict_table(audit: Audit, genesis: Genesis, seconds: float, executed: bool) -> Table:
    """What fits, and what was looked at."""
    found, derived = audit.found, audit.founding is not None
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.by_kind.items())
    checked = "seals, links, signatures, roles, turns, digests"
    rows = {
        "verdict": ("everything fits" if derived else "what was checked fits, models could not be checked")
        + (", executed again too" if executed else ""),
        "checked": checked + (", plans, models" if derived else "") + (", state roots" if executed else ""),
        "models": _models(audit),
        "network": f"chain {genesis.chain_id}, genesis {full_hex(genesis.header.hash)}",
        "head": full_hex(found.hashes[-1]),
        "blocks": f"{found.blocks} ({max(0, len(found.models) - 1)} models after model 0)",
        "transactions": f"{found.transactions} ({kinds})",
        "reverted": str(found.reverted),
        "broken": f"{found.broken} (posts in chunks without their digest: they count as not posted)",
        "payload": size_text(found.payload_bytes),
        "time": f"{seconds:.2f} s, {found.blocks / max(seconds, 1e-9):.0f} blocks per second",
    }
    return pairs_table("audit", rows)


def _models(audit: Audit) -> str:
    if audit.founding is None:
        return f"cannot be derived again: {printable(audit.obstacle)}"
    count, offences = len(audit.rounds), len(audit.findings)
    told = f"{count} of {count} rounds give their model again, bit for bit"
    return told + (f"; offences and flags: {offences}, listed below" if offences else "; nobody misbehaved")


def findings_table(findings: Iterable[Finding], network: Network) -> Table:
    """Offences and flags of all rounds."""
    table = Table(title="offences and flags", title_justify="left")
    for column in ("round", "step", "who", "what", "verdict", "what came of it"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        cells = [str(finding.round), _place(finding), network.name(finding.offender), _WHAT[finding.kind]]
        table.add_row(*map(Text, [*cells, f"{finding.verdict}: {printable(finding.detail)}", _outcome(finding)]))
    return table


def _place(finding: Finding) -> str:
    return str(finding.step) if finding.step is not None else _PLACES.get(finding.slot, "-")


def _outcome(finding: Finding) -> str:
    said = ["repaired"] if finding.step is not None and finding.verdict == DERIVED else []
    if finding.flagged_by:
        said.append(f"flagged by {', '.join(finding.flagged_by)}")
    if finding.excluded_through is not None:
        said.append(f"excluded through round {finding.excluded_through}")
    return ", ".join(said) or "nobody flagged it"


def round_table(each: AuditedRound) -> Table:
    """One round: who did what."""
    counted = [t for t in each.trained if t.is_counted]
    rows = {
        "planned by": each.planned_by,
        "trained": _lines(f"{t.name} ({t.samples} samples, {t.iterations} iterations)" for t in counted),
        "offloaded": _lines(f"device {n} to server {m}" for n, m in enumerate(each.plan.assignment) if m >= 0),
        "closed by": each.closed_by,
        "refused": _lines(printable(f"{who}: {reason}") for who, reason in each.refused),
        "left out": _lines(t.name for t in each.trained if not t.is_counted),
        "clipped": f"{each.clipped} gradients",
        "aggregated": _lines([f"{', '.join(each.aggregated) or 'nobody'} ({each.plan.phi} steps)", *_virtual(each)]),
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
    """Its terms in seconds; the plan counts devices beside them."""
    terms = each.plan.latency_s
    return [printable(f"{term} {terms[term]:.3f} s") for term in sorted(terms) if term.startswith("T")]


def _lines(said: Iterable[str]) -> str:
    return "\n".join(said) or "-"


def evidence_table(finding: Finding, network: Network) -> Table:
    """Everything about one accusation; expected digests and distances are our own."""
    servers = len(network.servers)
    accusers = f"{', '.join(finding.flagged_by)} ({len(finding.flagged_by)} of {servers} servers)"
    rows = {
        "round": str(finding.round),
        "step": _place(finding),
        "what": printable(finding.detail),
        "verdict": finding.verdict + (" (the accusers are wrong)" if finding.verdict == FALSE_FLAG else ""),
        "transaction": full_hex(finding.transaction_hash) if any(finding.transaction_hash) else "none",
        **_digests(finding),
        "off by": _off_by(finding),
        "flagged by": accusers if finding.flagged_by else "nobody (flags name the first offence of a round)",
        "excluded": _excluded(finding),
    }
    return pairs_table(f"{network.name(finding.offender)}, {finding.offender}", rows)


def _digests(finding: Finding) -> dict[str, str]:
    if finding.kind == "close" and finding.verdict == DERIVED:
        return {
            "digest found": full_hex(finding.found),
            "gradient left out": f"transaction {full_hex(finding.expected)}",
        }
    if finding.kind == "equivocation":
        return {"first digest": full_hex(finding.found), "second digest": full_hex(finding.expected)}
    expected = full_hex(finding.expected) if any(finding.expected) else "-"
    told = expected if finding.verdict == DERIVED else f"{expected} by the accusers"
    return {"digest found": full_hex(finding.found) if finding.found else "nothing", "digest expected": told}


def _off_by(finding: Finding) -> str:
    if finding.off_by is None:
        return "-"
    largest, distance = finding.off_by
    return f"largest |difference| {largest:.6g}, norm {distance:.6g} (units of the aggregate)"


def _excluded(finding: Finding) -> str:
    if finding.excluded_through is None:
        return "no"
    return f"from the flags of round {finding.round} through round {finding.excluded_through}"


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
        "verdict": f"the model of round {proven.round.round} follows from the model before it, bit for bit",
        "checked": "files, seals, links, turns; of its round and the founding: signatures, roles, receipts, digests",
        "model": full_hex(proven.model_digest),
        "block": f"{proven.block.block_number}, {full_hex(proven.block.hash)}",
        "network": f"chain {proven.genesis.chain_id}",
        "genesis": full_hex(proven.genesis.header.hash),
        "trust": f"rests on the genesis hash: {trust}" + ("" if is_known else " (--genesis)"),
    }
    return pairs_table("proof", rows)
