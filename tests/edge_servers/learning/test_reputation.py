"""Reputation (R1-R7): numbers worked by hand, and what holds whatever the filters say."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.wire.address import Address
from chain.wire.plan import Plan, read_plan
from edge_servers.errors import PlanError
from edge_servers.founding.parameters import _STRIKE_BYTES
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.reputation import (
    Absence,
    JudgedRound,
    Reputation,
    ReputationTerms,
    absences_in,
    after,
    aside_in,
    check_reputation,
    filtered_senders,
    reputation_in,
    reputation_of,
)

TERMS = ReputationTerms(filtered=3, window=5, rounds=4, servers=3)
Story = Iterable[tuple[int, int, tuple[int, ...]]]


def told(story: Story, terms: ReputationTerms = TERMS, devices: int = 6) -> Reputation:
    """What is known after rounds of (number, leader, filtered)."""
    found = Reputation()
    for each in story:
        found = after(found, JudgedRound(*each), terms, devices)
    return found


def plan(round_: int, reputation: Reputation, devices: int = 6) -> Plan:
    return Plan(round_, "", (-1,) * devices, (1,) * devices, (), (), 0, 1.0, 0.0, "", reputation=reputation.rows)


def test_three_strikes_under_two_leaders_set_a_device_aside_from_the_next_round_on() -> None:
    story = [(1, 0, (2,)), (2, 1, ()), (3, 1, (2,)), (4, 0, (2,))]
    assert told(story[:3]).rows == ((2, 0, 0, 1, 0, 3, 1),)
    known = told(story)
    assert known.rows == ((2, 1, 8),)
    assert [known.aside(k) for k in (5, 8, 9)] == [(2,), (2,), ()]


def test_no_leader_sets_a_device_aside_alone() -> None:
    """Of three strikes two may be from rounds of one leader: a hundred of them are no third one."""
    assert told((k, 1, (2,)) for k in range(1, 101)).rows == ((2, 0, 0, 99, 1, 100, 1),)
    assert told([(1, 1, (2,)), (2, 1, (2,)), (3, 0, (2,))]).aside(4) == (2,)


def test_where_there_is_one_server_its_rounds_are_enough() -> None:
    alone = ReputationTerms(filtered=3, window=5, rounds=4, servers=1)
    assert told([(k, 0, (2,)) for k in (1, 2, 3)], alone).aside(4) == (2,)


def test_strikes_count_for_as_many_rounds_as_the_window_has() -> None:
    story = [(1, 0, (2,)), (2, 1, (2,)), (3, 0, ()), (4, 0, ()), (5, 0, ())]
    assert told([*story, (6, 2, (2,))]).rows == ((2, 0, 0, 2, 1, 6, 2),)  # round 1 is six rounds ago
    assert told([*story[:4], (5, 2, (2,))]).aside(6) == (2,)
    assert told([*story, *((k, 0, ()) for k in (6, 7))]).rows == ()


def test_each_absence_is_twice_as_long_as_the_one_before_up_to_eight_times_the_first() -> None:
    lengths: list[int] = []
    known, k = Reputation(), 0
    while len(lengths) < 6:
        k += 1
        before = known.aside(k)
        known = after(known, JudgedRound(k, k % 3, () if before else (2,)), TERMS, 6)
        if known.aside(k + 1) and not before:
            lengths.append(known.records[0].through - k)
    assert lengths == [4, 8, 16, 32, 32, 32]


def test_a_record_is_forgotten_when_nothing_new_came_for_as_long_as_the_longest_absence() -> None:
    story = [(1, 0, (2,)), (2, 1, (2,)), (3, 2, (2,))]  # set aside through 7
    quiet = [(k, 0, ()) for k in range(4, 7 + 32)]
    assert told([*story, *quiet]).rows == ((2, 1, 7),)
    assert told([*story, *quiet, (7 + 32, 0, ())]).rows == ()


def test_at_most_half_of_the_devices_are_set_aside_those_first_that_were_due_first() -> None:
    story = [(1, 0, (1, 2, 3)), (2, 1, (0, 1, 2, 3)), (3, 2, (0, 1, 2, 3)), (4, 0, (0,))]
    assert told(story[:3], devices=4).aside(4) == (1, 2)
    known = told(story, devices=4)
    assert known.aside(5) == (1, 2)
    assert [record.device for record in known.records if len(record.strikes) == 3] == [0, 3]  # due, no room
    later = [(k, k % 3, ()) for k in range(5, 8)]
    assert told([*story, *later], devices=4).aside(8) == ()  # their strikes are too old when there is room


def test_who_is_set_aside_twice_needs_strikes_again() -> None:
    story = [(1, 0, (2,)), (2, 1, (2,)), (3, 2, (2,)), (8, 0, (2,)), (9, 1, (2,))]
    assert told(story).rows == ((2, 1, 7, 8, 0, 9, 1),)
    assert told([*story, (10, 2, (2,))]).rows == ((2, 2, 18),)


def test_a_network_without_reputation_holds_nothing_against_anybody() -> None:
    none = ReputationTerms(filtered=0, window=5, rounds=4, servers=3)
    assert told([(k, k % 3, (2,)) for k in range(1, 9)], none) == Reputation()


# --- what counts as filtered


def gradient(name: int, samples: int) -> Gradient:
    return Gradient(Address(bytes([name]) * 20), f"device {name}", 0, samples, 1, "", "", np.ones(1, np.float32))


def test_a_list_with_half_of_the_data_or_less_counts_against_nobody() -> None:
    """Who closes the list could make an outlier of an honest gradient among a few that it chooses."""
    few, victim = [gradient(1, 10), gradient(2, 10), gradient(3, 10)], Address(b"\1" * 20)
    assert filtered_senders(few, {victim: ""}, 60) == ()
    assert filtered_senders(few, {victim: ""}, 59) == (victim,)


# --- in a plan


def test_a_plan_says_since_when_and_until_when_a_device_is_set_aside() -> None:
    known = told([(1, 0, (2,)), (2, 1, (2, 4)), (3, 2, (2,))])
    assert known.rows == ((2, 1, 7), (4, 0, 0, 2, 1))
    found = read_plan(plan(4, known).payload)
    assert absences_in(found, TERMS) == (Absence(2, times=1, first=4, through=7),)
    assert (set(aside_in(found)), set(aside_in(plan(8, known)))) == ({2}, set())
    assert reputation_in(found, TERMS) == known
    check_reputation(found, known)


def test_a_plan_that_says_something_else_of_a_device_is_refused() -> None:
    known = told([(1, 0, (2,))])
    for other in (Reputation(), told([(1, 0, (3,))]), told([(1, 1, (2,))]), told([(1, 0, (2, 3))])):
        with pytest.raises(PlanError, match="as the reputation of a device, the rounds before it give"):
            check_reputation(plan(2, other), known)


@pytest.mark.parametrize(
    "row",
    [(), (2,), (2, 1), (2, 1, 5, 1), (2, -1, 5), (2, 0, 0, 3, 0, 3, 1), (2, 0, 0, 3, 0, 1, 1), (6, 1, 5),
     (2, 0, 9), (2, 1, 0), (2, 1, 14), (2, 10**40, 10**41), (2, 1, 3),
     (2, 0, 0, 1, 3), (2, 0, 0, 9, 0), (2, 0, 0, 1, 0, 2, 0, 3, 1, 4, 1)],
)  # fmt: skip
def test_rows_that_no_rounds_give_are_refused(row: tuple[int, ...]) -> None:
    with pytest.raises(PlanError):
        reputation_in(Plan(9, "", (-1,) * 6, (1,) * 6, (), (), 0, 1.0, 0.0, "", reputation=(row,)), TERMS)


def test_rows_are_in_the_order_of_devices() -> None:
    for rows in [((3, 1, 5), (2, 1, 5)), ((2, 1, 5), (2, 1, 5))]:
        with pytest.raises(ValueError, match="found the reputation of device 2 behind that of"):
            reputation_of(rows)


def test_a_reputation_in_a_network_that_keeps_none_is_refused() -> None:
    with pytest.raises(PlanError, match="in a network that keeps none"):
        reputation_in(plan(9, told([(1, 0, (2,))])), ReputationTerms(0, 5, 4, 3))


# --- whatever the filters say

stories = st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 5))), max_size=60)


@given(story=stories, filtered=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_half_take_part_nobody_alone_decides_and_the_plan_has_room(
    story: list[tuple[int, set[int]]], filtered: int
) -> None:
    terms, known = ReputationTerms(filtered, window=7, rounds=3, servers=3), Reputation()
    seen: dict[int, list[tuple[int, int]]] = {n: [] for n in range(6)}
    for k, (leader, out) in enumerate(story, 1):
        before = known.aside(k)
        there = tuple(sorted(out - set(before)))
        for n in there:
            seen[n].append((k, leader))
        known = after(known, JudgedRound(k, leader, there), terms, 6)
        assert len(known.aside(k + 1)) <= 3
        for n in set(known.aside(k + 1)) - set(before):
            recent = [strike for strike in seen[n] if strike[0] > k - 7]
            assert len(recent) >= filtered
            assert filtered < 2 or len({who for _, who in recent}) > 1
        assert reputation_in(plan(k + 1, known), terms) == known
        assert all(len(str(row)) <= _STRIKE_BYTES * (filtered + 3) for row in known.rows)
