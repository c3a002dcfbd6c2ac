"""The curves of one run, ready to be drawn."""

from collections.abc import Sequence

from bfl.dashboard.charts.lines import Chart, Event, Line
from bfl.dashboard.facts import TERMS, RoundFact
from bfl.dashboard.index.figures import bands, marks

TERM_WORDS = {
    "learn": "learning: training on devices and servers, and sending data and gradients",
    "consensus": "consensus: the servers' gossip",
    "mine": "mining: until a device has found the block's seal",
}
"""Terms of the simulated latency T, in words"""
_KINDS = {"paper": "with the paper's sizes", "real": "with the bytes that were really moved"}


def events_of(rounds: Sequence[RoundFact]) -> tuple[Event, ...]:
    """Offences and exclusions, for any chart over the rounds."""
    found = [
        Event(each.first, f"{each.who} excluded, rounds {each.first} to {each.last}", each.last)
        for each in bands(rounds)
    ]
    return (*found, *(Event(each.round, f"round {each.round}: {each.text or each.who}") for each in marks(rounds)))


def learning_charts(rounds: Sequence[RoundFact]) -> list[Chart]:
    """Accuracy and loss on the test set, where they were looked at."""
    known = [each for each in rounds if each.accuracy is not None]
    if not known:
        return []
    accuracy = [(float(each.round), None if each.accuracy is None else 100 * each.accuracy) for each in known]
    loss = [(float(each.round), each.loss) for each in known]
    events, words = events_of(rounds), f"over {len(known)} rounds. {_told_of(rounds)}"
    return [
        Chart("Test accuracy", f"accuracy in percent {words}", "%", [Line("accuracy", accuracy)], events),
        Chart("Test loss", f"loss {words}", "", [Line("loss", loss, is_dashed=True)], events),
    ]


def _told_of(rounds: Sequence[RoundFact]) -> str:
    count = sum(len(each.offences) for each in rounds)
    return f"{count} offences are marked by dashed red lines." if count else "There were no offences."


def latency_charts(rounds: Sequence[RoundFact]) -> list[Chart]:
    """Simulated seconds of a round by term, as the paper counts them and as the round was (P24)."""
    charts = []
    for kind in dict.fromkeys(kind for each in rounds for kind in each.latency):
        lines = [
            Line(term, [(float(each.round), each.latency.get(kind, {}).get(term)) for each in rounds]) for term in TERMS
        ]
        title = f"Simulated latency T, {_KINDS.get(kind, kind)}"
        told = "seconds that a round would take, stacked: " + "; ".join(TERM_WORDS.get(term, term) for term in TERMS)
        charts.append(Chart(title, told, "s", lines, events_of(rounds), is_stacked=True))
    return charts


def time_chart(rounds: Sequence[RoundFact]) -> Chart | None:
    """Wall time by phase, on the machine that ran it; None where nobody measured it."""
    phases = list(dict.fromkeys(phase for each in rounds for phase in each.seconds))
    if not phases:
        return None
    lines = [Line(phase, [(float(each.round), each.seconds.get(phase)) for each in rounds]) for phase in phases]
    told = "seconds that each phase of a round took on the machine that ran it, stacked"
    return Chart("Wall time by phase", told, "s", lines, events_of(rounds), is_stacked=True)
