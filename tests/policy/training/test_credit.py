"""The difference credit against brute force: the round played again with device n on its default action."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.parameters import LatencyParams
from policy.rivals.heuristics import all_local, greedy_channel, random_decision
from policy.training.credit import Credit, credit
from policy.world.latency import latency_of
from policy.world.projection import LOCAL, Decision
from policy.world.state import Array, State, new_state

GIGA = 1e9
SIZES = [(10, 5, 5), (30, 5, 5), (1, 5, 5), (12, 1, 5), (12, 1, 1), (8, 3, 1), (9, 2, 2), (1, 1, 1)]
"""N, M, G"""


def world(sizes: tuple[int, int, int], budget: float = 15e12, model_bits: float = 0.0) -> LatencyParams:
    devices, servers, channels = sizes
    return LatencyParams(
        devices=devices,
        servers=servers,
        channels=channels,
        hash_budget_hashes_per_s=budget,
        model_bits=model_bits,
    )


def credited(decision: Decision, state: State, params: LatencyParams) -> Credit:
    return credit(decision, latency_of(decision, state, params), state, params)


def by_brute_force(decision: Decision, state: State, params: LatencyParams) -> tuple[Array, Array]:
    """T_learn and T_mine minus those with device n at choice 0 and all shares 1.  # (B, N) each"""
    now = latency_of(decision, state, params)
    learning, mining = [], []
    for n in range(decision.choice.shape[1]):
        choice, shares = decision.choice.copy(), decision.shares.copy()
        choice[:, n], shares[:, n] = LOCAL, 1.0
        then = latency_of(Decision(choice, shares), state, params)
        learning.append(now.learning_s - then.learning_s)
        mining.append(now.mining_s - then.mining_s)
    return np.stack(learning, axis=1), np.stack(mining, axis=1)


def check(decision: Decision, state: State, params: LatencyParams, learning_abs: float) -> None:
    found = credited(decision, state, params)
    learning, mining = by_brute_force(decision, state, params)
    assert found.mining_s == pytest.approx(mining, rel=0, abs=1e-9)
    assert found.learning_s == pytest.approx(learning, rel=0, abs=learning_abs)


def one_device(share: float) -> tuple[Decision, State, LatencyParams]:
    """8 Mbit, 0.9 Gcycle, 1 GHz, 500 GH/s; trains itself with this share of its CPU and hash rate."""
    one = np.ones((1, 1))
    gain = np.full((1, 1, 1, 1), 1e-10)
    state = State(gain[..., 0], gain, one * 8e6, one * 0.9 * GIGA, one * GIGA, one * 500 * GIGA, one * GIGA)
    return Decision(np.array([[LOCAL]]), np.full((1, 1, 4), share)), state, world((1, 1, 1), model_bits=4e4)


def test_a_lazy_device_is_charged_what_its_laziness_costs() -> None:
    """0.72 Gcycle at 0.6 instead of 1 GHz: 1.2 - 0.72 s. 50 GHash three times at 300 instead of 500 GH/s: 0.5 - 0.3."""
    found = credited(*one_device(0.5))
    assert found.learning_s[0, 0] == pytest.approx(0.48, rel=1e-9)
    assert found.mining_s[0, 0] == pytest.approx(0.2, rel=1e-9)


def test_a_device_heard_well_is_paid_for_offloading() -> None:
    """SNR 1000: 8 Mbit / (20 MHz log2(1001)) and 0.16 s at the server, instead of 0.72 s and a model of 40 kbit."""
    decision, state, params = one_device(1.0)
    found = credited(Decision(np.array([[1]]), decision.shares), state, params)
    bits_per_s = 20e6 * np.log2(1001)
    assert found.learning_s[0, 0] == pytest.approx(8e6 / bits_per_s + 0.16 - 0.72 - 4e4 / bits_per_s, rel=1e-9)
    assert found.mining_s[0, 0] == 0


def test_the_winner_of_a_slot_answers_for_the_one_it_keeps_out() -> None:
    """Two alike, but the first has twice the gain and the data; if it trained itself, the other would offload."""
    _, state, _ = one_device(1.0)
    names = ("path_gain", "gain", "data_bits", "work_cycles", "cpu_hz", "hash_rate")
    two = replace(state, **{name: np.repeat(getattr(state, name), 2, axis=1) for name in names})
    two.gain[0, 0] *= 2
    two.data_bits[0, 0] *= 2
    found = credited(Decision(np.array([[1, 1]]), np.ones((1, 2, 4))), two, world((2, 1, 1)))
    with_first = 16e6 / (20e6 * np.log2(2001)) + 0.32 + 0.72
    with_second = 8e6 / (20e6 * np.log2(1001)) + 0.16 + 1.44
    assert found.learning_s[0] == pytest.approx([with_first - with_second, 0.0], rel=1e-9, abs=1e-12)


def test_the_credit_is_the_difference_it_makes(subtests: pytest.Subtests) -> None:
    """Random and greedy choices; a hash budget with room and one below what all have at least."""
    all_budgets: list[float] = [15e12, 1e12]
    for sizes in SIZES:
        for budget in all_budgets:
            with subtests.test(sizes=sizes, budget=budget):
                params, rng = world(sizes, budget, model_bits=1.0), np.random.default_rng(sizes[0])
                state = new_state(params, 20, rng)
                greedy = greedy_channel(state, params, rng)
                some = Decision(greedy.choice, rng.random(greedy.shares.shape))
                for decision in (greedy, some, random_decision(state, params, rng)):
                    check(decision, state, params, learning_abs=2e-6)


@given(st.integers(0, 10**6), st.tuples(st.integers(1, 14), st.integers(1, 3), st.integers(1, 3)), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_without_models_to_upload_it_is_exact(seed: int, sizes: tuple[int, int, int], offloads: float) -> None:
    params, rng = world(sizes, budget=4e12), np.random.default_rng(seed)
    state = new_state(params, 3, rng)
    decision = random_decision(state, params, rng)
    choice = np.where(rng.random(decision.choice.shape) < offloads, decision.choice, LOCAL)
    check(Decision(choice, decision.shares), state, params, learning_abs=1e-6)


def test_models_are_charged_to_a_few_milliseconds(subtests: pytest.Subtests) -> None:
    cases: list[int] = [1, 10, 30]
    for devices in cases:
        with subtests.test(devices=devices):
            params, rng = LatencyParams(devices=devices), np.random.default_rng(devices)
            state = new_state(params, 30, rng)
            for policy in (greedy_channel, random_decision):
                check(policy(state, params, rng), state, params, learning_abs=6e-3)


def test_who_trains_with_all_it_has_adds_nothing(subtests: pytest.Subtests) -> None:
    for sizes in SIZES:
        with subtests.test(sizes=sizes):
            params, rng = LatencyParams(devices=sizes[0], servers=sizes[1], channels=sizes[2]), np.random.default_rng(1)
            state = new_state(params, 10, rng)
            mixed = random_decision(state, params, rng)
            choice, shares = mixed.choice.copy(), mixed.shares.copy()
            choice[:, 0], shares[:, 0] = LOCAL, 1.0
            found = credited(Decision(choice, shares), state, params)
            assert found.learning_s[:, 0] == pytest.approx(0, abs=1e-12)
            assert found.mining_s[:, 0] == pytest.approx(0, abs=1e-12)
            everybody = credited(all_local(state, params, rng), state, params)
            assert everybody.learning_s == pytest.approx(0, abs=1e-12)
