"""Planners, their projection, and the state they see."""

import pytest

from clients.consent import Consent
from clients.parameters import DataParams
from edge_servers.errors import PlanError
from edge_servers.graph import make_graph
from edge_servers.network import DeviceRecord, Network, home_server, simulated_address
from edge_servers.parameters import RoundParams
from edge_servers.planning import make_planner, planned_phi, project, round_state


def network(devices: int = 10, servers: int = 3, consents: dict[int, str] | None = None) -> Network:
    records = tuple(
        DeviceRecord(
            n,
            simulated_address(0, "device", n),
            home_server(n, servers),
            6000,
            Consent((consents or {}).get(n, "any")),
        )
        for n in range(devices)
    )
    addresses = tuple(simulated_address(0, "server", m) for m in range(servers))
    return Network(addresses, records, make_graph("line", servers), 2048)


ALL = DataParams(data_per_round="all")


def test_fixed_lets_devices_0_4_5_of_every_ten_offload_to_their_home() -> None:
    plan = make_planner("fixed", 0, 20).offload(round_state(1, network(20), ALL, 784))
    assert {n: m for n, m in enumerate(plan) if m >= 0} == {0: 0, 4: 1, 5: 2, 10: 1, 14: 2, 15: 0}


def test_fixed_takes_a_list_and_none() -> None:
    state = round_state(1, network(), ALL, 784)
    assert [n for n, m in enumerate(make_planner("fixed:3,9", 0, 10).offload(state)) if m >= 0] == [3, 9]
    assert set(make_planner("fixed:none", 0, 10).offload(state)) == {-1}


def test_random_depends_on_seed_round_and_device_alone() -> None:
    first, later = (round_state(k, network(), ALL, 784) for k in (1, 2))
    planner = make_planner("random:0.5", 7, 10)
    assert planner.offload(first) == make_planner("random:0.5", 7, 10).offload(first)
    assert planner.offload(first) != planner.offload(later)
    bigger = planner.offload(round_state(1, network(20), ALL, 784))
    assert bigger[:10] == planner.offload(first)


def test_random_offloads_about_as_often_as_it_is_told() -> None:
    planner = make_planner("random:0.3", 1, 10)
    chosen = [m for k in range(1, 201) for m in planner.offload(round_state(k, network(), ALL, 784))]
    share = sum(m >= 0 for m in chosen) / len(chosen)
    assert share == pytest.approx(0.3, abs=0.05)  # 2,000 draws: three standard deviations are 0.03
    assert set(chosen) == {-1, 0, 1, 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fixd", 'did you mean "fixed"'),
        ("fixed:a", "expected device numbers"),
        ("fixed:10", "devices of 0 to 9"),
        ("random:2", "expected a probability"),
        ("random:x", "expected a probability"),
    ],
)
def test_a_planner_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make_planner(text, 0, 10)


def test_a_device_that_does_not_consent_trains_itself() -> None:
    net = network(consents={0: "never", 4: "0,2", 5: "2"})
    state = round_state(1, net, ALL, 784)
    wanted = [0, -1, -1, -1, 1, 2, -1, -1, -1, 0]
    assert project(wanted, state, net) == (-1, -1, -1, -1, -1, 2, -1, -1, -1, 0)


@pytest.mark.parametrize("wanted", [[0] * 9, [3] + [-1] * 9, [-2] + [-1] * 9])
def test_a_plan_that_does_not_fit_the_network_is_refused(wanted: list[int]) -> None:
    net = network()
    with pytest.raises(PlanError, match="expected"):
        project(wanted, round_state(1, net, ALL, 784), net)


def test_the_state_gives_every_device_between_638_and_2551_images_of_784_bytes_anew_every_round() -> None:
    first, second = (round_state(k, network(), DataParams(), 784) for k in (1, 2))
    assert all(638 <= d <= 2551 for d in first.samples)
    assert first.samples != second.samples
    assert first.digest != second.digest


def test_a_device_never_works_on_more_than_its_share() -> None:
    assert set(round_state(1, network(), DataParams(), 10).samples) == {6000}


def test_phi_is_zero_without_gossip_configured_with_it_and_measured_where_auto() -> None:
    net = network()
    assert planned_phi(RoundParams(scheme="fedavg"), net, 1, 1.0) == 0
    assert planned_phi(RoundParams(phi="7"), net, 2, 1.0) == 7
    assert planned_phi(RoundParams(phi="auto"), net, 1, 0.0) == 5
    assert planned_phi(RoundParams(phi="auto:7"), net, 1, 0.0) == 7
    assert planned_phi(RoundParams(phi="auto"), net, 2, 1.0) == 5  # Corollary 1 by hand: see test_graph
