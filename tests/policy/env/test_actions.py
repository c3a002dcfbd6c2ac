"""Three forms of one action, and what is wrong with those that are none."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from policy.env.actions import as_action, box_decision, level_decision, read_action, read_any_action
from policy.env.offloading import EdgeOffloadEnv
from policy.env.wrappers import FlatAction, MultiDiscreteAction
from policy.errors import ActionError, PolicyError
from policy.parameters import LatencyParams
from policy.world.projection import Decision

WORLD = LatencyParams(devices=2, servers=2, channels=1)
"""Three choices for each of two devices: a dict of 2 and 2 x 4, a Box of 14, a MultiDiscrete of 10"""


def box() -> np.ndarray[Any, Any]:
    """Device 0 offloads to server 1 with shares 0, 1/2, 1, 1; device 1 trains with shares of 0."""
    return np.array([[-1, 0, 1, -1, 0, 1, 1], [0.5, 0, 0, -1, -1, -1, -1]], np.float32)


def test_the_largest_score_is_the_choice_and_shares_begin_at_minus_one() -> None:
    found = read_any_action(box().reshape(-1), None, WORLD)
    assert found.choice.tolist() == [[2, 0]]
    assert found.shares.tolist() == [[[0, 0.5, 1, 1], [0, 0, 0, 0]]]


def test_levels_are_thirds() -> None:
    found = read_any_action(np.array([2, 0, 1, 2, 3, 0, 3, 3, 3, 3]), None, WORLD)
    assert found.choice.tolist() == [[2, 0]]
    assert found.shares[0, 0].tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_the_same_action_in_all_its_forms_is_the_same_decision() -> None:
    decision = Decision(np.array([[2, 0]]), np.array([[[0, 1, 1, 1], [0, 0, 0, 0]]], float))
    flat = box()
    flat[0, 4] = 1
    levels = np.array([[2, 0, 3, 3, 3], [0, 0, 0, 0, 0]])
    for action in (as_action(decision), flat, levels):
        found = read_any_action(action, None, WORLD)
        assert np.array_equal(found.choice, decision.choice)
        assert np.array_equal(found.shares, decision.shares)


def test_many_states_are_read_at_once(subtests: pytest.Subtests) -> None:
    one = {"flat": box().reshape(-1), "levels": np.array([2, 0, 1, 2, 3, 0, 3, 3, 3, 3])}
    readers = {"flat": box_decision, "levels": level_decision}
    for form, action in one.items():
        with subtests.test(form=form):
            found = read_any_action(np.stack([action] * 3), 3, WORLD)
            assert found.choice.tolist() == [[2, 0]] * 3
            assert np.array_equal(found.shares, readers[form](np.stack([action] * 3), WORLD).shares)


def test_the_wrappers_carry_out_what_the_dict_would(subtests: pytest.Subtests) -> None:
    for wrapper, action in ((FlatAction, box().reshape(-1)), (MultiDiscreteAction, np.array([2, 0, 1, 2, 3] * 2))):
        with subtests.test(wrapper=wrapper.__name__):
            wrapped, bare = wrapper(EdgeOffloadEnv(WORLD)), EdgeOffloadEnv(WORLD)
            wrapped.reset(seed=5)
            bare.reset(seed=5)
            assert wrapped.action_space.contains(action)
            earned = wrapped.step(action)[1]
            assert earned == bare.step(as_action(read_any_action(action, None, WORLD)))[1]


def test_only_our_environment_is_wrapped() -> None:
    with pytest.raises(PolicyError, match=r'expected gymnasium.make\("policy.env:bfl/EdgeOffload-v0"\)'):
        FlatAction(gym.make("CartPole-v1"))


def test_a_decision_for_several_states_is_no_action() -> None:
    with pytest.raises(ActionError, match="found a decision for 3 states, expected one"):
        as_action(Decision(np.zeros((3, 2), int), np.zeros((3, 2, 4))))


def test_what_is_no_action_is_told(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        (None, "no array of numbers, but None"),
        ("offload", "no array of numbers, but 'offload'"),
        ([[1, 2], [3]], "no array of numbers: "),
        (np.zeros(13), "an array of float64 of shape .13,., expected for each of 1 states a dict"),
        (np.zeros(14, int), "14 numbers .FlatAction. or 10 whole numbers .MultiDiscreteAction."),
        (np.full(10, 4), "whole numbers 4 to 4, expected those of the action space"),
        (np.full(14, np.nan), "not finite"),
        ({"choice": np.zeros(2, int)}, "a dict with choice as an action, expected a dict with choice"),
        ({"choice": np.zeros(3, int), "params": np.zeros((3, 4))}, "is it for 2 devices"),
    ]
    for action, told in cases:
        with subtests.test(told=told), pytest.raises(ActionError, match=told):
            read_any_action(action, None, WORLD)


def test_a_dict_is_told_from_an_array_that_wants_a_wrapper() -> None:
    with pytest.raises(ActionError, match=r"wrap the environment \(policy.env.wrappers\)"):
        read_action(np.zeros(14), None, WORLD)
