"""Who answers a round in time, and what the others' waiting costs (docs/devices.md)."""

import numpy as np
import pytest

from clients.parameters import DataParams
from edge_servers.learning.graph import make_graph
from edge_servers.planning.answers import expected_answers, spent_until_due, waited_until_due
from edge_servers.planning.latency import real_latency, real_terms
from edge_servers.planning.planners import make_planner
from edge_servers.planning.proposal import Proposal, RoundState, propose_offloading, round_state
from policy.world.conditions import Conditions
from policy.world.latency import wall_clock_s
from tests.edge_servers.planning.plannable import network

SLOW = Conditions("1,0.01")


def planned(planner: str = "fixed:0,4", devices: Conditions | None = None) -> tuple[Proposal, RoundState]:
    state = round_state(1, network(10, 3), DataParams(), 784, devices=devices)
    return propose_offloading(make_planner(planner, 0, 10), state), state


def terms(proposal: Proposal, state: RoundState, missed: tuple[float, list[bool]] | None) -> dict[str, float]:
    return real_terms(proposal, state, 5000, 0, 25, 10, make_graph("line", 3), 5, 784, missed)


def test_speeds_are_factors_on_the_cpu_of_the_state() -> None:
    (_, plain), (_, slow) = planned(), planned(devices=SLOW)
    assert slow.world.cpu_hz[0].tolist() == pytest.approx((plain.world.cpu_hz[0] * np.resize([1, 0.01], 10)).tolist())
    assert slow.digest != plain.digest
    assert planned(devices=Conditions(dropout=0.5))[1].digest == plain.digest


def test_a_device_a_hundred_times_slower_trains_a_hundred_times_longer() -> None:
    seconds = []
    for devices in (None, SLOW):
        proposal, state = planned("all-local", devices)
        latency, _ = real_latency(proposal, state, 5000, 0, 25, 10, 5, 784)
        seconds.append(latency.local_s[0])
    assert seconds[1][1::2] == pytest.approx(100 * seconds[0][1::2], rel=1e-6)
    assert seconds[1][::2] == pytest.approx(seconds[0][::2])


def test_who_trains_has_the_deadline_and_who_offloads_a_third_of_it() -> None:
    proposal, state = planned(devices=SLOW)
    latency, _ = real_latency(proposal, state, 5000, 0, 25, 10, 5, 784)
    there = [n != 9 for n in range(10)]
    answers = expected_answers(latency, proposal.assignment, 3.0, there)
    assert answers.offloads.nonzero()[0].tolist() == [0, 4]
    assert answers.due_s.tolist() == [1.0 if n in (0, 4) else 3.0 for n in range(10)]
    assert answers.seconds[0] == latency.offload_s[0, 0]
    assert answers.seconds[2] == latency.local_s[0, 2] + latency.upload_s[0, 2]
    assert answers.late.tolist() == [n in (1, 3, 5, 7) for n in range(10)]  # the slow ones; 9 is away, not late
    assert answers.missing.tolist() == [n in (1, 3, 5, 7, 9) for n in range(10)]


def test_a_deadline_ends_the_wait_and_what_was_spent_until_then_counts() -> None:
    proposal, state = planned("all-local", SLOW)
    latency, params = real_latency(proposal, state, 5000, 0, 25, 10, 5, 784)
    answers = expected_answers(latency, proposal.assignment, 3.0, [True] * 10)
    assert spent_until_due(latency, answers).learning_s[0] == pytest.approx(np.minimum(answers.seconds, 3.0).sum())
    learning = wall_clock_s(waited_until_due(latency, answers), params) - wall_clock_s(latency, params)
    assert learning[0] == pytest.approx(3.0 - answers.seconds.max())


def test_who_is_away_spends_nothing_and_is_waited_for() -> None:
    proposal, state = planned("all-local")
    all_there = terms(proposal, state, (60.0, [True] * 10))
    one_away = terms(proposal, state, (60.0, [n != 3 for n in range(10)]))
    assert (all_there["n_away"], one_away["n_away"], one_away["n_late"]) == (0, 1, 0)
    assert one_away["T"] < all_there["T"]
    assert one_away["T_wall"] == pytest.approx(60.0, abs=2.0)
    assert all_there["T_wall"] < 10


def test_where_nobody_misses_anything_the_terms_are_those_without_a_deadline() -> None:
    proposal, state = planned()
    plain, asked = terms(proposal, state, None), terms(proposal, state, (1e6, [True] * 10))
    assert plain == {key: value for key, value in asked.items() if key not in ("n_late", "n_away")}


def test_data_that_do_not_arrive_are_executed_by_nobody() -> None:
    proposal, state = planned()
    latency, _ = real_latency(proposal, state, 5000, 0, 25, 10, 5, 784)
    answers = expected_answers(latency, proposal.assignment, 60.0, [n != 4 for n in range(10)])
    kept = spent_until_due(latency, answers)
    assert kept.server_share_s[0, 0] == latency.server_share_s[0, 0] > 0
    assert kept.server_share_s[0, 4] == 0
    assert kept.offload_s[0, 4] == 0
