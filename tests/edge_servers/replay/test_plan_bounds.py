"""The numbers of a plan that the founding parameters leave to its leader, at their borders."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from clients.consent import Consent
from edge_servers.errors import PlanError
from edge_servers.replay.plan_check import check_divergence, check_plan
from tests.edge_servers.chain_network import ChainNetwork

NOTHING, LOCAL = (0.0,) * 6, -1


def refusal(network: ChainNetwork, **changes: Any) -> str:
    """Why the plan of round 1 with other numbers is refused; empty if it is not."""
    try:
        check_plan(replace(network.record(1).plan, **changes), network.founding, 1)
    except PlanError as error:
        return str(error)
    return ""


def test_a_plan_is_of_its_round_and_for_every_device(network: ChainNetwork) -> None:
    plan = network.record(1).plan
    assert refusal(network, round=2) == "found a plan of round 2 for 6 devices"
    assert refusal(network, assignment=plan.assignment[1:]) == "found a plan of round 1 for 5 devices"
    assert refusal(network, samples=plan.samples[1:]) == "found a plan of round 1 for 6 devices"
    assert refusal(network, iterations=(3, *plan.iterations[1:])) == "plan: expected 2 iterations for everybody"


@pytest.mark.parametrize("name", ["power_w", "bandwidth_hz", "cpu_hz"])
def test_what_a_device_is_given_is_one_number_each_and_may_be_nothing(network: ChainNetwork, name: str) -> None:
    assert refusal(network, **{name: NOTHING}) == ""
    for found in (NOTHING[1:], (*NOTHING, 0.0)):
        told = f"plan: found {name} for {len(found)} devices, expected 6 numbers of at least 0"
        assert refusal(network, **{name: found}) == told
    assert refusal(network, **{name: (*NOTHING[1:], -1e-9)}).startswith(f"plan: found {name} for 6 devices")


def test_somebody_mines_and_nobody_without_end(network: ChainNetwork) -> None:
    assert refusal(network, hash_rate=(*NOTHING[1:], 1e-9)) == ""
    for found, total in ((NOTHING, "0"), ((*NOTHING[1:], inf), "inf"), ((1e308,) * 6, "inf")):
        told = f"plan: found hash rates that sum to {total}, expected a number above 0"
        assert refusal(network, hash_rate=found) == told


def test_a_round_takes_no_negative_time_and_at_most_a_million_seconds(network: ChainNetwork) -> None:
    for wall_s in (0.0, 1e6):
        assert refusal(network, latency_s={"T_wall": wall_s}) == ""
    assert refusal(network, latency_s={}) == ""
    for wall_s in (-1e-3, 1e6 + 1):
        told = f"plan: found a round of {wall_s:g} s, expected 0 to 1000000"
        assert refusal(network, latency_s={"T_wall": wall_s}) == told


@pytest.mark.parametrize(("target", "is_allowed"), [(LOCAL, True), (0, True), (2, True), (3, False), (-2, False)])
def test_a_device_offloads_to_a_server_that_there_is(network: ChainNetwork, target: int, is_allowed: bool) -> None:
    told = "" if is_allowed else f"plan: device 0 may not offload to server {target}"
    assert refusal(network, assignment=(target, *(LOCAL,) * 5)) == told


def test_a_device_offloads_only_where_it_consents(network: ChainNetwork) -> None:
    known = network.founding.network
    devices = (replace(known.devices[0], consent=Consent("never")), *known.devices[1:])
    founding = replace(network.founding, network=replace(known, devices=devices))
    plan = replace(network.record(1).plan, assignment=(0, *(LOCAL,) * 5))
    check_plan(plan, network.founding, 1)
    with pytest.raises(PlanError, match="plan: device 0 may not offload to server 0"):
        check_plan(plan, founding, 1)


def test_a_servers_iterations_are_those_of_the_founding(network: ChainNetwork) -> None:
    plan = network.record(1).plan
    for found in ((3, 2, 2), (2, 2), (2, 2, 2, 2)):
        assert refusal(network, server_iterations=found) == "plan: expected 2 iterations for everybody"
    assert refusal(network, server_iterations=plan.server_iterations) == ""


@pytest.mark.parametrize(("divergence", "is_right"), [(2.0, True), (2.000001, True), (2.00001, False), (0.0, False)])
def test_a_divergence_may_differ_by_a_rounding(network: ChainNetwork, divergence: float, is_right: bool) -> None:
    plan = replace(network.record(1).plan, divergence=divergence)
    if is_right:
        check_divergence(plan, 2.0)
    else:
        with pytest.raises(PlanError, match=r"of the round before, expected 2\.0"):
            check_divergence(plan, 2.0)
