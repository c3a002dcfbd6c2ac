"""The learned baselines: the devices' environment against the latency model, training, deciding, saving, refusals."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from policy.env.observation import LastAllocation, observation
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.rivals.library import LIBRARY_AGENTS, LibraryAgent, load_agent, train_agent
from policy.world.latency import latency_of
from policy.world.projection import Decision
from policy.world.state import State, new_state

pytest.importorskip("stable_baselines3")

from policy.rivals.device_env import ACTIONS, DeviceVecEnv, device_observation, device_reward

SMALL = LatencyParams(devices=3, servers=2, channels=2, steps=5)

pytestmark = pytest.mark.slow


def new_env(actions: str = "discrete", params: LatencyParams = SMALL, batch: int = 2) -> DeviceVecEnv:
    env = DeviceVecEnv(params, batch, actions)
    env.seed(5)
    env.reset()
    return env


def sampled(env: DeviceVecEnv) -> Any:
    return np.array([env.action_space.sample() for _ in range(env.num_envs)])


def mean_latency_s(agent: LibraryAgent, params: LatencyParams) -> float:
    state = new_state(params, 500, np.random.default_rng(77))
    decision = agent.decide(state, params, np.random.default_rng(0))
    return float(latency_of(decision, state, params).per_device_s.mean())


def test_a_device_sees_its_own_numbers_those_of_the_servers_and_the_load() -> None:
    state, last = new_state(SMALL, 2, np.random.default_rng(0)), LastAllocation.none(2, SMALL)
    flat, rows = observation(state, last, SMALL), device_observation(state, last, SMALL)
    assert rows.shape == (6, 4 + 2 * 2 + 4 + 2 + 1)
    assert np.array_equal(rows[4, :12], flat[1, 12:24])
    assert np.array_equal(rows[4, 12:14], flat[1, -2:])
    assert rows[:, 14] == pytest.approx(np.log(3 / 4))


def test_actions_are_read_as_written() -> None:
    one = LatencyParams(devices=1, servers=1, channels=2)
    relaxed = ACTIONS["relaxed"].decision(np.array([[0.1, -1, 0.9, 1, -1, 0, 0.5]]), one)
    assert relaxed.choice.tolist() == [[2]]
    assert relaxed.shares.tolist() == [[[1, 0, 0.5, 0.75]]]
    discrete = ACTIONS["discrete"].decision(np.array([0, 3, 5]), one)
    assert discrete.choice.tolist() == [[0], [1], [2]]
    assert discrete.shares[:, 0, 0] == pytest.approx([1, 1, 2 / 3])
    multi = ACTIONS["multi"].decision(np.array([[2, 0, 1, 2, 3]]), one)
    assert multi.choice.tolist() == [[2]]
    assert multi.shares[0, 0] == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_latency_and_reward_are_those_of_the_model(subtests: pytest.Subtests) -> None:
    for actions in ACTIONS:
        with subtests.test(actions=actions):
            env = new_env(actions)
            state, taken = env.state, sampled(env)
            _, rewards, _, _ = env.step(taken)
            decision = ACTIONS[actions].decision(taken, SMALL)
            latency = latency_of(decision, state, SMALL)
            assert env.per_device_s == pytest.approx(latency.total_s / 3)
            expected = device_reward(decision, state, latency, SMALL)
            assert rewards.reshape(2, 3) == pytest.approx(expected, rel=1e-6)
            assert rewards.any()


def test_what_an_action_saves_is_counted_in_latency_bounds() -> None:
    """One device, heard with SNR 1000: 0.72 s of training and its model against 8 Mbit and 0.16 s at the server."""
    one, params = np.ones((1, 1)), LatencyParams(devices=1, servers=1, channels=1)
    gain = np.full((1, 1, 1, 1), 1e-10)
    state = State(gain[..., 0], gain, one * 8e6, one * 0.9e9, one * 1e9, one * 5e11, one * 1e9)
    decision = Decision(np.array([[1]]), np.ones((1, 1, 4)))
    sent_s, model_s = (bits / (20e6 * np.log2(1001)) for bits in (8e6, params.model_bits))
    found = device_reward(decision, state, latency_of(decision, state, params), params)
    assert found[0, 0] == pytest.approx((0.72 + model_s - 0.16 - sent_s) / 3)


def test_an_episode_is_cut_off_for_all_and_the_next_begins() -> None:
    env = new_env()
    for _ in range(4):
        _, _, done, infos = env.step(sampled(env))
        assert not done.any()
        assert infos == [{}] * 6
    place = env.state.path_gain
    seen, _, done, infos = env.step(sampled(env))
    assert done.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert not np.array_equal(infos[0]["terminal_observation"], np.asarray(seen)[0])
    assert not np.array_equal(place, env.state.path_gain)


def test_an_agent_decides_for_any_number_of_devices_and_the_same_after_it_was_saved(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for name in LIBRARY_AGENTS:
        with subtests.test(name=name):
            agent, again, other = (train_agent(name, SMALL, 96, seed) for seed in (3, 3, 4))
            more = LatencyParams(devices=7, servers=2, channels=2)
            state = new_state(more, 20, np.random.default_rng(0))
            decision, same, different = (a.decide(state, more, np.random.default_rng(0)) for a in (agent, again, other))
            decision.check(state)
            assert np.array_equal(decision.choice, same.choice)
            assert np.array_equal(decision.shares, same.shares)
            assert not (
                np.array_equal(decision.choice, different.choice) and np.array_equal(decision.shares, different.shares)
            )
            agent.save(tmp_path / "agent.zip")
            found = load_agent(tmp_path / "agent.zip")
            assert found == agent
            assert np.array_equal(found.decide(state, more, np.random.default_rng(0)).shares, decision.shares)
            assert np.array_equal(found.decide(state, more, np.random.default_rng(0)).choice, decision.choice)


def test_learning_lowers_the_latency(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["dqn", "a2c-discretised"]
    for name in cases:
        with subtests.test(name=name):
            params = LatencyParams(devices=4, servers=1, channels=2)
            told: list[int] = []
            before, after = (
                train_agent(name, params, 16, 0),
                train_agent(name, params, 1600, 0, lambda done, _, told=told: told.append(done)),  # type: ignore[misc]
            )
            assert told == list(range(16, 1601, 16))
            assert mean_latency_s(after, params) < 0.9 * mean_latency_s(before, params)


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PolicyError, match="found agent 'ppo', expected one of ddpg, dqn"):
        train_agent("ppo", SMALL, 16, 0)
    with pytest.raises(PolicyError, match="found 0 rounds and seed 0"):
        train_agent("dqn", SMALL, 0, 0)
    agent, other = train_agent("dqn", SMALL, 16, 0), LatencyParams(devices=3, servers=2, channels=3)
    with pytest.raises(PolicyError, match=r"found a state of 2 servers x 3 sub-channels.*expected 2 x 2"):
        agent.decide(new_state(other, 1, np.random.default_rng(0)), other, np.random.default_rng(0))
    (tmp_path / "no.zip").write_bytes(b"no zip")
    with pytest.raises(PolicyError, match="found no saved agent"):
        load_agent(tmp_path / "no.zip")
    replace(agent, channels=3).save(tmp_path / "other.zip")
    with pytest.raises(PolicyError, match="found no weights of dqn for 2 x 3 slots"):
        load_agent(tmp_path / "other.zip")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(PolicyError, match=r"not installed; get it with: .* install .*\[baselines\]'"):
        train_agent("dqn", SMALL, 16, 0)
