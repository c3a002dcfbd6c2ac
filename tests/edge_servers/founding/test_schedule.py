"""Deadlines of an attempt (D3.3): absolute, in the order of the phases, from the founding parameters and phi alone."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_servers.founding.schedule import MOST_APART_S, Schedule
from edge_servers.parameters import RoundParams

ROUNDS = RoundParams(
    plan_s=1.0, deadline_s=20.0, close_s=4.0, gossip_s=5.0, verify_s=6.0, model_s=7.0, seal_s=8.0, sign_s=9.0
)


def deadlines(schedule: Schedule) -> list[float]:
    steps = [schedule.gossip(step) for step in range(schedule.phi + 1)]
    return [
        schedule.plan, schedule.train, schedule.rolls, schedule.close, *steps, schedule.verify, schedule.model,
        schedule.seal, schedule.final,
    ]  # fmt: skip


def test_every_deadline_is_the_sum_of_those_before_it() -> None:
    """Two consensus steps after x(0): three times 5 s of gossip."""
    found = deadlines(Schedule(100.0, ROUNDS, phi=2))
    assert found == [101.0, 121.0, 123.0, 125.0, 130.0, 135.0, 140.0, 146.0, 153.0, 161.0, 170.0]


def test_the_defaults_are_those_of_a_deployment() -> None:
    """Plan 10 s, close 10 s, 3 s a step, verify 5 s, model 5 s, mining 30 s, signatures 5 s; devices have 600 s."""
    assert deadlines(Schedule(0.0, RoundParams(), 0)) == [10.0, 610.0, 615.0, 620.0, 623.0, 628.0, 633.0, 663.0, 668.0]


def test_before_there_is_a_plan_there_are_no_steps() -> None:
    assert Schedule(0.0, ROUNDS).verify == Schedule(0.0, ROUNDS, 0).verify
    assert Schedule(0.0, ROUNDS).plan == Schedule(0.0, ROUNDS, 9).plan, "a plan is due before anybody knows phi"


@given(
    start_s=st.floats(0, 2e9),
    phi=st.integers(0, 100),
    parts=st.lists(st.floats(1.0, 1e4), min_size=8, max_size=8),
)
def test_deadlines_only_ascend_and_move_with_the_start(start_s: float, phi: int, parts: list[float]) -> None:
    names = ("plan_s", "deadline_s", "close_s", "gossip_s", "verify_s", "model_s", "seal_s", "sign_s")
    rounds = RoundParams(**dict(zip(names, parts, strict=True)))  # type: ignore[arg-type]
    found = deadlines(Schedule(start_s, rounds, phi))
    assert all(earlier < later for earlier, later in pairwise([start_s, *found]))
    later = deadlines(Schedule(start_s + 1000, rounds, phi))
    assert [each - 1000 for each in later] == pytest.approx(found)


def test_without_a_chain_nothing_is_ever_due() -> None:
    assert set(deadlines(Schedule(float("inf"), ROUNDS))) == {float("inf")}


def test_a_plan_gives_the_beginning_and_the_steps_but_makes_nobody_wait_or_late() -> None:
    own = Schedule(100.0, ROUNDS)
    assert own.of_plan(99.0, 2) == Schedule(99.0, ROUNDS, 2)
    assert own.of_plan(100.0 + MOST_APART_S, 2).start_s == 100.0 + MOST_APART_S
    for ahead in (MOST_APART_S + 0.001, 1e9, float("inf")):
        assert own.of_plan(100.0 + ahead, 2).start_s == 100.0 + MOST_APART_S
        assert own.of_plan(100.0 - ahead, 2).start_s == 100.0 - MOST_APART_S
    assert own.of_plan(0.0, 1) == Schedule(100.0, ROUNDS, 1), "a plan that says none"
