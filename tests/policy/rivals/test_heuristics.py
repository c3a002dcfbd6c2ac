"""The simple policies against the reference table (section 3 of the latency spec)."""

import numpy as np
import pytest

from policy.parameters import LatencyParams
from policy.rivals.heuristics import HEURISTICS, all_local, all_offload, greedy_channel, threshold
from policy.world.latency import latency_of
from policy.world.state import State, new_state

REFERENCE = {
    "random": {10: 3.21, 20: 3.26, 30: 3.19, 50: 3.03, 100: 3.18},
    "all-local": {10: 1.66, 20: 1.68, 30: 1.74, 50: 2.01, 100: 2.63},
    "all-offload": {10: 1.14, 20: 1.44, 30: 1.61, 50: 1.93, 100: 2.55},
    "greedy-channel": {10: 0.98, 20: 1.23, 30: 1.41, 50: 1.79, 100: 2.49},
    "threshold": {10: 0.96, 20: 1.19, 30: 1.37, 50: 1.76, 100: 2.48},
}


def two_devices() -> tuple[State, LatencyParams]:
    """Device 0 is near server 1, heard best on sub-channel 0 of it; device 1 is heard by nobody and slow."""
    gain = np.array([[[[1e-12, 2e-12], [9e-11, 8e-11]], [[1e-17, 1e-17], [1e-17, 2e-17]]]])
    same = np.ones((1, 2))
    state = State(gain.mean(axis=3), gain, same * 8e6, same * 0.9e9, same * 1e9, same * 5e11, np.ones((1, 2)) * 1e9)
    return state, LatencyParams(devices=2, servers=2, channels=2)


def test_each_policy_chooses_what_its_name_says() -> None:
    state, params = two_devices()
    rng = np.random.default_rng(0)
    assert all_local(state, params, rng).choice.tolist() == [[0, 0]]
    assert ((all_offload(state, params, rng).choice - 1) // 2).tolist() == [[1, 1]]
    assert greedy_channel(state, params, rng).choice.tolist() == [[3, 4]]
    assert threshold(state, params, rng).choice.tolist() == [[3, 0]]


def test_every_decision_is_an_action(subtests: pytest.Subtests) -> None:
    for name in HEURISTICS:
        with subtests.test(name=name):
            state = new_state(LatencyParams(devices=7), 4, np.random.default_rng(0))
            HEURISTICS[name](state, LatencyParams(devices=7), np.random.default_rng(1)).check(state)


def test_the_reference_table_is_reproduced(subtests: pytest.Subtests) -> None:
    all_devicess: list[int] = [10, 20, 30, 50, 100]
    for name in HEURISTICS:
        for devices in all_devicess:
            with subtests.test(name=name, devices=devices):
                params = LatencyParams(devices=devices)
                rng = np.random.default_rng(2)
                state = new_state(params, 1000, rng)
                found = latency_of(HEURISTICS[name](state, params, rng), state, params).per_device_s.mean()
                assert found == pytest.approx(REFERENCE[name][devices], rel=0.03)
