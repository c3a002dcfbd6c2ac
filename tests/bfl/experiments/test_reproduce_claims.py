"""Verdicts on the paper's claims, on numbers made by hand."""

from dataclasses import replace

import pytest

from bfl.experiments.claims import (
    FAILS,
    HOLDS,
    INCOMPARABLE,
    judge_falls,
    judge_far_below,
    judge_knee,
    judge_lowest,
    judge_rises,
    judge_steepest,
)
from bfl.experiments.estimate import Estimate, difference, estimate_mean, percent_below, weighted_sum
from bfl.experiments.latency.learning_claims import (
    MeanLearningCurve,
    judge_best,
    judge_diverges,
    judge_fastest,
    judge_slowest,
    judge_steadiest,
    judge_worst,
)

NOISE_S = 0.01


def line(*means: float) -> list[Estimate]:
    return [Estimate(mean, NOISE_S, 1, 100) for mean in means]


def run_of(label: str, *curve: float, final: float) -> MeanLearningCurve:
    """A learning curve with a point every hundred rounds."""
    rounds = [100 * (index + 1) for index in range(len(curve))]
    return MeanLearningCurve(label, rounds, list(curve), list(curve), list(curve), Estimate(final, NOISE_S))


# Estimates


def test_the_interval_is_that_of_the_states_or_of_the_seeds_whichever_is_larger() -> None:
    one = estimate_mean([[1.0, 2.0, 3.0, 4.0]])
    assert (one.mean, one.seeds, one.states) == (2.5, 1, 4)
    assert one.half_width == pytest.approx(1.959964 * 1.2909944 / 2)
    three = estimate_mean([[1.0, 1.0], [2.0, 2.0], [6.0, 6.0]])
    assert (three.mean, three.half_width, three.seeds) == (3.0, 2.5, 3)


def test_what_was_measured_in_the_same_states_is_compared_state_by_state() -> None:
    low, high = estimate_mean([[1.0, 5.0, 9.0]]), estimate_mean([[1.1, 5.1, 9.1]])
    assert difference(high, low).mean == pytest.approx(0.1)
    assert difference(high, low).half_width == pytest.approx(0.0, abs=1e-9)
    assert weighted_sum([(1.0, high), (-1.0, low)]).half_width == pytest.approx(0.0, abs=1e-9)


def test_a_near_optimum_in_few_states_is_compared_in_these_only() -> None:
    ours, optimum = estimate_mean([[2.0, 4.0, 100.0]]), estimate_mean([[1.0, 3.0]])
    assert difference(ours, optimum).mean == 1.0


def test_half_of_a_latency_is_fifty_per_cent_below_it() -> None:
    percent, half_width = percent_below(estimate_mean([[1.0, 2.0]]), estimate_mean([[2.0, 4.0]]))
    assert percent == pytest.approx(50.0)
    assert half_width == pytest.approx(0.0, abs=1e-9)


# Verdicts on sweeps


def test_a_line_rises_or_falls_if_no_step_goes_clearly_back(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, ...], str, str]] = [
        ((1.0, 1.2, 1.4), HOLDS, FAILS),
        ((1.4, 1.2, 1.0), FAILS, HOLDS),
        ((1.0, 1.005, 1.0), FAILS, FAILS),
        ((1.0, 1.4, 1.2), FAILS, FAILS),
        ((1.0, 1.205, 1.2), HOLDS, FAILS),
    ]
    for means, rising, falling in cases:
        with subtests.test(means=means, rising=rising, falling=falling):
            assert judge_rises("", {"a2c": line(*means)}, "a2c").verdict == rising
            assert judge_falls("", {"a2c": line(*means)}, "a2c").verdict == falling


def test_a_plateau_is_no_step_back_however_well_it_is_known() -> None:
    flat = [estimate_mean([[mean, mean + 1]]) for mean in (2.0, 1.0, 1.002)]
    assert judge_falls("", {"a2c": flat}, "a2c").verdict == HOLDS
    back = [estimate_mean([[mean, mean + 1]]) for mean in (2.0, 1.0, 1.02)]
    assert judge_falls("", {"a2c": back}, "a2c").verdict == FAILS


def test_an_agent_that_does_not_fall_is_named() -> None:
    found = judge_falls("", {"a2c": line(2, 1), "dqn": line(1, 2)}, "a2c")
    assert found.verdict == FAILS
    assert "not for dqn" in found.measured
    assert "-50.0 %" in found.measured


def test_the_lowest_is_clearly_below_at_every_point(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, ...], str]] = [((1.0, 1.0), HOLDS), ((1.0, 1.195), FAILS), ((1.3, 1.3), FAILS)]
    for ours, expected in cases:
        with subtests.test(ours=ours, expected=expected):
            series = {"a2c": line(*ours), "ddpg": line(1.2, 1.2), "dqn": line(2.0, 2.0)}
            assert judge_lowest("", series, "a2c", ["ddpg", "dqn"]).verdict == expected


def test_a_percentage_that_leaves_no_room_cannot_be_compared(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, float, str]] = [(20.0, 0.5, HOLDS), (30.0, 0.5, FAILS), (60.0, 0.5, INCOMPARABLE)]
    for claimed, optimum, expected in cases:
        with subtests.test(claimed=claimed, optimum=optimum, expected=expected):
            ours, rival, best_, chance = line(0.8, 1.0, optimum, 1.0)
            found = judge_far_below("", ours, rival, claimed, (best_, chance))
            assert found.verdict == expected
            assert found.measured.startswith("20.0 % below")


def test_beyond_a_knee_it_falls_more_slowly(subtests: pytest.Subtests) -> None:
    cases: list[tuple[tuple[float, ...], str]] = [
        ((2.0, 1.5, 1.4), HOLDS),
        ((2.0, 1.9, 1.4), FAILS),
        ((2.0, 1.7, 1.4), FAILS),
    ]
    for means, expected in cases:
        with subtests.test(means=means, expected=expected):
            assert judge_knee("", [10, 20, 30], line(*means), 20, "dBm").verdict == expected


def test_the_steepest_loses_most(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, str]] = [(1.0, HOLDS), (1.6, FAILS)]
    for last, expected in cases:
        with subtests.test(last=last, expected=expected):
            series = {"a2c": line(2.0, last), "dqn": line(3.0, 2.5)}
            assert judge_steepest("", series, "a2c", ["dqn"]).verdict == expected


# Verdicts on learning curves

FAST = run_of("fast", 3.0, 1.1, 1.0, 1.0, final=1.0)
SLOW = run_of("slow", 3.0, 2.5, 2.0, 1.2, final=1.2)
STUCK = run_of("stuck", 3.0, 3.05, 2.95, 3.0, final=3.0)
LOST = run_of("lost", 3.0, 1.5, 2.0, 2.8, final=2.8)
RACE = {run.label: run for run in (FAST, SLOW, STUCK, LOST)}


def test_the_best_and_the_worst_are_told_by_their_decisions_at_the_end() -> None:
    assert judge_best("", RACE, "fast", ["slow", "lost"]).verdict == HOLDS
    assert judge_best("", RACE, "slow", ["fast"]).verdict == FAILS
    assert judge_worst("", RACE, "lost", ["fast", "slow"]).verdict == HOLDS
    assert judge_worst("", RACE, "fast", ["slow"]).verdict == FAILS


def test_speed_is_the_rounds_to_ninety_per_cent_of_the_own_fall() -> None:
    assert (FAST.settling_rounds, SLOW.settling_rounds, STUCK.settling_rounds) == (200, 400, float("inf"))
    assert judge_fastest("", RACE, "fast", ["slow", "stuck"]).verdict == HOLDS
    assert judge_fastest("", RACE, "slow", ["fast"]).verdict == FAILS
    assert judge_slowest("", RACE, "stuck", ["slow", "fast"]).verdict == HOLDS
    assert judge_slowest("", RACE, "fast", ["slow"]).verdict == FAILS


def test_rates_that_teach_nothing_cannot_be_compared() -> None:
    race = {"stuck": STUCK, "other": replace(STUCK, label="other")}
    for claim in (judge_best, judge_fastest, judge_slowest, judge_steadiest, judge_worst):
        found = claim("", race, "stuck", ["other"])
        assert found.verdict == INCOMPARABLE
        assert "none of them learns" in found.measured


def test_who_ends_above_where_it_was_diverges() -> None:
    assert judge_diverges("", RACE, "lost").verdict == HOLDS
    assert judge_diverges("", RACE, "slow").verdict == FAILS


def test_the_steadiest_jumps_least() -> None:
    assert judge_steadiest("", RACE, "fast", ["slow", "lost"]).verdict == HOLDS
    assert judge_steadiest("", RACE, "lost", ["fast"]).verdict == FAILS
    assert judge_steadiest("", RACE | {"alike": replace(SLOW, label="alike")}, "slow", ["alike"]).verdict == FAILS
