"""What stands around every page: the run, how it stands, tabs, the search box."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.figures import key_figures
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import count
from bfl.dashboard.pages.views.words import STATUS

_TABS = (
    ("overview", "Overview", "/"),
    ("rounds", "Rounds", "/rounds"),
    ("network", "Network", "/network"),
    ("blocks", "Blocks", "/blocks"),
    ("participants", "Participants", "/participants"),
    ("offences", "Offences", "/offences"),
    ("audit", "Audit", "/audit"),
    ("compare", "Compare", "/compare"),
)
_CSV = ("rounds", "blocks", "participants", "offences", "assignments")


@dataclass(frozen=True)
class Tab:
    """A page in the bar. `count`: how many there are of what it shows; None where that is not said."""

    name: str
    label: str
    href: str
    is_here: bool
    count: int | None = None


@dataclass(frozen=True)
class Choice:
    """Another run that is shown by this server."""

    name: str
    is_here: bool


@dataclass(frozen=True)
class Frame:
    """Around a page."""

    title: str
    name: str
    place: str
    kind: str
    status: str
    tone: str
    status_meaning: str
    round: int
    planned: int | None
    progress: str
    told: str
    """What is wrong with the source; empty where all is well."""
    reorganised: str
    cursor: int
    shape: str
    """Another one where there is more to draw than before: when it is known who takes part, after the first round."""
    tabs: tuple[Tab, ...]
    tables: tuple[tuple[str, str], ...]
    """Name and address of each CSV."""
    runs: tuple[Choice, ...]
    run: str
    """For ?run=; empty where there is one."""
    query: str = ""
    """In the search box."""


def frame(snapshot: Snapshot, names: Sequence[str], to: Links, here: str, title: str, query: str = "") -> Frame:
    """The frame of the page `here`, one of the tabs' names or another."""
    about, rounds = snapshot.about, len(snapshot.rounds)
    status, tone, meaning = STATUS[snapshot.status]
    planned = about.rounds_planned
    offences = key_figures(snapshot).offences
    return Frame(
        title=title,
        name=about.name,
        place=about.place,
        kind=about.kind,
        status=status,
        tone=tone,
        status_meaning=meaning,
        round=rounds,
        planned=planned,
        progress=f"{rounds:,} / {planned:,}" if planned else count(rounds, "round"),
        told=snapshot.told,
        reorganised=_reorganised(snapshot.reorganised),
        cursor=snapshot.cursor,
        shape=_shape(snapshot),
        tabs=tuple(_tab(each, here, offences, to) for each in _TABS),
        tables=tuple((name, to(f"/{name}.csv")) for name in _CSV),
        runs=tuple(Choice(each, each == about.name) for each in names) if len(names) > 1 else (),
        run=to.run,
        query=query,
    )


def _tab(tab: tuple[str, str, str], here: str, offences: int, to: Links) -> Tab:
    name, label, path = tab
    return Tab(name, label, to(path), name == here, offences if name == "offences" else None)


def _shape(snapshot: Snapshot) -> str:
    drawn = (snapshot.participants, snapshot.about.graph, snapshot.machines)
    return "-".join(str(len(each)) for each in (*drawn, snapshot.rounds[:1], snapshot.blocks[:1]))


def _reorganised(times: int) -> str:
    if not times:
        return ""
    return f"Blocks that were shown here were replaced by others {count(times, 'time')}: they were not final yet."
