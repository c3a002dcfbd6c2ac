"""The list of rounds, and one of them whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import ITSELF, TERMS, RoundFact, Snapshot
from bfl.dashboard.pages.views import words
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, figure, percent, seconds, seconds_text, size, whole
from bfl.dashboard.pages.views.offences import offence_table
from bfl.dashboard.pages.views.tables import Cell, Column, Table, device, server, several, slice_of, who

_KINDS = ("paper", "real", "measured")


def rounds_table(snapshot: Snapshot, to: Links, page: int, rows: int = 50) -> Table:
    """Newest first."""
    rounds = snapshot.rounds
    part = slice_of(len(rounds), page, rows)
    shown = [rounds[len(rounds) - 1 - index] for index in range(part.first, part.end)]
    columns = (
        Column("round", "num"), Column("accuracy", "num"), Column("loss", "num"), Column("leader"), Column("winner"),
        Column("offloaded", "num", "devices whose samples a server trained on"),
        Column("gradients", "num", "that count"), Column("refused", "num"),
        Column("latency", "num", words.TERMS["T"]), Column("measured", "num", words.LATENCIES["measured"]),
        Column("round took", "num", "wall time of all phases"), Column("offences"),
    )  # fmt: skip
    return Table("rounds", columns, tuple(_row(each, to) for each in shown), pager=part.pager(to, "/rounds"))


def _row(fact: RoundFact, to: Links) -> tuple[Cell, ...]:
    offences = Cell(f"{len(fact.offences)}", to(f"/round/{fact.round}"), tone="bad") if fact.offences else Cell("")
    return (
        _number(fact, to),
        Cell(UNKNOWN if fact.accuracy is None else f"{percent(fact.accuracy)} %"),
        Cell(figure(fact.loss)),
        server(fact.leader, to),
        device(fact.winner, to),
        Cell(whole(fact.offloaded)),
        Cell(whole(fact.training_nodes)),
        Cell(whole(len(fact.refused)) if fact.refused else ""),
        Cell(seconds_text(fact.latency.get("paper", {}).get("T"))),
        Cell(seconds_text(fact.measured.get("T")) if fact.measured else ""),
        Cell(seconds_text(sum(fact.seconds.values()) if fact.seconds else None)),
        offences,
    )


def latency_table(snapshot: Snapshot, to: Links, rows: int) -> Table:
    """The chart of the latency as a table: the newest rounds."""
    shown = snapshot.rounds[: -rows - 1 : -1]
    kinds = [kind for kind in _KINDS if any(kind in _kinds_of(each) for each in shown)]
    terms = (*TERMS, "T", "T_wall")
    columns = (
        Column("round", "num"),
        *(Column(f"{kind} {term}", "num", words.TERMS[term]) for kind in kinds for term in terms),
    )
    made = tuple(
        (
            _number(each, to),
            *(Cell(seconds(_kinds_of(each).get(kind, {}).get(term))) for kind in kinds for term in terms),
        )
        for each in shown
    )
    return Table("latency by term, seconds", columns, made if kinds else ())


def phases_table(snapshot: Snapshot, to: Links, rows: int) -> Table:
    """The chart of the phases as a table: the newest rounds."""
    shown = snapshot.rounds[: -rows - 1 : -1]
    names = list(dict.fromkeys(name for each in shown for name in each.seconds))
    columns = (Column("round", "num"), *(Column(name, "num", words.PHASES.get(name, "")) for name in names))
    made = tuple((_number(each, to), *(Cell(seconds(each.seconds.get(name))) for name in names)) for each in shown)
    return Table("wall time by phase, seconds", columns, made if names else ())


def _kinds_of(fact: RoundFact) -> Mapping[str, Mapping[str, float]]:
    return {**fact.latency, **({"measured": fact.measured} if fact.measured else {})}


def _number(fact: RoundFact, to: Links) -> Cell:
    return Cell(f"{fact.round:,}", to(f"/round/{fact.round}"))


@dataclass(frozen=True)
class RoundView:
    """A round, whole."""

    round: int
    previous: str
    next: str
    network: str
    block: str
    block_label: str
    model: str
    """Where its model can be had; empty without a chain."""
    facts: tuple[tuple[str, Cell, str], ...]
    """Name, value, and what it means."""
    latency: Table
    phases: Table
    assignment: Table
    refused: Table
    offences: Table


def find_round(rounds: Sequence[RoundFact], number: int) -> RoundFact:
    """The fact; `NotFoundError` for a round that is not there."""
    if not 1 <= number <= len(rounds):
        told = f"expected 1 to {len(rounds)}" if rounds else "no round is finished yet"
        raise NotFoundError(f"found round {number}, {told}")
    return rounds[number - 1]


def barred_in(rounds: Sequence[RoundFact], round_: int) -> tuple[int, ...]:
    """Servers that may not post IN a round: a fact says who may not in the next one."""
    return rounds[round_ - 2].excluded if 2 <= round_ <= len(rounds) + 1 else ()


def round_view(snapshot: Snapshot, number: int, to: Links, page: int = 1) -> RoundView:
    """One of the rounds."""
    rounds, fact = snapshot.rounds, find_round(snapshot.rounds, number)
    has_block = number + 1 < len(snapshot.blocks)
    return RoundView(
        round=number,
        previous=to(f"/round/{number - 1}") if number > 1 else "",
        next=to(f"/round/{number + 1}") if number < len(rounds) else "",
        network=to("/network", round=number),
        block=to(f"/block/{number + 1}") if has_block else "",
        block_label=f"block {number + 1:,}" if has_block else "",
        model=to(f"/api/v1/models/{number}") if has_block else "",
        facts=_facts(snapshot, fact, to),
        latency=_terms_table(fact),
        phases=_seconds_table(fact),
        assignment=assignment_table(snapshot, fact, to, page),
        refused=_refused_table(fact, to),
        offences=offence_table(fact.offences, to, "offences of this round"),
    )


def _facts(snapshot: Snapshot, fact: RoundFact, to: Links) -> tuple[tuple[str, Cell, str], ...]:
    barred = [f"server {each}" for each in barred_in(snapshot.rounds, fact.round)]
    failed = [f"server {each}" for each in fact.failed_leaders]
    block = Cell(" ".join(size(fact.block_bytes)) if fact.block_bytes else UNKNOWN)
    accuracy = UNKNOWN if fact.accuracy is None else f"{percent(fact.accuracy)} %"
    told = [
        ("leader", server(fact.leader, to), "plans, closes the list, publishes the model"),
        ("winner", device(fact.winner, to), "found the seal of the block"),
        ("accuracy", Cell(accuracy), "of the model after this round, on test data"),
        ("loss", Cell(figure(fact.loss)), "how wrong that model is"),
        ("gradients", Cell(whole(fact.training_nodes)), "that counted"),
        ("samples", Cell(whole(fact.samples)), "behind these gradients"),
        ("offloaded", Cell(f"{fact.offloaded:,} of {snapshot.about.devices:,} devices"), "a server trained for them"),
        ("steps of gossip", Cell(whole(fact.phi)), "phi: how often servers told each other their sums"),
        ("divergence", Cell(figure(fact.divergence)), "how far the servers' sums were apart before"),
        ("consensus error", Cell(figure(fact.consensus_error)), "how far apart they still are after it"),
        ("block", block, "with everything that belongs to it"),
    ]
    if barred:
        told.append(("excluded", several(barred, to), "may not post in this round"))
    if fact.filtered:
        told.append(
            ("filtered", several([f"device {n}" for n in fact.filtered], to), "the filter took its gradient out")
        )
    if fact.aside:
        away = several([f"device {n}" for n, _ in fact.aside], to)
        told.append(("set aside", away, "takes no part for some rounds: filtered too often; no offence"))
    if fact.absent:
        told.append(("absent", several(fact.absent, to), "posted nothing in time; that is no offence"))
    if failed:
        told.append(("passed over", several(failed, to), "led an attempt that the majority gave up"))
    return tuple(told)


def _terms_table(fact: RoundFact) -> Table:
    kinds = _kinds_of(fact)
    shown = [kind for kind in _KINDS if kind in kinds]
    columns = (
        Column("term"),
        *(Column(kind, "num", words.LATENCIES[kind]) for kind in shown),
        Column("meaning", "wide"),
    )
    rows = tuple(
        (
            Cell(words.TERM_NAMES[term]),
            *(Cell(seconds_text(kinds[kind].get(term))) for kind in shown),
            Cell(words.TERMS[term], tone="muted"),
        )
        for term in (*TERMS, "T", "T_wall")
        if any(term in kinds[kind] for kind in shown)
    )
    return Table("latency by term", columns, rows if shown else (), "this scheme has no latency")


def _seconds_table(fact: RoundFact) -> Table:
    columns = (Column("phase"), Column("seconds", "num"), Column("meaning", "wide"))
    rows = [
        (Cell(name), Cell(seconds(value)), Cell(words.PHASES.get(name, ""), tone="muted"))
        for name, value in fact.seconds.items()
    ]
    if rows:
        rows.append((Cell("together"), Cell(seconds(sum(fact.seconds.values()))), Cell("")))
    return Table("wall time by phase", columns, tuple(rows), "nobody timed it here")


def assignment_table(snapshot: Snapshot, fact: RoundFact, to: Links, page: int, path: str = "") -> Table:
    """Who trains for whom."""
    homes = {each.index: each.home for each in snapshot.participants if each.role == "device"}
    found = [] if fact.assignment is None else fact.assignment.tolist()
    refused = {each.name: each for each in fact.refused}
    part = slice_of(len(found), page)
    columns = (Column("device"), Column("home"), Column("trained by"), Column("what came of it", "wide"))
    rows = []
    for index in range(part.first, part.end):
        name, target = f"device {index}", found[index]
        why = refused.get(name)
        told = Cell(f"refused: {why.reason}", title=why.detail, tone="warn") if why else Cell("")
        if fact.winner == index:
            told = Cell("sealed the block")
        by = Cell("itself", tone="muted") if target == ITSELF else server(target, to)
        rows.append((who(name, to), server(homes.get(index), to), by, told))
    pager = part.pager(to, path or f"/round/{fact.round}", **({"round": fact.round} if path else {}))
    return Table("who offloads where", columns, tuple(rows), "nobody knows: the plan is not here", pager)


def _refused_table(fact: RoundFact, to: Links) -> Table:
    columns = (Column("who"), Column("why"), Column("meaning", "wide"), Column("found", "wide"))
    rows = tuple(
        (
            who(each.name, to),
            Cell(each.reason),
            Cell(words.reason_meaning(each.reason), tone="muted"),
            Cell(each.detail),
        )
        for each in fact.refused[:200]
    )
    return Table("gradients that did not count", columns, rows, "all gradients counted")
