"""Devices that are slow, drop out, or follow a trace: functions of seed, round and device alone."""

import numpy as np
import pytest

from policy.world.conditions import Conditions


def test_by_default_all_are_alike_and_there() -> None:
    plain = Conditions()
    assert plain.factors(5).tolist() == [1.0] * 5
    assert all(plain.there(k, 5) == [True] * 5 for k in range(1, 50))


def test_listed_speeds_are_dealt_in_turn() -> None:
    assert Conditions("1,0.5,0.1").factors(5).tolist() == [1.0, 0.5, 0.1, 1.0, 0.5]


def test_drawn_speeds_follow_seed_and_device_alone() -> None:
    drawn = Conditions("lognormal:0.5", seed=3)
    assert drawn.factors(8)[:5].tolist() == drawn.factors(5).tolist()
    assert drawn.factors(5).tolist() != Conditions("lognormal:0.5", seed=4).factors(5).tolist()
    many = np.log(drawn.factors(2000))
    assert many.mean() == pytest.approx(0.0, abs=4 * 0.5 / np.sqrt(2000))
    assert many.std() == pytest.approx(0.5, rel=0.08)


def test_drop_out_has_its_rate_and_any_round_is_drawn_alone() -> None:
    dropping = Conditions(dropout=0.3, seed=1)
    rounds = [dropping.there(k, 20) for k in range(1, 301)]
    assert 1 - np.mean(rounds) == pytest.approx(0.3, abs=4 * np.sqrt(0.3 * 0.7 / 6000))
    assert [Conditions(dropout=0.3, seed=1).is_away(250, n) for n in range(20)] == [not ok for ok in rounds[249]]
    assert Conditions(dropout=1.0).there(1, 3) == [False] * 3


def test_a_traced_device_is_there_in_its_rounds_only_and_others_always() -> None:
    traced = Conditions(availability="1:2-3;2:1/2")
    assert [traced.there(k, 3) for k in (1, 2, 3, 4)] == [
        [True, False, True],
        [True, True, False],
        [True, True, True],
        [True, False, False],
    ]
