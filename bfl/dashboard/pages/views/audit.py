"""The audit: how it stands, its verdict in plain words, and what it does not show."""

from dataclasses import dataclass

from bfl.dashboard.decoded import AuditState, FindingDetail
from bfl.dashboard.facts import Snapshot
from bfl.dashboard.pages.views import words
from bfl.dashboard.pages.views.chain import said_cell
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import figure, seconds_text
from bfl.dashboard.pages.views.offences import place_in_shell
from bfl.dashboard.pages.views.tables import Cell, Column, Table, hash_cell, several, who

_MEANING = {
    "fits": "Whoever was not there can compute every model from what was posted, and gets exactly the published ones.",
    "misfit": "Something here is not what an honest network would have written. Do not trust what comes after it.",
    "gaps": "What could be checked fits. Something is not here, so nobody can say that all of it does.",
}


@dataclass(frozen=True)
class AuditView:
    """The page of the audit."""

    status: str
    headline: str
    tone: str
    told: str
    meaning: str
    done: int
    of: int
    can_start: bool
    is_running: bool
    start: str
    """Where the button leads."""
    rows: tuple[tuple[str, Cell], ...]
    findings: Table
    not_shown: tuple[str, ...]
    believed: tuple[str, ...]
    took: str
    head: str
    is_stale: bool
    """Whether blocks were added since."""
    commands: tuple[tuple[str, str], ...]
    simulated: str
    checks: tuple[str, ...]


def audit_view(state: AuditState, snapshot: Snapshot, to: Links) -> AuditView:
    """Of the source that is shown."""
    head = snapshot.blocks[-1].hash if snapshot.blocks else ""
    return AuditView(
        status=state.status,
        headline=_headline(state),
        tone=_tone(state),
        told=state.told,
        meaning=_meaning(state),
        done=state.done,
        of=state.of,
        can_start=state.status in ("not started", "finished", "failed"),
        is_running=state.status == "running",
        start=to("/audit"),
        rows=tuple((each.name, said_cell(each, to)) for each in state.rows),
        findings=_findings(state.findings, snapshot, to),
        not_shown=state.not_shown,
        believed=state.believed,
        took=seconds_text(state.seconds) if state.seconds is not None else "",
        head=state.head,
        is_stale=bool(state.head and head and state.head != head),
        commands=_commands(snapshot),
        simulated=words.SIMULATED if snapshot.about.is_simulated else "",
        checks=words.CHECKS,
    )


def _headline(state: AuditState) -> str:
    told = {
        "impossible": "There is nothing to audit",
        "not started": "Not checked yet",
        "running": "Checking",
        "failed": "The audit could not be made",
    }
    return told.get(state.status) or state.verdict or "finished"


def _tone(state: AuditState) -> str:
    if state.status != "finished":
        return "warn" if state.status == "failed" else "calm"
    return "good" if state.exit_code == 0 else "bad" if state.exit_code == 1 else "warn"


def _meaning(state: AuditState) -> str:
    if state.status != "finished":
        return ""
    return _MEANING["fits" if state.exit_code == 0 else "misfit" if state.exit_code == 1 else "gaps"]


def _findings(findings: tuple[FindingDetail, ...], snapshot: Snapshot, to: Links) -> Table:
    columns = (
        Column("round", "num"), Column("who"), Column("detail", "wide"), Column("verdict"), Column("off by", "num"),
        Column("flagged by"), Column("expected", "mono"),
    )  # fmt: skip
    known = {each.id for each in snapshot.offences}
    rows = tuple(
        (
            Cell(f"{each.round:,}", to(f"/round/{each.round}")),
            who(each.offender, to),
            Cell(each.detail, to(f"/offence/{each.id}") if each.id in known else ""),
            Cell(each.verdict, tone="bad" if each.verdict == "derived again" else "warn"),
            Cell(figure(each.off_by) if each.off_by is not None else ""),
            several(each.flagged_by, to),
            hash_cell(each.expected) if each.expected else Cell(""),
        )
        for each in findings[:200]
    )
    return Table("findings", columns, rows, "nobody misbehaved")


def _commands(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    place = place_in_shell(snapshot.about)
    return (
        ("the same, in a terminal", f"bfl audit check {place}"),
        ("with its words explained", f"bfl audit check {place} --explain"),
        ("the evidence against somebody", f'bfl audit why "server 1" {place}'),
        ("a model as a file", f"bfl audit model {place} --round {max(1, len(snapshot.rounds))} --out model.pt"),
    )
