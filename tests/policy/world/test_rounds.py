"""The world of a training round: any round alone, any number of devices, the laws of S1-S6 (P23)."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.world.round_data import data_bits
from policy.world.rounds import distances_m, simulated_state
from policy.world.state import Array, State

PARAMS = LatencyParams(devices=40, servers=3)
BY_DEVICE = ("path_gain", "gain", "data_bits", "work_cycles", "cpu_hz", "hash_rate")
FIXED = ("path_gain", "work_cycles", "server_work_cycles")


def same(one: State, other: State) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(State))


@cache
def states(params: LatencyParams, rounds: int) -> list[State]:
    """The states of seed 0 in rounds 1, 2, ..."""
    return [simulated_state(params, 0, k) for k in range(1, rounds + 1)]


def history(name: str, rounds: int, params: LatencyParams = PARAMS) -> Array:
    """One number per round and device, of seed 0.  # (K, N)"""
    return np.stack([getattr(state, name)[0] for state in states(params, rounds)])


@given(st.integers(0, 2**63 - 1), st.integers(1, 2000), st.integers(1, 20), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_every_world_is_one_that_the_policy_accepts(seed: int, round_: int, n: int, m: int, g: int) -> None:
    params = LatencyParams(devices=n, servers=m, channels=g)
    world = simulated_state(params, seed, round_)
    world.check(params)
    assert world.shape == (1, n, m, g)
    assert same(world, simulated_state(params, seed, round_))


@given(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 39))
@settings(max_examples=40, deadline=None)
def test_a_device_has_the_same_world_whatever_the_number_of_devices(seed: int, round_: int, devices: int) -> None:
    few, many = (simulated_state(replace(PARAMS, devices=n), seed, round_) for n in (devices, 40))
    for name in BY_DEVICE:
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:, :devices], err_msg=name)
    np.testing.assert_array_equal(few.server_work_cycles, many.server_work_cycles)


def test_a_round_drawn_alone_equals_the_round_drawn_after_others() -> None:
    after_others = [simulated_state(PARAMS, 5, k) for k in range(1, 131)]
    for k in (130, 64, 65, 1, 128, 129):
        assert same(simulated_state(PARAMS, 5, k), after_others[k - 1])


def test_channels_and_data_are_new_every_round_and_places_and_workloads_stay() -> None:
    first, second, other = simulated_state(PARAMS, 0, 1), simulated_state(PARAMS, 0, 2), simulated_state(PARAMS, 1, 1)
    for name in ("gain", "data_bits"):
        assert not (getattr(first, name) == getattr(second, name)).any()
    for name in FIXED:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for name in (*BY_DEVICE, "server_work_cycles"):
        assert not np.isin(getattr(first, name), getattr(other, name)).all()


def test_the_data_is_what_the_devices_work_on() -> None:
    for k in (1, 7, 300):
        np.testing.assert_array_equal(simulated_state(PARAMS, 9, k).data_bits[0], data_bits(PARAMS, 9, k, 40))


def test_every_number_keeps_its_bounds() -> None:
    for k in range(1, 101):
        world = simulated_state(PARAMS, 3, k)
        for values, low, high in (
            (world.data_bits, 4e6, 16e6),
            (world.work_cycles, 0.7e9, 1.1e9),
            (world.server_work_cycles, 0.7e9, 1.1e9),
            (world.cpu_hz, 0.2e9, 2e9),
            (world.hash_rate, 100e9, 1000e9),
        ):
            assert ((values >= low) & (values <= high)).all()


def test_devices_are_spread_evenly_over_the_disc_and_no_nearer_than_ten_metres() -> None:
    """A quarter of the disc lies within half of its radius; server 0 is its centre."""
    crowd = distances_m(LatencyParams(devices=20_000, servers=1), 0)[:, 0]
    assert crowd.min() >= 10
    assert crowd.max() <= 500
    assert (crowd < 250).mean() == pytest.approx(0.25, abs=0.015)  # five standard deviations


def test_fading_is_exponential_with_mean_one() -> None:
    """Exp(1): mean 1, and exp(-1) of the draws are above it. 60 rounds of 40 x 3 x 5 draws."""
    worlds = [simulated_state(PARAMS, 0, k) for k in range(1, 61)]
    fading = np.stack([world.gain / world.path_gain[..., None] for world in worlds])
    assert fading.mean() == pytest.approx(1, abs=5 / np.sqrt(fading.size))
    assert (fading > 1).mean() == pytest.approx(np.exp(-1), abs=2.5 / np.sqrt(fading.size))


def test_cpu_and_hash_rates_stay_nine_times_in_ten(subtests: pytest.Subtests) -> None:
    """300 rounds of 40 devices: 11,960 steps, one standard deviation is 0.0027. Across blocks of rounds too."""
    cases: list[str] = ["cpu_hz", "hash_rate"]
    for name in cases:
        with subtests.test(name=name):
            values = history(name, 300)
            stays = values[1:] == values[:-1]
            assert stays.mean() == pytest.approx(0.9, abs=0.0135)
            assert stays[1:][stays[:-1]].mean() == pytest.approx(0.9, abs=0.015)  # whether or not it stayed before
            assert stays[1:][~stays[:-1]].mean() == pytest.approx(0.9, abs=0.045)
            at_the_border = stays[[63, 127, 191, 255]]  # rounds 64 to 65, and so on
            assert at_the_border.mean() == pytest.approx(0.9, abs=0.12)
            low, high = (0.2e9, 2e9) if name == "cpu_hz" else (100e9, 1000e9)
            fresh = (values[1:][~stays] - low) / (high - low)
            assert fresh.mean() == pytest.approx(0.5, abs=5 * 0.289 / np.sqrt(fresh.size))


def test_cpu_and_hash_rates_change_independently() -> None:
    cpu, hashes = (np.diff(history(name, 300), axis=0) != 0 for name in ("cpu_hz", "hash_rate"))
    assert (cpu & hashes).mean() == pytest.approx(0.01, abs=0.005)


def test_a_hold_of_one_keeps_the_first_draw_and_of_zero_keeps_nothing(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, float]] = [(1.0, 0.0), (0.0, 1.0)]
    for hold, changes in cases:
        with subtests.test(hold=hold, changes=changes):
            values = history("cpu_hz", 140, replace(PARAMS, hold=hold))
            assert (values[1:] != values[:-1]).mean() == changes


def test_there_is_no_round_before_the_first(subtests: pytest.Subtests) -> None:
    cases: list[int] = [0, -1]
    for round_ in cases:
        refused = pytest.raises(PolicyError, match=f"found {round_}, expected at least 1")
        with subtests.test(round_=round_), refused:
            simulated_state(PARAMS, 0, round_)


def test_the_numbers_are_those_of_the_first_release() -> None:
    """Golden values: a change here changes every plan of every seed."""
    world = simulated_state(PARAMS, 0, 70)
    assert world.cpu_hz[0, :2] == pytest.approx([1121848094.8775725, 1105208875.8541584], rel=1e-12)
    assert world.hash_rate[0, :2] == pytest.approx([889386167125.328, 733949403194.67], rel=1e-12)
    assert world.gain[0, 1, 2, 4] == pytest.approx(1.4921258030171967e-13, rel=1e-12)
