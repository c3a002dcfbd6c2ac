"""The weights in the package: how they were made, and that they do what is said of them."""

import json

import numpy as np
import pytest

from policy.actor.planner import Policy
from policy.actor.weights import SHIPPED
from policy.agents import fixed_agent
from policy.evaluation import evaluate_agent, ratio
from policy.parameters import LatencyParams
from policy.rivals.heuristics import threshold
from policy.rivals.optimum import near_optimum
from policy.training.settings import LearningParams
from policy.world.latency import latency_of
from policy.world.state import new_state

STATES = 60


def test_they_say_how_they_were_made() -> None:
    content = json.loads(SHIPPED.read_text())
    record = content["record"]
    assert SHIPPED.stat().st_size < 300_000
    assert record["command"] == f"bfl policy train --agent a2c --seed {record['seed']} --updates {record['updates']}"
    assert record["settings"]["seed"] == record["seed"]
    plain = LearningParams()
    assert tuple(record["settings"]["devices"]) == plain.devices
    assert record["settings"]["rows"] == plain.rows
    assert {f"T/N at N = {n}, s" for n in (10, 20, 30, 50, 100)} < record["figures"].keys()


def test_the_figures_in_their_record_come_out_again() -> None:
    record = json.loads(SHIPPED.read_text())["record"]
    agent = fixed_agent("a2c")
    assert agent is not None
    score = evaluate_agent("a2c", agent, LatencyParams(devices=30), record["figures"]["states"])
    told = float(record["figures"]["T/N at N = 30, s"].split(" ")[0])
    assert score.mean_s == pytest.approx(told, abs=2e-3)


@pytest.mark.parametrize(
    "sizes",
    [
        {"devices": 1}, {"devices": 7}, {"devices": 200}, {"servers": 1}, {"servers": 3}, {"servers": 8},
        {"channels": 2}, {"devices": 1, "servers": 1, "channels": 1},
    ],
    ids=str,
)  # fmt: skip
def test_worlds_of_other_sizes_than_in_training_are_served_better_than_by_the_threshold(sizes: dict[str, int]) -> None:
    params = LatencyParams(**sizes)
    rng = np.random.default_rng(2024)
    state = new_state(params, STATES, rng)
    ours = latency_of(Policy.trained(params).decide(state), state, params).per_device_s.mean()
    rule = latency_of(threshold(state, params, rng), state, params).per_device_s.mean()
    assert ours < rule


@pytest.mark.slow
@pytest.mark.parametrize("devices", [10, 30])
def test_they_are_close_to_the_near_optimum(devices: int) -> None:
    params = LatencyParams(devices=devices)
    state = new_state(params, 40, np.random.default_rng(77))
    ours = latency_of(Policy.trained(params).decide(state), state, params).per_device_s
    best = latency_of(near_optimum(state, params), state, params).per_device_s
    assert ratio(ours, best).value < 1.12


def test_no_slot_is_wanted_twice_and_everybody_offers_what_it_should() -> None:
    params = LatencyParams(devices=30)
    state = new_state(params, 20, np.random.default_rng(78))
    latency = latency_of(Policy.trained(params).decide(state), state, params)
    assert not latency.allocation.is_demoted.any()
    assert latency.is_timeout.mean() < 0.01
    assert (latency.energy_j <= params.energy_j * (1 + 1e-9)).all()
