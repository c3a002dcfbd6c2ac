"""A cache of trained agents: each is trained once and taken from its folder afterwards."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import policy.cache
from policy.actor.weights import read_weights
from policy.agents import LEARNERS, UPDATES
from policy.cache import AgentCache, validation_latency_s
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.rivals.heuristics import greedy_channel
from policy.rivals.library import LIBRARY_AGENTS
from policy.training.settings import LearningParams
from policy.world.state import new_state

WORLD = LatencyParams(devices=3, servers=2, channels=2)
TINY = LearningParams(devices=(3, 2), rows=16, samples=2, hidden=4, passes=1)
OWN = ["a2c", "a2c-vanilla", "actor-critic", "a2c-paper"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentCache:
    """The agents of our own, made tiny: two updates."""
    for name in OWN:
        paper = {"architecture": "paper", "devices": (3,)} if name == "a2c-paper" else {}
        monkeypatch.setitem(LEARNERS, name, replace(TINY, **paper))  # type: ignore[arg-type]
        monkeypatch.setitem(UPDATES, name, 2)
    return AgentCache(tmp_path / "agents", WORLD)


def refuse(*_: object) -> None:
    raise AssertionError("trained again")


@pytest.mark.parametrize("name", OWN)
def test_an_agent_is_trained_once_and_read_afterwards(
    cache: AgentCache, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []
    agent, curve = cache.agent(name, seed=5, on_progress=lambda part, _: told.append(part))
    assert curve is not None
    assert (curve.agent, curve.seed) == (name, 5)
    assert told == [0.5, 1.0]
    monkeypatch.setattr(policy.cache, "train_own_agent", refuse)
    again, same = cache.agent(name, seed=5)
    assert same == curve
    state = new_state(WORLD, 4, np.random.default_rng(0))
    first, second = (each(state, WORLD, np.random.default_rng(0)) for each in (agent, again))
    first.check(state)
    assert np.array_equal(first.choice, second.choice)
    assert np.array_equal(first.shares, second.shares)
    with pytest.raises(AssertionError, match="trained again"):
        cache.agent(name, seed=6)
    with pytest.raises(AssertionError, match="trained again"):
        replace(cache, effort=0.5).agent(name, seed=5)


def test_a_curve_follows_the_rounds_of_one_number_of_devices(cache: AgentCache) -> None:
    """First 5 states twice with 3 devices, then 8 states twice with 2: of 26 rounds the first 10 count."""
    _, curve = cache.agent("a2c")
    assert curve is not None
    assert curve.rounds == [10]
    assert len(curve.per_device_s) == 1
    assert 0 < curve.final_s < 10


def test_weights_say_what_network_they_are_for(cache: AgentCache) -> None:
    cache.agent("a2c")
    cache.agent("a2c-paper")
    shared, paper = (
        read_weights(next(cache.folder.glob(f"{name}-seed0-effort1-????????.json"))).sizes
        for name in ("a2c", "a2c-paper")
    )
    assert shared == {"hidden": 4, "passes": 1}
    assert paper == {"devices": 3, "servers": 2, "channels": 2}


def test_less_effort_is_fewer_updates_but_at_least_one(cache: AgentCache) -> None:
    for effort in (0.5, 1e-6):
        told: list[float] = []
        replace(cache, effort=effort).agent("a2c", on_progress=lambda part, _, told=told: told.append(part))  # type: ignore[misc]
        assert told == [1.0]


def test_rules_have_no_curve_and_nothing_is_written_for_them(cache: AgentCache) -> None:
    agent, curve = cache.agent("greedy-channel")
    assert agent is greedy_channel
    assert curve is None
    assert not cache.folder.exists()


def test_an_agent_of_the_library_is_kept_too(cache: AgentCache, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_baselines3")
    quick = replace(cache, effort=32 / LIBRARY_AGENTS["dqn"].rounds)
    agent, curve = quick.agent("dqn")
    assert curve is not None
    assert curve.rounds == [16, 32]
    assert curve.final_s == pytest.approx(validation_latency_s(agent, WORLD))
    monkeypatch.setattr(policy.cache, "train_agent", refuse)
    again, same = quick.agent("dqn")
    assert same == curve
    assert validation_latency_s(again, WORLD) == pytest.approx(curve.final_s)


def test_an_unknown_agent_is_refused(cache: AgentCache) -> None:
    with pytest.raises(PolicyError, match="found agent 'alpha', expected one of a2c"):
        cache.agent("alpha")
