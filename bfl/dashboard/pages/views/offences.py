"""Offences: the list, and how one knows of one of them."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.decoded import Evidence
from bfl.dashboard.facts import About, OffenceFact, Snapshot
from bfl.dashboard.pages.views import words
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, figure
from bfl.dashboard.pages.views.tables import Cell, Column, Table, hash_cell, several, slice_of, who


def offence_table(offences: Sequence[OffenceFact], to: Links, name: str = "offences") -> Table:
    """All of the given ones."""
    columns = (
        Column("round", "num"), Column("who"), Column("what"), Column("step", "num"), Column("detail", "wide"),
        Column("excluded through", "num"), Column("evidence"),
    )  # fmt: skip
    return Table(name, columns, tuple(_row(each, to) for each in offences), "nobody was accused")


def _row(offence: OffenceFact, to: Links) -> tuple[Cell, ...]:
    through = offence.excluded_through
    return (
        Cell(f"{offence.round:,}", to(f"/round/{offence.round}")),
        who(offence.offender, to),
        Cell(words.offence_name(offence.kind), title=words.offence_meaning(offence.kind), tone="bad"),
        Cell(UNKNOWN if offence.step is None else str(offence.step)),
        Cell(offence.detail),
        Cell("" if through is None else f"round {through:,}"),
        Cell("evidence ›", to(f"/offence/{offence.id}")),
    )


def offences_page(snapshot: Snapshot, to: Links, page: int, rows: int = 50) -> Table:
    """Oldest first, as they happened."""
    offences = snapshot.offences
    part = slice_of(len(offences), page, rows)
    table = offence_table(offences[part.first : part.end], to)
    return Table(table.name, table.columns, table.rows, table.empty, part.pager(to, "/offences"))


@dataclass(frozen=True)
class OffenceView:
    """The evidence of one offence, in plain words."""

    title: str
    who: Cell
    what: str
    meaning: str
    told: str
    round: int
    round_href: str
    source: str
    verdict: str
    facts: tuple[tuple[str, Cell, str], ...]
    """Name, value, and what it means."""
    flags: Table
    steps: tuple[tuple[str, str, str], ...]
    """What happened, one after the other: name, value, link."""
    exclusion: str
    is_audited: bool
    audit: str
    proof: str
    """A command that shows the same; whoever is named in it, a shell takes it for a name."""


def place_in_shell(about: About) -> str:
    """How a command names what is shown; a shell takes nothing in it for an order."""
    return f"--rpc {shlex.quote(about.place)}" if about.kind == "node" else shlex.quote(about.place)


def offence_view(evidence: Evidence, to: Links, place: str) -> OffenceView:
    """What was posted, what was expected, how far off, who flagged, how long excluded. `place`: as a shell wants it."""
    offence = evidence.offence
    return OffenceView(
        title=f"{offence.offender}, round {offence.round}",
        who=who(offence.offender, to),
        what=words.offence_name(offence.kind),
        meaning=words.offence_meaning(offence.kind),
        told=evidence.told,
        round=offence.round,
        round_href=to(f"/round/{offence.round}"),
        source=words.SOURCES[evidence.source],
        verdict=evidence.verdict,
        facts=_facts(evidence, to),
        flags=_flags(evidence, to),
        steps=tuple((each.name, each.value, to.told(each.link)) for each in evidence.steps),
        exclusion=_exclusion(evidence),
        is_audited=evidence.source == "audit",
        audit=to("/audit"),
        proof=f"bfl audit why {shlex.quote(offence.offender)} {place}",
    )


def _facts(evidence: Evidence, to: Links) -> tuple[tuple[str, Cell, str], ...]:
    offence, sent = evidence.offence, evidence.transaction
    told = [("what is wrong", Cell(offence.detail or words.offence_name(offence.kind)), "in the words of who found it")]
    if offence.step is not None:
        told.append(("step", Cell(str(offence.step)), "of the gossip between the servers; 0 is what it began with"))
    if evidence.posted:
        link = to(f"/tx/{sent}") if sent else ""
        told.append(("posted", hash_cell(evidence.posted, link), "fingerprint (sha256) of what was posted"))
    if evidence.expected:
        told.append(("expected", hash_cell(evidence.expected), "fingerprint of what follows from the others' posts"))
    if evidence.off_by is not None:
        told.append(("off by", Cell(figure(evidence.off_by)), "largest difference of one parameter"))
    elif evidence.posted and evidence.expected:
        unknown = Cell("not computed here yet: run the audit", to("/audit"))
        told.append(("off by", unknown, "the fingerprints differ; how far the numbers do, an audit computes"))
    if evidence.off_by_norm is not None:
        told.append(("off by, in all", Cell(figure(evidence.off_by_norm)), "length of the difference, all parameters"))
    told.append(("flagged by", several(evidence.flagged_by, to), "who computed it again and signed that it is wrong"))
    if sent:
        told.append(("transaction", hash_cell(sent, to(f"/tx/{sent}")), "the signed post itself: it cannot be denied"))
    if evidence.block is not None:
        told.append(
            ("block", Cell(f"{evidence.block:,}", to(f"/block/{evidence.block}")), "in which all this is sealed")
        )
    return tuple(told)


def _flags(evidence: Evidence, to: Links) -> Table:
    columns = (Column("who flagged"), Column("transaction", "mono"), Column("expected", "mono"))
    rows = tuple(
        (
            who(each.server, to),
            hash_cell(each.transaction, to(f"/tx/{each.transaction}") if each.transaction else ""),
            hash_cell(each.expected) if each.expected else Cell("another post, not named", tone="muted"),
        )
        for each in evidence.flags
    )
    return Table("flags", columns, rows, "no flag of it is in the block")


def _exclusion(evidence: Evidence) -> str:
    first, last = evidence.excluded_from, evidence.excluded_through
    if last is None:
        return "It was not excluded for this: that takes the flags of a majority of the servers."
    begin = f"from round {first:,} " if first is not None else ""
    return (
        f"It might not post {begin}through round {last:,}. The others compute in its place what it would have had to "
        "say, and its devices train on."
    )
