"""Evaluation: the same states for everybody, intervals, agents by name, and search from a decision."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from policy.actor.networks import SharedActor
from policy.actor.weights import write_weights
from policy.agents import (
    LEARNERS,
    NAMES,
    OPTIMUM,
    UPDATES,
    check_name,
    fixed_agent,
    learning_params,
    policy_agent,
    searched_agent,
)
from policy.errors import PolicyError
from policy.evaluation import CHUNK, Score, evaluate_agent, fresh_states, half_width, ratio
from policy.parameters import LatencyParams
from policy.rivals.heuristics import HEURISTICS, all_local, greedy_channel, random_decision, threshold
from policy.rivals.library import LIBRARY_AGENTS
from policy.rivals.optimum import search_nearby
from policy.world.latency import latency_of
from policy.world.projection import Decision
from policy.world.state import Array, State, new_state

WORLD = LatencyParams(devices=4, servers=2, channels=2)


def same(one: State, other: State) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    write_weights(tmp_path / "w.json", SharedActor(4, 2), {})
    return tmp_path / "w.json"


def test_states_come_in_chunks_and_are_the_same_at_each_call() -> None:
    first, again = fresh_states(WORLD, 2 * CHUNK + 7), fresh_states(WORLD, 2 * CHUNK + 7)
    assert [chunk.shape[0] for chunk in first] == [CHUNK, CHUNK, 7]
    assert all(same(one, other) for one, other in zip(first, again, strict=True))
    assert not same(first[0], first[1])


def test_more_states_begin_with_the_same_whole_chunks() -> None:
    few, many = fresh_states(WORLD, CHUNK + 1), fresh_states(WORLD, 3 * CHUNK)
    assert same(few[0], many[0])


def test_another_seed_or_world_has_other_states() -> None:
    (here,), (there,) = fresh_states(WORLD, 3), fresh_states(WORLD, 3, seed=1)
    assert not same(here, there)
    (wider,) = fresh_states(dataclasses.replace(WORLD, bandwidth_hz=1e7), 3)
    assert same(here, wider)


def test_every_agent_sees_the_same_states_whatever_it_draws() -> None:
    seen: list[State] = []
    told: list[int] = []

    def watching(state: State, params: LatencyParams, rng: np.random.Generator) -> Decision:
        seen.append(state)
        return random_decision(state, params, rng) if len(seen) > 2 else all_local(state, params, rng)

    for _ in range(2):
        evaluate_agent("watching", watching, WORLD, CHUNK + 5, on_progress=told.append)
    assert same(seen[0], seen[2])
    assert same(seen[1], seen[3])
    assert told == [CHUNK, 5] * 2


def test_a_score_is_the_latency_of_each_state() -> None:
    score = evaluate_agent("greedy-channel", greedy_channel, WORLD, CHUNK + 5)
    expected = [
        latency_of(greedy_channel(state, WORLD, np.random.default_rng(0)), state, WORLD).per_device_s
        for state in fresh_states(WORLD, CHUNK + 5)
    ]
    assert score.per_state_s.tolist() == np.concatenate(expected).tolist()
    assert score.mean_s == pytest.approx(float(np.concatenate(expected).mean()))
    assert score.decide_ms > 0
    again = [evaluate_agent("random", random_decision, WORLD, 9).per_state_s.tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_no_states_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[int] = [0, -3]
    for states in cases:
        refused = pytest.raises(PolicyError, match=f"states: found {states}, expected at least 1")
        with subtests.test(states=states), refused:
            evaluate_agent("all-local", all_local, WORLD, states)


def test_a_half_width_by_hand() -> None:
    """1, 2, 3, 4: variance 5/3, 1.959964 sqrt(5/3) / 2. One value has none."""
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert half_width(values) == pytest.approx(1.959964 * np.sqrt(5 / 3) / 2)
    assert Score("it", WORLD, values, 2.0, 0.1).half_width_s == half_width(values)
    assert half_width(np.array([3.0])) == 0


def test_a_ratio_by_hand() -> None:
    """Means 3 and 2; a - 1.5 b = (-0.5, 0.5), deviation sqrt(1/2), over sqrt(2), over the mean of b."""
    found = ratio(np.array([1.0, 5.0]), np.array([1.0, 3.0]))
    assert found.value == 1.5
    assert found.half_width == pytest.approx(1.959964 * 0.5 / 2)


def test_a_ratio_to_itself_is_certain() -> None:
    values = np.random.default_rng(0).uniform(1, 2, 50)
    assert ratio(3 * values, values).value == pytest.approx(3)
    assert ratio(3 * values, values).half_width == pytest.approx(0, abs=1e-12)


def pairs(correlation: float) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    common = rng.normal(size=400)
    scores = 1.4 + 0.2 * (correlation * common + rng.normal(size=400))
    return scores, 1.0 + 0.15 * (common + 0.3 * rng.normal(size=400))


def test_the_interval_of_a_ratio_is_that_of_a_bootstrap(subtests: pytest.Subtests) -> None:
    cases: list[float] = [0.0, 1.0, 3.0]
    for correlation in cases:
        with subtests.test(correlation=correlation):
            scores, yardstick = pairs(correlation)
            picked = np.random.default_rng(6).integers(0, 400, (4000, 400))
            ratios = scores[picked].mean(axis=1) / yardstick[picked].mean(axis=1)
            low, high = np.quantile(ratios, [0.025, 0.975])
            found = ratio(scores, yardstick)
            assert found.half_width == pytest.approx((high - low) / 2, rel=0.08)
            assert found.value == pytest.approx((high + low) / 2, abs=0.2 * found.half_width)


def test_names_are_unique_and_every_one_is_known() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) >= {OPTIMUM, *HEURISTICS, *LEARNERS}
    assert UPDATES.keys() == LEARNERS.keys()
    for name in NAMES:
        check_name(name)
    with pytest.raises(PolicyError, match="found agent 'oracle', expected one of a2c, "):
        check_name("oracle")


def test_agents_without_weights_decide(subtests: pytest.Subtests) -> None:
    cases: list[str] = [*HEURISTICS, OPTIMUM]
    for name in cases:
        with subtests.test(name=name):
            agent, state = fixed_agent(name), new_state(WORLD, 3, np.random.default_rng(0))
            assert agent is not None
            agent(state, WORLD, np.random.default_rng(0)).check(state)


def test_the_others_have_to_be_trained(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["a2c-vanilla", "actor-critic", "a2c-paper", "ddpg", "dqn", "a2c-relaxed"]
    for name in cases:
        with subtests.test(name=name):
            assert fixed_agent(name) is None
            assert name in LEARNERS or name in LIBRARY_AGENTS


def test_a_seed_goes_into_the_settings() -> None:
    assert learning_params("actor-critic", 4) == dataclasses.replace(LEARNERS["actor-critic"], seed=4)
    assert not learning_params("actor-critic", 4).has_advantage


def test_agents_of_a_file_decide_and_searching_helps(weights: Path) -> None:
    plain, best_of, search = (
        evaluate_agent("it", agent, WORLD, 12).per_state_s
        for agent in (policy_agent(weights), policy_agent(weights, tries=8), searched_agent(weights))
    )
    assert (best_of <= plain).all()
    assert best_of.mean() < plain.mean()
    assert search.mean() < best_of.mean()


def test_a_search_is_never_worse_than_where_it_began(subtests: pytest.Subtests) -> None:
    """Where the decision has no time-outs."""
    cases: list[str] = ["all-local", "greedy-channel", "threshold", "random", OPTIMUM]
    for name in cases:
        with subtests.test(name=name):
            params = LatencyParams(devices=6, servers=2, channels=2)
            state, agent = new_state(params, 30, np.random.default_rng(8)), fixed_agent(name)
            assert agent is not None
            decision = agent(state, params, np.random.default_rng(9))
            began = latency_of(decision, state, params)
            found = latency_of(search_nearby(decision, state, params), state, params)
            quiet = ~began.is_timeout.any(axis=1)
            assert quiet.sum() >= 5
            assert (found.total_s[quiet] <= began.total_s[quiet] + 1e-9).all()
            assert not found.is_timeout.any()


def test_a_search_from_a_rule_comes_close_to_the_optimum() -> None:
    params = LatencyParams(devices=6, servers=2, channels=2)
    state, optimum = new_state(params, 20, np.random.default_rng(8)), fixed_agent(OPTIMUM)
    assert optimum is not None
    rng = np.random.default_rng(0)
    best = latency_of(optimum(state, params, rng), state, params).total_s
    found = latency_of(search_nearby(threshold(state, params, rng), state, params), state, params).total_s
    assert found.mean() == pytest.approx(best.mean(), rel=0.02)
