"""The latency model: the spec's vector worked by hand, its invariants, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import ActionError, ObservationError, PolicyError
from policy.parameters import LatencyParams
from policy.world.latency import consensus_s, latency_of, reward, wall_clock_s
from policy.world.projection import Decision, local_cycles
from policy.world.state import State, new_state, next_state

SMALL = LatencyParams(devices=3, servers=2, channels=2, phi=4, server_rate_bps=50e6)
GIGA = 1e9


def small_state() -> State:
    """The hand-checkable vector of the spec."""
    gain = np.array(
        [[[1e-10, 2e-10], [1e-12, 1e-12]], [[3e-12, 1e-12], [4e-10, 1e-10]], [[1e-11, 1e-11], [2e-11, 2e-11]]]
    )[None]
    return State(
        path_gain=gain.mean(axis=3),
        gain=gain,
        data_bits=np.array([[8e6, 12e6, 10e6]]),
        work_cycles=np.array([[0.9, 0.8, 1.0]]) * GIGA,
        cpu_hz=np.array([[1, 0.5, 1.8]]) * GIGA,
        hash_rate=np.array([[500.0, 800.0, 300.0]]) * GIGA,
        server_work_cycles=np.array([[1.0, 0.75]]) * GIGA,
    )


def small_decision() -> Decision:
    shares = np.array([[(1, 0.5, 0.5, 1), (2 / 3, 1, 0.5, 1), (0, 0, 1, 0.5)]])
    return Decision(np.array([[1, 3, 0]]), shares)


def test_the_vector_of_the_spec() -> None:
    found = latency_of(small_decision(), small_state(), SMALL)
    assert found.rate_bps[0, :2] == pytest.approx([80.114013e6, 104.471259e6], rel=1e-8)
    assert found.offload_s[0] == pytest.approx([0.0998577, 0.1148641, 0], rel=1e-6)
    assert found.server_share_s[0] == pytest.approx([0.16, 0.18, 0], rel=1e-12)
    assert found.allocation.cpu_hz[0, 2] == pytest.approx(np.sqrt(2) * GIGA, rel=1e-12)
    assert found.local_s[0] == pytest.approx([0, 0, 1 / np.sqrt(2)], rel=1e-12)
    assert found.upload_s[0, 2] == pytest.approx(0.000261402, rel=1e-5)
    assert found.consensus_s == pytest.approx(0.2032, rel=1e-12)
    assert found.mining_s[0] == pytest.approx(1.2825, rel=1e-12)
    assert found.total_s[0] == pytest.approx(2.747789997, rel=1e-9)
    assert reward(found.total_s, 3, SMALL)[0] == pytest.approx(1.003088021, rel=1e-9)


def test_consensus_takes_a_quarter_of_a_second_by_default() -> None:
    assert consensus_s(LatencyParams()) == pytest.approx(0.2532, abs=5e-5)


def drawn(seed: int, devices: int, batch: int = 4) -> tuple[LatencyParams, State, Decision]:
    params, rng = LatencyParams(devices=devices), np.random.default_rng(seed)
    state = next_state(new_state(params, batch, rng), params, rng)
    choice = rng.integers(0, params.slots + 1, (batch, devices))
    return params, state, Decision(choice, rng.random((batch, devices, 4)))


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_limits_hold_whatever_is_asked_for(seed: int, devices: int) -> None:
    params, state, decision = drawn(seed, devices)
    found = latency_of(decision, state, params)
    allocation = found.allocation
    server = np.where(allocation.slot >= 0, allocation.slot // params.channels, -1)
    for m in range(params.servers):
        assert (
            np.where(server == m, allocation.bandwidth_hz, 0).sum(axis=1) <= params.bandwidth_hz * (1 + 1e-12)
        ).all()
    assert (allocation.hash_rate.sum(axis=1) <= params.hash_budget_hashes_per_s * (1 + 1e-12)).all()
    assert (allocation.hash_rate <= state.hash_rate * (1 + 1e-12)).all()
    assert (found.energy_j <= params.energy_j * (1 + 1e-9)).all()
    assert (found.offload_s <= params.offload_timeout_s).all()
    for slots in allocation.slot:
        taken = slots[slots >= 0]
        assert len(set(taken.tolist())) == len(taken)


@given(st.integers(0, 10**6), st.integers(2, 40))
def test_permuting_devices_permutes_their_latencies(seed: int, devices: int) -> None:
    params, state, decision = drawn(seed, devices)
    order = np.random.default_rng(seed).permutation(devices)
    names = ("path_gain", "gain", "data_bits", "work_cycles", "cpu_hz", "hash_rate")
    shuffled = replace(state, **{name: getattr(state, name)[:, order] for name in names})
    moved = latency_of(Decision(decision.choice[:, order], decision.shares[:, order]), shuffled, params)
    before = latency_of(decision, state, params)
    assert moved.device_s == pytest.approx(before.device_s[:, order], rel=1e-9)
    assert moved.total_s == pytest.approx(before.total_s, rel=1e-9)


def test_interference_comes_from_other_cells_on_the_same_sub_channel_only() -> None:
    state, decision = small_state(), small_decision()
    alone = latency_of(replace(decision, choice=np.array([[1, 0, 0]])), state, SMALL).rate_bps[0, 0]
    other_channel = latency_of(replace(decision, choice=np.array([[1, 4, 0]])), state, SMALL).rate_bps[0, 0]
    same_channel = latency_of(decision, state, SMALL).rate_bps[0, 0]
    assert other_channel == alone > same_channel


def test_the_strongest_wins_a_slot_and_the_others_train_with_all_their_cpu() -> None:
    decision = replace(small_decision(), choice=np.array([[1, 1, 1]]))
    found = latency_of(decision, small_state(), SMALL)
    assert found.allocation.slot.tolist() == [[0, -1, -1]]
    assert found.allocation.is_demoted.tolist() == [[False, True, True]]
    assert found.allocation.cpu_hz[0, 1] == pytest.approx(0.5 * GIGA)


def test_a_late_upload_costs_the_time_out_and_the_training() -> None:
    state = replace(small_state(), gain=small_state().gain * 1e-6)
    found = latency_of(small_decision(), state, SMALL)
    assert found.is_timeout.tolist() == [[True, True, False]]
    assert found.offload_s[0, :2].tolist() == [3.0, 3.0]
    cycles = local_cycles(state, SMALL)
    assert found.local_s[0, 0] >= cycles[0, 0] / state.cpu_hz[0, 0]
    assert found.server_share_s.sum() == 0


def test_the_wall_clock_is_never_later_than_the_sum() -> None:
    params, state, decision = drawn(3, 30, batch=64)
    found = latency_of(decision, state, params)
    assert (wall_clock_s(found, params) < found.total_s).all()


def test_impossible_parameters_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, float], str]] = [
        ({"bandwidth_hz": 0.0}, "bandwidth_hz: found 0.0, expected a positive number"),
        ({"server_cpu_hz": -1.0}, "server_cpu_hz: found -1.0"),
        ({"devices": 0}, "devices: found 0"),
        ({"devices": 2.5}, "devices: found 2.5, expected a whole number"),
        ({"noise_w": float("nan")}, "noise_w: found nan, expected a finite number"),
        ({"power_min_dbm": 40.0}, "power_min_dbm: found 40.0, expected at most power_max_dbm"),
        ({"hold": 1.5}, "hold at most 1"),
    ]
    for change, said in cases:
        with subtests.test(change=change, said=said), pytest.raises(PolicyError, match=said):
            LatencyParams(**change)  # type: ignore[arg-type]


def test_states_that_do_not_fit_are_refused() -> None:
    state = small_state()
    state.check(SMALL)
    with pytest.raises(ObservationError, match=r"gain: found shape \(1, 3, 2, 2\), expected \(1, 4, 2, 2\)"):
        replace(state, path_gain=np.ones((1, 4, 2))).check(replace(SMALL, devices=4))
    with pytest.raises(ObservationError, match="data_bits: found a number that is not finite"):
        replace(state, data_bits=np.array([[1e6, np.nan, 1e6]])).check(SMALL)


def test_decisions_that_do_not_fit_are_refused() -> None:
    state, decision = small_state(), small_decision()
    decision.check(state)
    for wrong in (
        replace(decision, choice=np.array([[1, 5, 0]])),
        replace(decision, choice=np.array([[-1, 0, 0]])),
        replace(decision, choice=np.array([[0.5, 0, 0]])),
        replace(decision, shares=decision.shares * 1.5),
        replace(decision, shares=decision.shares * np.nan),
        replace(decision, choice=np.array([[1, 0]])),
    ):
        with pytest.raises(ActionError):
            wrong.check(state)
