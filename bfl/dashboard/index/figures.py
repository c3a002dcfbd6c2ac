"""Numbers that several pages, the API and Prometheus show, derived from a snapshot in one place."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bfl.dashboard.facts import ITSELF, RoundFact, Snapshot
from bfl.show.measures import LAST_EVALUATIONS

_KEPT = 8


@dataclass(frozen=True)
class KeyFigures:
    """The six of the overview, and what stands under them; None where nobody knows."""

    accuracy: float | None
    """Of the last evaluated round."""
    accuracy_summary: float | None
    """Mean of the last five evaluations, as summary.json has it."""
    accuracy_change5: float | None
    """Since five rounds before."""
    latency_paper: float | None
    latency_real: float | None
    """T of the last round, simulated seconds."""
    round_s: float | None
    """Wall time of the last round, evaluation included."""
    train_s: float | None
    offloading: int | None
    leader: int | None
    winner: int | None
    block_number: int | None
    block_bytes: int | None
    """Of the last block with its payloads."""
    total_bytes: int
    offences: int
    refused: int
    """Gradients that did not count, of all rounds."""


@lru_cache(_KEPT)
def _of_rounds(rounds: tuple[RoundFact, ...]) -> tuple[int, int, float | None]:
    evaluated = [each.accuracy for each in rounds if each.accuracy is not None][-LAST_EVALUATIONS:]
    mean = float(np.mean(evaluated)) if evaluated else None
    return sum(len(each.offences) for each in rounds), sum(len(each.refused) for each in rounds), mean


def key_figures(snapshot: Snapshot) -> KeyFigures:
    """Of the newest round and block."""
    rounds, last = snapshot.rounds, snapshot.rounds[-1] if snapshot.rounds else None
    evaluated = next((each for each in reversed(rounds) if each.accuracy is not None), None)
    block = snapshot.blocks[-1] if snapshot.blocks else None
    accuracy = None if evaluated is None else evaluated.accuracy
    offences, refused, mean = _of_rounds(tuple(rounds)) if rounds else (0, 0, None)
    return KeyFigures(
        accuracy=accuracy,
        accuracy_summary=mean,
        accuracy_change5=None if evaluated is None else _change(rounds, evaluated),
        latency_paper=_total(last, "paper"),
        latency_real=_total(last, "real"),
        round_s=sum(last.seconds.values()) if last is not None and last.seconds else None,
        train_s=None if last is None else last.seconds.get("train"),
        offloading=None if last is None else last.offloaded,
        leader=None if last is None or last.leader == ITSELF else last.leader,
        winner=None if last is None else last.winner,
        block_number=None if block is None else block.number,
        block_bytes=None if block is None else block.size + block.payload_size,
        total_bytes=sum(each.size + each.payload_size for each in snapshot.blocks),
        offences=offences,
        refused=refused,
    )


def _total(fact: RoundFact | None, kind: str) -> float | None:
    return None if fact is None else fact.latency.get(kind, {}).get("T")


def _change(rounds: Sequence[RoundFact], last: RoundFact) -> float | None:
    before = last.round - LAST_EVALUATIONS
    known = [each.accuracy for each in rounds[: max(0, before)] if each.accuracy is not None]
    return None if not known or last.accuracy is None else last.accuracy - known[-1]


@dataclass(frozen=True)
class Mark:
    """An offence, for charts: a dashed red line."""

    round: int
    id: str
    who: str
    text: str


@dataclass(frozen=True)
class Band:
    """Rounds in which somebody might post nothing, for charts."""

    first: int
    last: int
    who: str


def marks(rounds: Sequence[RoundFact]) -> list[Mark]:
    """Of all offences, oldest first."""
    return [Mark(fact.round, each.id, each.offender, each.detail) for fact in rounds for each in fact.offences]


def bands(rounds: Sequence[RoundFact]) -> list[Band]:
    """Exclusions: whoever is excluded AFTER round k may not post in round k + 1."""
    found: list[Band] = []
    begun: dict[int, int] = {}
    for fact in rounds:
        now = set(fact.excluded)
        for server in sorted(set(begun) - now):
            found.append(Band(begun.pop(server), fact.round, f"server {server}"))
        for server in sorted(now - set(begun)):
            begun[server] = fact.round + 1
    last = rounds[-1].round + 1 if rounds else 0
    through = {each.offender: each.excluded_through for fact in rounds for each in fact.offences}
    for server, first in begun.items():
        who = f"server {server}"
        found.append(Band(first, max(last, through.get(who) or 0), who))
    return sorted(found, key=lambda each: (each.first, each.who))


@dataclass(frozen=True)
class Credit:
    """What a participant has done in the rounds that are shown."""

    led: int = 0
    sealed: int = 0
    """Blocks: the credit of a device."""
    trained: int | None = None
    offloaded: int | None = None
    """Rounds; None where nobody knows who offloaded."""
    offloaded_share: float | None = None
    refused: int = 0
    offences: int = 0
    absent: int = 0
    excluded_through: int | None = None
    """Last round of an exclusion that holds now."""
    filtered: int = 0
    """Rounds in which the filter took its gradient out."""
    aside: int = 0
    """Rounds in which it took no part for that."""
    aside_through: int | None = None
    """Last round of that, where it holds now."""


def credits_of(snapshot: Snapshot) -> dict[str, Credit]:
    """By name, of all participants; what is computed once is kept for a snapshot's rounds."""
    return _credits(tuple(snapshot.rounds), tuple(each.name for each in snapshot.participants))


@lru_cache(_KEPT)
def _credits(rounds: tuple[RoundFact, ...], names: tuple[str, ...]) -> dict[str, Credit]:
    led = Counter(f"server {each.leader}" for each in rounds)
    sealed = Counter(f"device {each.winner}" for each in rounds if each.winner is not None)
    refused = Counter(node.name for each in rounds for node in each.refused)
    offences = Counter(offence.offender for each in rounds for offence in each.offences)
    absent = Counter(name for each in rounds for name in each.absent)
    filtered = Counter(f"device {n}" for each in rounds for n in each.filtered)
    aside = Counter(f"device {n}" for each in rounds for n, _ in each.aside)
    away = {f"device {n}": through for n, through in (rounds[-1].aside if rounds else ()) if through > rounds[-1].round}
    offloads, known = _offloads(rounds, sum(name.startswith("device ") for name in names))
    until = {each.who: each.last for each in bands(rounds) if rounds and each.last > rounds[-1].round}
    found: dict[str, Credit] = {}
    for name in names:
        role, _, number = name.partition(" ")
        times = int(offloads[int(number)]) if role == "device" and known else None
        found[name] = Credit(
            led=led[name],
            sealed=sealed[name],
            trained=None if times is None else known - times,
            offloaded=times,
            offloaded_share=None if times is None else times / known,
            refused=refused[name],
            offences=offences[name],
            absent=absent[name],
            excluded_through=until.get(name),
            filtered=filtered[name],
            aside=aside[name],
            aside_through=away.get(name),
        )
    return found


def _offloads(rounds: Sequence[RoundFact], devices: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """In how many rounds each device offloaded, and of how many rounds that is known."""
    counts, known = np.zeros(devices, np.int64), 0
    for each in rounds:
        if each.assignment is not None and len(each.assignment) == devices:
            counts += each.assignment != ITSELF
            known += 1
    return counts, known
