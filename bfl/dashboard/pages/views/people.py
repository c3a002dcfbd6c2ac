"""Participants, one of them, and the machines of a network."""

from collections import Counter
from dataclasses import dataclass

from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import ITSELF, MachineFact, Participant, RoundFact, Snapshot
from bfl.dashboard.index.figures import Credit, credits_of
from bfl.dashboard.pages.views import words
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, clock, count, moment, percent, whole
from bfl.dashboard.pages.views.offences import offence_table
from bfl.dashboard.pages.views.rounds import barred_in
from bfl.dashboard.pages.views.tables import Cell, Column, Table, bar, hash_cell, server, slice_of, who

_DEVICE_ROUNDS = (Column("round", "num"), Column("trained by"), Column("sealed"), Column("refused", "wide"))
_SERVER_ROUNDS = (
    Column("round", "num"), Column("leads"), Column("trains for", "num"), Column("posts"), Column("offences", "wide"),
)  # fmt: skip


def participants_page(snapshot: Snapshot, to: Links, page: int, role: str, rows: int = 50) -> Table:
    """Servers or devices, with what they have done."""
    shown = [each for each in snapshot.participants if each.role == role]
    credits, part = credits_of(snapshot), slice_of(len(shown), page, rows)
    some = shown[part.first : part.end]
    pager = part.pager(to, "/participants", role=role)
    most = max((_credit(credits[each.name], role) for each in shown), default=0)
    columns = _device_columns() if role == "device" else _server_columns()
    if role == "device":
        rows_made = tuple(_device_row(each, credits[each.name], most, to) for each in some)
    else:
        failed = Counter(server for fact in snapshot.rounds for server in fact.failed_leaders)
        rows_made = tuple(_server_row(each, credits[each.name], failed[each.index], most, to) for each in some)
    return Table(f"{role}s", columns, rows_made, pager=pager)


def short_participants(snapshot: Snapshot, to: Links, rows: int = 12) -> Table:
    """For the overview: devices, with the blocks that each has sealed."""
    devices = [each for each in snapshot.participants if each.role == "device"]
    credits = credits_of(snapshot)
    most = max((credits[each.name].sealed for each in devices), default=0)
    columns = (
        Column("who"), Column("home"), Column("samples", "num"), Column("offloaded", "num"), Column("credit", "bar"),
    )  # fmt: skip
    some = tuple(_short_row(each, credits[each.name], most, to) for each in devices[:rows])
    return Table("participants", columns, some, pager=slice_of(len(devices), 1, rows).pager(to, "/participants"))


def _short_row(each: Participant, credit: Credit, most: int, to: Links) -> tuple[Cell, ...]:
    samples = whole(each.samples) if each.samples else UNKNOWN
    return (who(each.name, to), server(each.home, to), Cell(samples), _share(credit), bar(credit.sealed, most))


def _credit(credit: Credit, role: str) -> int:
    return credit.sealed if role == "device" else credit.led


def _share(credit: Credit) -> Cell:
    share = credit.offloaded_share
    return Cell(UNKNOWN if share is None else f"{percent(share, 0)} %")


def _device_columns() -> tuple[Column, ...]:
    return (
        Column("who"), Column("home"), Column("samples", "num"),
        Column("offloaded", "num", "share of the rounds in which a server trained for it"),
        Column("refused", "num", "gradients that did not count"), Column("consent", "", "who may train on its samples"),
        Column("address", "mono"), Column("credit", "bar", "blocks that it sealed"),
    )  # fmt: skip


def _device_row(each: Participant, credit: Credit, most: int, to: Links) -> tuple[Cell, ...]:
    return (
        who(each.name, to),
        server(each.home, to),
        Cell(whole(each.samples) if each.samples else UNKNOWN),
        _share(credit),
        Cell(whole(credit.refused) if credit.refused else "", tone="warn"),
        Cell(each.consent),
        hash_cell(each.address),
        bar(credit.sealed, most),
    )


def _server_columns() -> tuple[Column, ...]:
    return (
        Column("who"), Column("absent", "num", "rounds without a post; no offence"),
        Column("passed over", "num", "attempts that it led and that a majority gave up"), Column("offences", "num"),
        Column("excluded"), Column("address", "mono"),
        Column("led", "bar", "rounds that it led"),
    )  # fmt: skip


def _server_row(each: Participant, credit: Credit, failed: int, most: int, to: Links) -> tuple[Cell, ...]:
    through = credit.excluded_through
    return (
        who(each.name, to),
        Cell(whole(credit.absent) if credit.absent else ""),
        Cell(whole(failed) if failed else ""),
        Cell(whole(credit.offences) if credit.offences else "", tone="bad"),
        Cell("" if through is None else f"through round {through:,}", tone="warn"),
        hash_cell(each.address),
        bar(credit.led, most),
    )


# --- one of them


@dataclass(frozen=True)
class PersonView:
    """A server or a device."""

    name: str
    role: str
    index: int
    facts: tuple[tuple[str, Cell, str], ...]
    rounds: Table
    offences: Table
    previous: str
    next: str


def person_view(snapshot: Snapshot, role: str, index: int, to: Links, page: int) -> PersonView:
    """With its rounds, newest first."""
    total = snapshot.about.devices if role == "device" else snapshot.about.edges
    name = f"{role} {index}"
    found = next((each for each in snapshot.participants if each.name == name), None)
    if found is None:
        told = f"expected {role} 0 to {total - 1}" if total else f"no {role} is known yet"
        raise NotFoundError(f"found {name}, {told}")
    credit = credits_of(snapshot)[name]
    offences = [each for each in snapshot.offences if each.offender == name]
    return PersonView(
        name=name,
        role=role,
        index=index,
        facts=_device_facts(found, credit, to) if role == "device" else _server_facts(snapshot, found, credit),
        rounds=_rounds_of(snapshot, found, to, page),
        offences=offence_table(offences[:200], to, f"offences of {name}"),
        previous=to(f"/{role}/{index - 1}") if index else "",
        next=to(f"/{role}/{index + 1}") if index + 1 < total else "",
    )


def _device_facts(found: Participant, credit: Credit, to: Links) -> tuple[tuple[str, Cell, str], ...]:
    offloaded = UNKNOWN
    if credit.offloaded is not None and credit.trained is not None:
        offloaded = f"{credit.offloaded:,} of {count(credit.offloaded + credit.trained, 'round')}"
    return (
        ("home", server(found.home, to), "the server that it is registered with"),
        ("samples", Cell(whole(found.samples) if found.samples else UNKNOWN), "that it has registered"),
        ("consent", Cell(found.consent), "which servers may train on its samples; binding (P25)"),
        ("offloaded", Cell(offloaded), "a server trained for it; in the others it trained itself"),
        ("blocks sealed", Cell(whole(credit.sealed)), "its credit: it found the seal"),
        ("gradients refused", Cell(whole(credit.refused)), "that did not count, for a reason that its round names"),
        *_reputation_facts(credit),
        ("address", Cell(found.address or UNKNOWN, mark="hash"), "its key signs everything that it posts"),
    )


def _reputation_facts(credit: Credit) -> tuple[tuple[str, Cell, str], ...]:
    """Nothing for whom no filter has ever taken out."""
    if not credit.filtered and not credit.aside:
        return ()
    through = credit.aside_through
    now = Cell("no") if through is None else Cell(f"through round {through:,}", tone="warn")
    return (
        ("filtered", Cell(count(credit.filtered, "round")), "in which the filter took its gradient out"),
        ("set aside", Cell(count(credit.aside, "round")), "in which it took no part for that; no offence"),
        ("set aside now", now, "comes back in the round after"),
    )


def _server_facts(snapshot: Snapshot, found: Participant, credit: Credit) -> tuple[tuple[str, Cell, str], ...]:
    homes = sum(each.role == "device" and each.home == found.index for each in snapshot.participants)
    through = credit.excluded_through
    excluded = Cell("no") if through is None else Cell(f"through round {through:,}", tone="warn")
    return (
        ("home of", Cell(count(homes, "device")), "devices that are registered with it"),
        ("rounds led", Cell(whole(credit.led)), "in which it planned, closed and published"),
        (
            "offences",
            Cell(whole(credit.offences), tone="bad" if credit.offences else ""),
            "with their evidence below",
        ),
        ("excluded now", excluded, "may not post, because a majority flagged it"),
        ("absent", Cell(count(credit.absent, "round")), "posted nothing in time; a crash is no lie"),
        ("address", Cell(found.address or UNKNOWN, mark="hash"), "its key signs everything that it posts"),
    )


def _rounds_of(snapshot: Snapshot, found: Participant, to: Links, page: int) -> Table:
    rounds = snapshot.rounds
    part = slice_of(len(rounds), page)
    shown = [rounds[len(rounds) - 1 - index] for index in range(part.first, part.end)]
    pager = part.pager(to, f"/{found.role}/{found.index}")
    if found.role == "device":
        return Table("rounds", _DEVICE_ROUNDS, tuple(_device_round(each, found, to) for each in shown), pager=pager)
    made = tuple(_server_round(snapshot, each, found, to) for each in shown)
    return Table("rounds", _SERVER_ROUNDS, made, pager=pager)


def _device_round(fact: RoundFact, found: Participant, to: Links) -> tuple[Cell, ...]:
    target = None
    if fact.assignment is not None and found.index < len(fact.assignment):
        target = int(fact.assignment[found.index])
    by = Cell("itself", tone="muted") if target == ITSELF else server(target, to)
    if found.index in (n for n, _ in fact.aside):
        by = Cell("set aside", tone="warn")
    why = next((each for each in fact.refused if each.name == found.name), None)
    told = "" if why is None else f"{why.reason}: {words.reason_meaning(why.reason)} {why.detail}".strip(" :")
    sealed = Cell("the block") if fact.winner == found.index else Cell("")
    return Cell(f"{fact.round:,}", to(f"/round/{fact.round}")), by, sealed, Cell(told, tone="warn")


def _server_round(snapshot: Snapshot, fact: RoundFact, found: Participant, to: Links) -> tuple[Cell, ...]:
    trains = UNKNOWN if fact.assignment is None else whole(int((fact.assignment == found.index).sum()))
    posts = Cell("")
    if found.index in barred_in(snapshot.rounds, fact.round):
        posts = Cell("excluded", tone="warn")
    elif found.name in fact.absent:
        posts = Cell("absent", tone="warn")
    own = [each for each in fact.offences if each.offender == found.name]
    told = Cell(", ".join(words.offence_name(each.kind) for each in own), tone="bad")
    if own:
        told = Cell("", rest=tuple(_offence_link(each.id, each.kind, to) for each in own[:8]))
    leads = Cell("leads") if fact.leader == found.index else Cell("")
    return Cell(f"{fact.round:,}", to(f"/round/{fact.round}")), leads, Cell(trains), posts, told


def _offence_link(id_: str, kind: str, to: Links) -> Cell:
    return Cell(words.offence_name(kind), to(f"/offence/{id_}"), tone="bad")


# --- machines


def machine_table(snapshot: Snapshot) -> Table:
    """How the machines of a network are, as this one sees them."""
    columns = (
        Column("machine"), Column("health"), Column("says", "wide"), Column("block", "num"), Column("behind", "num"),
        Column("peers", "num"), Column("pool", "num", "posts that wait for a block"),
        Column("clock", "num", "how far its clock is from this one's"), Column("version"),
        Column("last seen (UTC)", "num"),
    )  # fmt: skip
    head = max((each.head for each in snapshot.machines if each.head is not None), default=None)
    return Table("machines", columns, tuple(_machine(each, head) for each in snapshot.machines), "none is known")


def _machine(each: MachineFact, head: int | None) -> tuple[Cell, ...]:
    behind = "" if each.head is None or head is None else whole(head - each.head) if head > each.head else "0"
    seen = int(each.last_seen_s) if each.last_seen_s is not None else None
    return (
        Cell(each.name),
        Cell("well" if each.is_well else "look at it", tone="good" if each.is_well else "warn"),
        Cell(each.word),
        Cell(whole(each.head)),
        Cell(behind),
        Cell(whole(each.peers)),
        Cell(whole(each.pool)),
        Cell(UNKNOWN if each.skew_s is None else f"{each.skew_s:+.1f} s"),
        Cell(each.version or UNKNOWN),
        Cell("never" if seen is None else clock(seen), title="" if seen is None else moment(seen)),
    )
