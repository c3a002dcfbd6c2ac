"""The first page: six key figures, and the legends of its charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bfl.dashboard.charts.lines import Chart
from bfl.dashboard.facts import TERMS, RoundFact, Snapshot
from bfl.dashboard.index.figures import KeyFigures, key_figures
from bfl.dashboard.pages.views import words
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.numbers import UNKNOWN, count, figure, percent, seconds, seconds_text, size
from bfl.dashboard.report.curves import events_of, latency_charts, learning_charts, time_chart

TERM_COLOURS = {"mine": 0, "consensus": 3, "learn": 2}
"""Of the palette, as on every chart"""
PHASE_COLOURS = {
    "train": 0, "gossip": 1, "seal": 2, "evaluate": 3, "plan": 4, "close": 7, "model": 5, "verify": 6,
}  # fmt: skip
MOST_DRAWN = 300
_KINDS = ("measured", "paper", "real")


@dataclass(frozen=True)
class Figure:
    """A key figure."""

    name: str
    label: str
    value: str
    unit: str
    note: str
    tone: str = ""
    href: str = ""
    title: str = ""


@dataclass(frozen=True)
class Entry:
    """A line of a legend. `name`: of the column that the charts' cursor reads."""

    name: str
    label: str
    value: str
    colour: int | None
    title: str = ""


@dataclass(frozen=True)
class LatencyKind:
    """One reading of the latency."""

    name: str
    meaning: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Overview:
    """All of it that is not a table, a network or a matrix."""

    figures: tuple[Figure, ...]
    learning: tuple[Entry, ...]
    is_evaluated: bool
    latency: tuple[LatencyKind, ...]
    """Kinds that the run has; the first is shown."""
    terms: tuple[tuple[str, str], ...]
    phases: tuple[Entry, ...]
    bands: str
    """What the marks on the charts mean; empty where there are none."""
    facts: tuple[tuple[str, str], ...]
    """What the run is, for people."""
    simulated: str


@dataclass(frozen=True)
class Drawn:
    """The charts as drawings, for browsers without scripts."""

    learning: tuple[Chart, ...]
    latency: tuple[Chart, ...]
    phases: tuple[Chart, ...]


def drawn(snapshot: Snapshot) -> Drawn:
    """Offences and exclusions are those of all rounds."""
    rounds, events = thinned(snapshot.rounds), events_of(snapshot.rounds)
    phases = time_chart(rounds)
    learning, latency = learning_charts(rounds), latency_charts(rounds)
    return Drawn(*(
        tuple(replace(chart, events=events) for chart in charts)
        for charts in (learning, latency, [] if phases is None else [phases])
    ))  # fmt: skip


def thinned(rounds: Sequence[RoundFact]) -> Sequence[RoundFact]:
    """At most about `MOST_DRAWN` of them, the last among them; what went wrong is marked beside them."""
    step = -(-len(rounds) // MOST_DRAWN) or 1
    return rounds if step == 1 else [*rounds[:-1:step], rounds[-1]]


def overview(snapshot: Snapshot, to: Links) -> Overview:
    """Of the newest round."""
    found, last = key_figures(snapshot), snapshot.rounds[-1] if snapshot.rounds else None
    return Overview(
        figures=six_figures(snapshot, found, to),
        learning=(
            Entry("accuracy", "accuracy", f"{percent(found.accuracy)} %", 0, "share of test samples that are right"),
            Entry("loss", "loss (dashed)", figure(_last_loss(snapshot)), 1, "how wrong the model is on test data"),
        ),
        is_evaluated=found.accuracy is not None,
        latency=latency_kinds(last),
        terms=tuple((words.TERM_NAMES[term], told) for term, told in words.TERMS.items()),
        phases=phase_entries(last),
        bands=_marks_meaning(found),
        facts=facts_of(snapshot),
        simulated=words.SIMULATED if snapshot.about.is_simulated else "",
    )


def _last_loss(snapshot: Snapshot) -> float | None:
    return next((each.loss for each in reversed(snapshot.rounds) if each.loss is not None), None)


def _marks_meaning(found: KeyFigures) -> str:
    if not found.offences:
        return ""
    return "Dashed red lines: offences. Tinted: rounds in which somebody is excluded for one."


# --- key figures


def six_figures(snapshot: Snapshot, found: KeyFigures, to: Links) -> tuple[Figure, ...]:
    """Accuracy, latency, time, offloading, block, offences."""
    return (
        _accuracy(found, to),
        _latency(snapshot, found),
        _time(found),
        _offloading(snapshot, found, to),
        _block(found, to),
        _offences(found, to),
    )


def _accuracy(found: KeyFigures, to: Links) -> Figure:
    change = found.accuracy_change5
    note = "not evaluated yet" if found.accuracy is None else "first rounds"
    if change is not None:
        sign = "▲" if change > 0 else "▼" if change < 0 else "="
        note = f"{sign} {abs(100 * change):.2f} points over 5 rounds"
    title = f"mean of the last five evaluations: {percent(found.accuracy_summary)} %"
    return Figure("accuracy", "Accuracy", percent(found.accuracy), "%", note, href=to("/rounds"), title=title)


def _latency(snapshot: Snapshot, found: KeyFigures) -> Figure:
    measured = snapshot.rounds[-1].measured.get("T") if snapshot.rounds else None
    if measured is not None:
        note = f"predicted {seconds_text(found.latency_paper)}"
        return Figure("latency", "Measured latency", seconds(measured), "s", note, title=words.LATENCIES["measured"])
    note = f"real model {seconds_text(found.latency_real)}" if found.latency_real is not None else "paper's model"
    return Figure("latency", "Simulated latency", seconds(found.latency_paper), "s", note, title=words.TERMS["T"])


def _time(found: KeyFigures) -> Figure:
    label = "Round on this machine"
    note = f"train {seconds_text(found.train_s)}" if found.train_s is not None else "not timed here"
    return Figure("round_s", label, seconds(found.round_s), "s", note, title="wall time of the last round")


def _offloading(snapshot: Snapshot, found: KeyFigures, to: Links) -> Figure:
    told = [f"S{found.leader} leads"] if found.leader is not None else []
    told += [f"device {found.winner} sealed"] if found.winner is not None else []
    value = UNKNOWN if found.offloading is None else str(found.offloading)
    title = "devices whose samples a server trains on in the last round"
    unit = f"of {snapshot.about.devices:,}"
    return Figure("offloading", "Offloading now", value, unit, ", ".join(told), href=to("/network"), title=title)


def _block(found: KeyFigures, to: Links) -> Figure:
    if found.block_number is None:
        return Figure("block", "Block", UNKNOWN, "", "no chain here")
    (value, unit), total = size(found.block_bytes), " ".join(size(found.total_bytes))
    label = f"Block {found.block_number:,}"
    return Figure("block", label, value, unit, f"{total} in all", href=to(f"/block/{found.block_number}"))


def _offences(found: KeyFigures, to: Links) -> Figure:
    refused = f"{count(found.refused, 'gradient')} refused" if found.refused else ""
    if found.offences:
        note = refused or "see the evidence"
        return Figure("offences", "Offences", f"{found.offences:,}", "", note, "bad", to("/offences"))
    note, tone = (refused, "") if refused else ("nobody accused or refused", "good")
    return Figure("offences", "Offences", "0", "", note, tone, to("/offences"))


# --- legends


def latency_kinds(last: RoundFact | None) -> tuple[LatencyKind, ...]:
    """Every kind that the last round has."""
    if last is None:
        return ()
    kinds = {**last.latency, **({"measured": last.measured} if last.measured else {})}
    return tuple(LatencyKind(kind, words.LATENCIES[kind], _terms(kinds[kind])) for kind in _KINDS if kind in kinds)


def _terms(terms: Mapping[str, float]) -> tuple[Entry, ...]:
    parts = [
        Entry(term, term, seconds_text(terms.get(term)), TERM_COLOURS[term], words.TERMS[term])
        for term in reversed(TERMS)
    ]
    sums = [Entry("T", "total", seconds_text(terms.get("T")), None, words.TERMS["T"])]
    if "T_wall" in terms:
        sums.append(Entry("T_wall", "wall clock", seconds_text(terms["T_wall"]), None, words.TERMS["T_wall"]))
    return (*parts, *sums)


def phase_entries(last: RoundFact | None) -> tuple[Entry, ...]:
    """Phases by what they are, then all together."""
    if last is None or not last.seconds:
        return ()
    known = [name for name in PHASE_COLOURS if name in last.seconds]
    others = [name for name in last.seconds if name not in PHASE_COLOURS]
    parts = [
        Entry(name, name, seconds_text(last.seconds[name]), PHASE_COLOURS.get(name, 6), words.PHASES.get(name, ""))
        for name in (*known, *others)
    ]
    return (*parts, Entry("total", "total", seconds_text(sum(last.seconds.values())), None))


def facts_of(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """What the run is; then the settings that its folder names."""
    about = snapshot.about
    told = {
        "scheme": about.scheme, "data": about.dataset, "partition": about.partition, "planner": about.planner,
        "seed": "" if about.seed is None else str(about.seed), "devices": f"{about.devices:,}",
        "servers": f"{about.edges:,}", "chain": "none" if about.chain_id is None else str(about.chain_id),
        "place": about.place,
    }  # fmt: skip
    more = {name: str(value) for name, value in about.settings.items() if name not in told and str(value)}
    return tuple((name, value) for name, value in (told | more).items() if value)
