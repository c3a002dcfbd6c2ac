"""The environments: gymnasium's own check, same seed same episode, one like many, and what they refuse."""

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from policy.env import ENV_ID
from policy.env.offloading import EdgeOffloadEnv, EdgeOffloadVectorEnv
from policy.env.wrappers import FlatAction
from policy.errors import ActionError, PolicyError
from policy.parameters import LatencyParams


def episode(env: Any, seed: int, steps: int = 5) -> list[tuple[bytes, float]]:
    seen, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    found = [(seen.tobytes(), 0.0)]
    for _ in range(steps):
        seen, earned, *_ = env.step(env.action_space.sample())
        found.append((seen.tobytes(), float(np.sum(earned))))
    return found


def test_gymnasium_has_nothing_to_say() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(ENV_ID, devices=7).unwrapped)


def test_an_observation_has_39_numbers_per_device_and_one_per_server() -> None:
    assert EdgeOffloadEnv().observation_space.shape == (30 * 39 + 5,)


def test_the_same_seed_is_the_same_episode() -> None:
    assert episode(EdgeOffloadEnv(devices=4), 7) == episode(EdgeOffloadEnv(devices=4), 7)
    assert episode(EdgeOffloadEnv(devices=4), 7) != episode(EdgeOffloadEnv(devices=4), 8)
    many = [episode(EdgeOffloadVectorEnv(3, devices=4), 7) for _ in range(2)]
    assert many[0] == many[1]


def test_one_of_many_is_like_one() -> None:
    one, many = EdgeOffloadEnv(devices=4), EdgeOffloadVectorEnv(1, devices=4)
    first, _ = one.reset(seed=3)
    firsts, _ = many.reset(seed=3)
    assert np.array_equal(first, firsts[0])
    one.action_space.seed(0)
    for _ in range(4):
        action = one.action_space.sample()
        seen, earned, _, _, info = one.step(action)
        seens, earneds, _, _, infos = many.step({name: values[None] for name, values in action.items()})
        assert np.array_equal(seen, seens[0])
        assert earned == earneds[0]
        assert info["T"] == infos["T"][0]


def test_an_episode_is_truncated_after_its_steps_and_the_next_begins() -> None:
    env = EdgeOffloadVectorEnv(2, LatencyParams(devices=2, steps=3))
    env.reset(seed=0)
    ended = []
    for _ in range(6):
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        ended.append(bool(truncated.all()))
        assert not terminated.any()
        assert ("final_obs" in info) == ended[-1]
    assert ended == [False, False, True, False, False, True]


def test_the_allocation_of_the_last_round_is_in_the_observation() -> None:
    env = EdgeOffloadEnv(devices=2)
    env.reset(seed=1)
    shares = np.full((2, 4), 0.5, np.float32)
    seen, *_ = env.step({"choice": np.array([3, 0]), "params": shares})
    rows = seen[: 2 * 39].reshape(2, 39)
    assert rows[0, 4:9].tolist() == [0, 0, 1, 0, 0]
    assert rows[0, 9:14][2] == pytest.approx((0.1 + 0.5 * 19.9) / 20)
    assert not rows[1, 4:14].any()


def test_the_flat_box_takes_the_largest_score() -> None:
    env = FlatAction(gym.make(ENV_ID, devices=2))
    env.reset(seed=0)
    action = -np.ones((2, 30), np.float32)
    action[0, 3], action[1, 0] = 1, 1
    read = env.action(action.reshape(-1))
    assert read["choice"].tolist() == [3, 0]
    assert not read["params"].any()
    assert float(env.step(action.reshape(-1))[1]) <= np.e - 1


def test_actions_that_are_none_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        None,
        {"choice": np.zeros(3, int)},
        {"choice": np.zeros(4, int), "params": np.zeros((4, 4))},
        {"choice": np.zeros(3), "params": np.zeros((3, 4))},
        {"choice": np.full(3, 26), "params": np.zeros((3, 4))},
        {"choice": np.zeros(3, int), "params": np.full((3, 4), np.nan)},
        {"choice": np.zeros(3, int), "params": np.full((3, 4), 1.1)},
        {"choice": "local", "params": np.zeros((3, 4))},
    ]
    for action in cases:
        with subtests.test(action=action):
            env = EdgeOffloadEnv(devices=3)
            env.reset(seed=0)
            with pytest.raises(ActionError):
                env.step(action)


def test_a_step_before_a_reset_is_refused() -> None:
    env = EdgeOffloadEnv(devices=3)
    with pytest.raises(ActionError, match=r"call reset\(\) first"):
        env.step(env.action_space.sample())


def test_impossible_worlds_are_refused_by_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"bandwidth_hz": 0.0}, "bandwidth_hz: found 0.0, expected a positive number"),
        ({"devices": 2.5}, "devices: found 2.5, expected a whole number"),
        ({"devices": "4"}, "devices: found '4', expected a finite number"),
        ({"devices": np.array([4, 5])}, "devices: found array"),
        ({"device": 4}, r'found the parameter device, expected one of .*LatencyParams \(did you mean "devices"\?\)$'),
        ({"qqqq": 4}, "found the parameter qqqq, expected one of .*LatencyParams: devices, servers, "),
        ({"params": {"devices": 4}}, "params: found dict, expected LatencyParams; or give its fields by name"),
        ({"params": LatencyParams(), "devices": 4}, "found params and devices beside it, expected one or the other"),
    ]
    for fields, told in cases:
        for make in (EdgeOffloadEnv, EdgeOffloadVectorEnv, lambda **fields: gym.make(ENV_ID, **fields)):
            with subtests.test(told=told), pytest.raises(PolicyError, match=told):
                make(**fields)
    with pytest.raises(PolicyError, match="render_mode: found 'human', expected None"):
        EdgeOffloadEnv(render_mode="human")


def test_numbers_of_numpy_are_numbers() -> None:
    env: Any = gym.make(ENV_ID, devices=np.int64(4), hold=np.float32(0.5)).unwrapped
    assert env.params == LatencyParams(devices=4, hold=0.5)
