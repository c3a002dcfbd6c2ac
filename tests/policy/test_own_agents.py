"""Somebody's own agent decides like ours, and what is wrong with one is told in a line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from policy.env.actions import as_action
from policy.env.observation import observation_size
from policy.errors import ActionError, ObservationError, PolicyError
from policy.evaluation import evaluate_agent
from policy.own_agents import OwnAgent, takes_a_world
from policy.parameters import LatencyParams
from policy.rivals.heuristics import all_local, request_everything
from policy.world.projection import Decision
from policy.world.state import new_state

WORLD = LatencyParams(devices=3, servers=2, channels=2)
LOCAL = as_action(request_everything(np.zeros((1, 3), np.int64)))


class Drawing:
    """Draws its choices, and draws the same after the same seed."""

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def decide(self, observation: Any) -> dict[str, Any]:
        return {"choice": self.rng.integers(0, 5, 3), "params": self.rng.random((3, 4))}


class Model:
    """What a model of stable-baselines3 has; it sends everybody to the choice that its first number says."""

    def __init__(self, size: int, per_row: int) -> None:
        self.observation_space = spaces.Box(-4, 4, (size,))
        self.per_row = per_row

    def predict(self, observations: Any, deterministic: bool) -> tuple[Any, None]:
        assert deterministic
        assert observations.shape[1:] == self.observation_space.shape
        return np.tile([1, 3, 3, 3, 3], (len(observations), self.per_row)), None


def decided(make: Any, states: int = 4, seed: int = 0) -> Decision:
    state = new_state(WORLD, states, np.random.default_rng(1))
    return OwnAgent("mine", make)(state, WORLD, np.random.default_rng(seed))


def test_a_function_of_an_observation_is_an_agent() -> None:
    seen: list[Any] = []

    def decide(observation: Any) -> Any:
        seen.append(observation)
        return LOCAL

    score = evaluate_agent("mine", OwnAgent("mine", lambda world: decide), WORLD, 5)
    assert [each.shape for each in seen] == [(observation_size(WORLD),)] * 5
    assert score.per_state_s.tolist() == evaluate_agent("all-local", all_local, WORLD, 5).per_state_s.tolist()


def test_an_object_decides_one_by_one_or_all_at_once() -> None:
    class OneByOne:
        def decide(self, observation: Any) -> Any:
            choice = int(observation[0] > 0.5)
            return {"choice": np.full(3, choice), "params": np.ones((3, 4))}

    class AtOnce(OneByOne):
        def decide_batch(self, observations: Any) -> Any:
            choice = (observations[:, :1] > 0.5).astype(int)
            return {"choice": np.tile(choice, (1, 3)), "params": np.ones((len(observations), 3, 4))}

    one, many = decided(lambda world: OneByOne(), 20), decided(lambda world: AtOnce(), 20)
    assert np.array_equal(one.choice, many.choice)
    assert set(one.choice.ravel().tolist()) == {0, 1}


def test_a_model_reads_whole_states_or_the_rows_of_devices() -> None:
    whole = decided(lambda world: Model(observation_size(world), 3))
    rows = decided(lambda world: Model(4 + 2 * 2 + 4 + 2 + 1, 1))
    assert whole.choice.tolist() == rows.choice.tolist() == [[1, 1, 1]] * 4
    assert not OwnAgent("mine", lambda world: Model(7, 1)).serves(WORLD)


def test_an_agent_is_made_once_for_each_world_and_need_not_serve_all() -> None:
    made: list[int] = []

    def make(world: LatencyParams) -> object:
        made.append(world.devices)
        return (lambda observation: LOCAL) if world.devices == 3 else None

    agent = OwnAgent("mine", make)
    assert [agent.serves(WORLD), agent.serves(WORLD), agent.serves(LatencyParams(devices=9))] == [True, True, False]
    assert made == [3, 9]
    with pytest.raises(PolicyError, match=r"agent mine: it does not serve 9 devices, 5 servers x 5 sub-channels"):
        agent(new_state(LatencyParams(devices=9), 1, np.random.default_rng(0)), LatencyParams(devices=9), None)  # type: ignore[arg-type]


def test_an_agent_that_draws_draws_the_same_again() -> None:
    assert np.array_equal(decided(lambda world: Drawing()).shares, decided(lambda world: Drawing()).shares)
    assert not np.array_equal(decided(lambda world: Drawing()).shares, decided(lambda world: Drawing(), 4, 1).shares)


def test_the_behaviour_tells_one_training_from_another() -> None:
    def trained(share: float) -> OwnAgent:
        return OwnAgent("mine", lambda world: lambda observation: LOCAL | {"params": np.full((3, 4), share)})

    assert trained(0.5).behaviour(WORLD) == trained(0.5).behaviour(WORLD) != trained(0.5001).behaviour(WORLD)


def test_what_is_no_agent_is_told(subtests: pytest.Subtests) -> None:
    def decide(observation: Any) -> Any:
        return observation[:3] > 0

    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: 3, PolicyError, r"agent mine: expected a function of one argument, make\(world\)"),
        (lambda state, params, rng: 3, PolicyError, "a function of one argument"),
        (decide, PolicyError, r"called with the world.*not subscriptable; .*test_own_agents.py, line \d+"),
        (lambda world: Path("no.zip").read_bytes(), PolicyError, r"agent mine: found .*'no.zip'; is it trained, and"),
        (lambda world: 3, PolicyError, "its function gave 3, expected an object with decide"),
        (lambda world: Drawing, PolicyError, "its function gave <class"),
        (lambda world: lambda observation: None, ActionError, "agent mine: found an action that is no array"),
        (lambda world: lambda observation: np.zeros(5), ActionError, "agent mine: found an array of float64"),
        (
            lambda world: lambda seen: LOCAL | {"choice": np.full(3, 5)},
            ActionError,
            r"mine: found a choice outside 0..4",
        ),
        (lambda world: lambda seen: LOCAL | {"params": np.full((3, 4), 2.0)}, ActionError, "a share that is not in"),
    ]
    for make, kind, told in cases:
        with subtests.test(told=told), pytest.raises(kind, match=told):
            decided(make)


def test_an_error_of_the_agent_itself_is_left_as_it_is() -> None:
    def decide(observation: Any) -> Any:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        decided(lambda world: decide)


def test_an_observation_is_no_state() -> None:
    agent = OwnAgent("mine", lambda world: lambda observation: LOCAL)
    with pytest.raises(ObservationError, match=r"found ndarray of shape \(39,\), expected a policy.world.state.State"):
        agent(np.zeros(39), WORLD, np.random.default_rng(0))  # type: ignore[arg-type]


def test_one_argument_makes_an_agent_and_three_a_planner() -> None:
    assert takes_a_world(lambda world: None)
    assert takes_a_world(lambda world, path="agent.zip": None)
    assert not takes_a_world(lambda state, params, rng: None)
    assert not takes_a_world(lambda: None)
