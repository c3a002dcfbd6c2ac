"""Reputation: who is set aside because the filters take its gradients out again and again (R1-R8). START with `after`.

What is known before a round stands in its plan; what is known after it follows from that, from who led, and from what
a replay of the closed list takes out. So anybody folds it from the chain alone, a block at a time, and no word of a
leader is in it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from chain.wire.address import Address
from chain.wire.plan import Plan
from edge_servers.errors import PlanError
from edge_servers.learning.gradients import Gradient
from edge_servers.parameters import RoundParams

MOST_TIMES = 8
"""Times as long as the first absence the longest one is, and times as long a record is kept without anything new"""
_HEAD = 3
"""Numbers of a row before its strikes: device, times, last round"""


@dataclass(frozen=True)
class ReputationTerms:
    """What a network was founded with."""

    filtered: int
    """Strikes that set a device aside; 0: nobody ever is."""
    window: int
    rounds: int
    """The first absence."""
    servers: int

    @property
    def of_one_leader(self) -> int:
        """R4: strikes from rounds of one leader that count, half of those needed: no server sets a device aside alone.
        Where there is one server, everything is its word anyway.
        """
        return self.filtered if self.servers == 1 else (self.filtered + 1) // 2

    def absence(self, times: int) -> int:
        """R5: rounds that a device is set aside when it was so `times` times before."""
        return self.rounds * (MOST_TIMES if times >= MOST_TIMES else min(1 << times, MOST_TIMES))


def reputation_terms(rounds: RoundParams) -> ReputationTerms:
    """The terms in a network's settings."""
    return ReputationTerms(rounds.reputation, rounds.reputation_window, rounds.reputation_rounds, rounds.edges)


@dataclass(frozen=True)
class DeviceRecord:
    """What is held against a device."""

    device: int
    times: int = 0
    """How often it was set aside."""
    through: int = 0
    """Last round of the last time; 0: never."""
    strikes: tuple[tuple[int, int], ...] = ()
    """(round, leader) in which the filters took its gradient out, by round: those that count."""

    @property
    def row(self) -> tuple[int, ...]:
        """As a plan has it."""
        return (self.device, self.times, self.through, *(number for strike in self.strikes for number in strike))


@dataclass(frozen=True)
class Reputation:
    """Before a round: the devices that anything is held against, by number."""

    records: tuple[DeviceRecord, ...] = ()

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """As a plan has them; nothing where there are none."""
        return tuple(record.row for record in self.records)

    def aside(self, round_: int) -> tuple[int, ...]:
        """Devices that take no part in a round."""
        return tuple(record.device for record in self.records if record.through >= round_)


@dataclass(frozen=True)
class JudgedRound:
    """What a sealed round says of devices."""

    round: int
    leader: int
    """Who closed the list, by number."""
    filtered: tuple[int, ...]
    """Devices whose gradients count as filtered (R1, R2)."""


def filtered_senders(
    list_: Sequence[Gradient], removed: Collection[Address], planned_samples: int
) -> tuple[Address, ...]:
    """Whose gradients count as filtered (R1): the filters take them out of a list that has more than half of the data
    of the plan (R2). A leader could make an honest gradient an outlier among a few chosen ones.
    """
    if 2 * sum(gradient.samples for gradient in list_) <= planned_samples:
        return ()
    return tuple(sorted(removed))


def after(before: Reputation, judged: JudgedRound, terms: ReputationTerms, devices: int) -> Reputation:
    """What is known after a round (R3-R7)."""
    if not terms.filtered:
        return Reputation()
    known = {record.device: record for record in before.records}
    records = [
        _with_round(known.get(device, DeviceRecord(device)), judged, terms)
        for device in sorted({*known, *judged.filtered})
    ]
    next_ = judged.round + 1
    free = devices // 2 - sum(record.through >= next_ for record in records)
    due = [record for record in records if len(record.strikes) >= terms.filtered and record.through < next_]
    chosen = {record.device for record in sorted(due, key=lambda each: (each.strikes, each.device))[: max(0, free)]}
    records = [_set_aside(each, judged.round, terms) if each.device in chosen else each for each in records]
    return Reputation(tuple(each for each in records if not _is_forgotten(each, judged.round, terms)))


def _with_round(record: DeviceRecord, judged: JudgedRound, terms: ReputationTerms) -> DeviceRecord:
    """R3, R4: strikes of the last w rounds, the latest of each leader, no more than are needed."""
    strikes = [strike for strike in record.strikes if strike[0] > judged.round - terms.window]
    if record.device in judged.filtered:
        same = [strike for strike in strikes if strike[1] == judged.leader]
        if len(same) >= terms.of_one_leader:
            strikes.remove(same[0])
        strikes.append((judged.round, judged.leader))
    return replace(record, strikes=tuple(strikes[-terms.filtered :]))


def _set_aside(record: DeviceRecord, round_: int, terms: ReputationTerms) -> DeviceRecord:
    """R5: from the next round on; its strikes have had their effect."""
    return DeviceRecord(record.device, record.times + 1, round_ + terms.absence(record.times))


def _is_forgotten(record: DeviceRecord, round_: int, terms: ReputationTerms) -> bool:
    """R7: nothing new for as long as the longest absence."""
    return not record.strikes and round_ >= record.through + MOST_TIMES * terms.rounds * (record.times > 0)


# --- in a plan


@dataclass(frozen=True)
class Absence:
    """A device that is set aside in a round."""

    device: int
    times: int
    """Which time it is, from 1."""
    first: int
    """Its first round."""
    through: int


def absences_in(plan: Plan, terms: ReputationTerms) -> tuple[Absence, ...]:
    """Who is set aside in the round of a plan, since when and until when (R5)."""
    return tuple(
        Absence(device, times, through - terms.absence(times - 1) + 1, through)
        for device, times, through, *_ in plan.reputation
        if through >= plan.round
    )


def aside_in(plan: Plan) -> frozenset[int]:
    """Devices that a plan sets aside in its round."""
    return frozenset(row[0] for row in plan.reputation if row[2] >= plan.round)


def reputation_in(plan: Plan, terms: ReputationTerms) -> Reputation:
    """What a plan says is known before its round; `PlanError` for what no fold gives."""
    if plan.reputation and not terms.filtered:
        raise PlanError("plan: found a reputation in a network that keeps none")
    try:
        found = reputation_of(plan.reputation)
    except ValueError as error:
        raise PlanError(f"plan: {error}") from error
    for record in found.records:
        too_late = any(round_ >= plan.round or leader >= terms.servers for round_, leader in record.strikes)
        impossible = too_late or not _could_be_aside(record, plan.round, terms)
        if impossible or record.device >= len(plan.assignment) or len(record.strikes) > terms.filtered:
            raise PlanError(f"plan: found {record.row!s:.80} as the reputation of a device, which no rounds give")
    return found


def _could_be_aside(record: DeviceRecord, round_: int, terms: ReputationTerms) -> bool:
    """Whether some round before this one can have set a device aside until then, for the so many-th time (R5)."""
    if not record.times or not record.through:
        return record.times == record.through
    return record.times <= round_ and 0 <= record.through - terms.absence(record.times - 1) < round_


def reputation_of(rows: Iterable[Sequence[int]]) -> Reputation:
    """The reverse of `Reputation.rows`; `ValueError` for rows of another form."""
    records: list[DeviceRecord] = []
    for row in rows:
        strikes = tuple(zip(row[_HEAD::2], row[_HEAD + 1 :: 2], strict=False))
        rounds = [strike[0] for strike in strikes]
        if len(row) < _HEAD or len(row) % 2 != _HEAD % 2 or min(row) < 0 or rounds != sorted(set(rounds)):
            raise ValueError(f"found {row!s:.80} as a reputation, expected device, times, last round and strikes")
        if records and row[0] <= records[-1].device:
            raise ValueError(f"found the reputation of device {row[0]} behind that of {records[-1].device}")
        records.append(DeviceRecord(row[0], row[1], row[2], strikes))
    return Reputation(tuple(records))


def check_reputation(plan: Plan, expected: Reputation) -> None:
    """Raise `PlanError` unless the plan says of everybody what the rounds before it give (R6)."""
    if plan.reputation != expected.rows:
        found = next((row for row in plan.reputation if row not in expected.rows), None)
        missing = next((row for row in expected.rows if row not in plan.reputation), None)
        raise PlanError(f"plan: found {found} as the reputation of a device, the rounds before it give {missing}")
