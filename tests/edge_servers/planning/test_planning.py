"""The state of a round, the planners that see it, and what their decisions come to."""

import hashlib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from clients.parameters import DataParams
from clients.plugins import offer
from edge_servers.errors import PlanError
from edge_servers.parameters import RoundParams
from edge_servers.planning.planners import AGENTS, NAMES, make_planner
from edge_servers.planning.proposal import LOCAL, RoundState, planned_phi, propose_offloading, round_state
from policy.actor.planner import Policy
from policy.parameters import LatencyParams
from policy.rivals.heuristics import HEURISTICS
from policy.world.latency import latency_of
from policy.world.round_data import data_bits
from policy.world.rounds import simulated_state
from policy.world.state import State
from tests.edge_servers.planning.plannable import Stub, alike, network

ALL = DataParams(data_per_round="all")


def wanted(planner: str, state: RoundState, seed: int = 0) -> list[int]:
    """The server that each device should offload to, or -1, before anybody is asked."""
    return make_planner(planner, seed, len(state.homes)).decide(state).servers


def test_fixed_lets_devices_0_4_5_of_every_ten_offload_to_their_home() -> None:
    plan = wanted("fixed", round_state(1, network(20), ALL, 784))
    assert {n: m for n, m in enumerate(plan) if m >= 0} == {0: 0, 4: 1, 5: 2, 10: 1, 14: 2, 15: 0}


def test_fixed_takes_a_list_and_none() -> None:
    state = round_state(1, network(), ALL, 784)
    assert [n for n, m in enumerate(wanted("fixed:3,9", state)) if m >= 0] == [3, 9]
    assert set(wanted("fixed:none", state)) == {-1}


def test_random_depends_on_seed_round_and_device_alone() -> None:
    first, later = (round_state(k, network(), ALL, 784) for k in (1, 2))
    chosen = wanted("random:0.5", first, seed=7)
    assert chosen == wanted("random:0.5", first, seed=7)
    assert chosen != wanted("random:0.5", later, seed=7)
    assert chosen != wanted("random:0.5", first, seed=8)
    bigger = wanted("random:0.5", round_state(1, network(20), ALL, 784), seed=7)
    assert bigger[:10] == chosen


def test_random_offloads_about_as_often_as_it_is_told() -> None:
    states = (round_state(k, network(), ALL, 784) for k in range(1, 201))
    chosen = [m for state in states for m in wanted("random:0.3", state, seed=1)]
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
        ("a2", 'did you mean "a2c"'),
        ("all-locl", 'did you mean "all-local"'),
        ("nearoptimum", 'did you mean "near-optimum"'),
        ("", "expected one of fixed, random, a2c"),
        ("a2c:3", "no weights at 3; make them with"),
        ("threshold:3", "expected threshold without an argument"),
        ("threshold:", "expected threshold without an argument"),
    ],
)
def test_a_planner_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make_planner(text, 0, 10)


def test_a_device_that_does_not_consent_trains_itself() -> None:
    net = network(consents={0: "never", 4: "0,2", 5: "2"})
    found = propose_offloading(make_planner("fixed:0,4,5,9", 0, 10), round_state(1, net, ALL, 784))
    assert found.assignment == (-1, -1, -1, -1, -1, 2, -1, -1, -1, 0)


def test_a_list_is_obeyed_where_a_rule_would_give_up_at_the_time_out() -> None:
    """6,000 samples of 80,000 bytes are 3.8 Gbit, in three seconds at some 100 Mbit/s."""
    state = round_state(1, network(), ALL, 80_000)
    listed = propose_offloading(make_planner("fixed:0,4", 0, 10), state)
    assert np.flatnonzero(listed.latency.is_timeout[0]).tolist() == [0, 4]
    assert listed.assignment == (0, -1, -1, -1, 1, -1, -1, -1, -1, -1)
    asked = Stub(tuple((listed.allocation.slot[0] + 1).tolist()))
    assert propose_offloading(asked, state).assignment == (LOCAL,) * 10


def test_the_state_gives_every_device_between_638_and_2551_images_of_784_bytes_anew_every_round() -> None:
    first, second = (round_state(k, network(), DataParams(), 784) for k in (1, 2))
    assert all(638 <= d <= 2551 for d in first.samples)
    assert first.samples != second.samples
    assert first.digest != second.digest


def test_a_device_never_works_on_more_than_its_share() -> None:
    assert set(round_state(1, network(), DataParams(), 10).samples) == {6000}


# --- the state --------------------------------------------------------------------------------------------------------


def test_the_world_holds_the_drawn_data_up_to_the_share_of_a_device() -> None:
    """6,000 samples of 200 bytes are 9.6 Mbit; drawn are 4 to 16."""
    state = round_state(3, network(), DataParams(seed=4), 200)
    drawn = data_bits(state.params, 4, 3, 10)
    np.testing.assert_array_equal(state.world.data_bits[0], np.minimum(drawn, 9.6e6))
    assert {9.6e6} < set(state.world.data_bits[0].tolist())
    assert state.samples == tuple(np.rint(state.world.data_bits[0] / 1600).astype(int).tolist())


def test_whole_shares_are_whole_in_the_world_too() -> None:
    state = round_state(1, network(), ALL, 784)
    assert state.samples == (6000,) * 10
    assert set(state.world.data_bits[0].tolist()) == {6000 * 784 * 8}


def test_everything_else_in_the_world_is_what_the_policy_draws() -> None:
    state = round_state(5, network(7, 2), DataParams(seed=3), 784)
    expected = simulated_state(state.params, 3, 5)
    assert (state.params.devices, state.params.servers, state.servers, state.params.phi) == (7, 2, 2, 5)
    for field in fields(State):
        np.testing.assert_array_equal(getattr(state.world, field.name), getattr(expected, field.name))


def test_the_digest_names_everything_in_the_state() -> None:
    state = round_state(1, network(), DataParams(), 784)
    assert state.digest == round_state(1, network(), DataParams(), 784).digest
    faster = replace(state.world, cpu_hz=np.nextafter(state.world.cpu_hz, np.inf))
    others = [
        round_state(2, network(), DataParams(), 784),
        round_state(1, network(), DataParams(seed=1), 784),
        round_state(1, network(consents={0: "never"}), DataParams(), 784),
        round_state(1, network(), DataParams(), 784, excluded=(1,)),
        round_state(1, network(), DataParams(), 784, phi=6),
        round_state(1, network(), DataParams(), 785),
        replace(state, homes=(1, *state.homes[1:])),
        replace(state, world=faster),
    ]
    digests = {each.digest for each in [state, *others]}
    assert len(digests) == 9
    assert all(len(digest) == 64 for digest in digests)


def test_excluded_servers_are_sorted_named_once_and_must_exist() -> None:
    assert round_state(1, network(), ALL, 784, excluded=[2, 0, 2]).excluded == (0, 2)
    for server in (3, -1):
        with pytest.raises(PlanError, match="expected servers of 0 to 2"):
            round_state(1, network(), ALL, 784, excluded=[server])


# --- what a decision comes to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", [*NAMES, "fixed:0,1,2,3,4,5,6,7", "random:1"])
def test_consent_and_exclusions_bind_every_planner(planner: str) -> None:
    net = network(8, 3, consents={0: "never", 1: "never", 2: "0,1", 3: "2"})
    offloads = 0
    for k in range(1, 6):
        state = round_state(k, net, DataParams(), 784, excluded=[1])
        found = propose_offloading(make_planner(planner, 0, 8), state)
        assert found.assignment[:2] == (LOCAL, LOCAL)
        assert found.assignment[2] in (LOCAL, 0)
        assert found.assignment[3] in (LOCAL, 2)
        assert 1 not in found.assignment
        slot = found.allocation.slot[0]
        insists = planner.partition(":")[0] in ("fixed", "random")  # a list is obeyed, whatever the channels say
        arrives = (slot >= 0) & (insists | ~found.latency.is_timeout[0])
        assert np.where(arrives, slot // found.channels, LOCAL).tolist() == list(found.assignment)
        assert not (slot[:2] >= 0).any()
        offloads += sum(m != LOCAL for m in found.assignment)
    assert (offloads == 0) == (planner == "all-local")


@pytest.mark.parametrize("planner", NAMES)
@pytest.mark.parametrize(("devices", "servers"), [(1, 1), (1, 3), (10, 1), (12, 2)])
def test_every_planner_plans_for_every_network_and_twice_alike(planner: str, devices: int, servers: int) -> None:
    net = network(devices, servers)
    one, other = (
        propose_offloading(make_planner(planner, 2, devices), round_state(4, net, DataParams(), 784)) for _ in range(2)
    )
    assert alike(one, other)
    assert len(one.assignment) == devices
    assert set(one.assignment) <= {LOCAL, *range(servers)}
    assert np.isfinite(one.latency.total_s).all()


@pytest.mark.parametrize(
    ("choice", "message"), [((0,) * 9, "found choices"), ((16,) + (0,) * 9, "outside 0..15"), ((-1,) * 10, "outside")]
)
def test_a_decision_that_does_not_fit_the_state_is_refused(choice: tuple[int, ...], message: str) -> None:
    with pytest.raises(PlanError, match=f"planner stub: .*{message}"):
        propose_offloading(Stub(choice), round_state(1, network(), ALL, 784))


# --- the planners -----------------------------------------------------------------------------------------------------


def test_the_trained_policy_offloads_somebody_and_is_faster_than_training_everywhere() -> None:
    trained, local = make_planner("a2c", 0, 10), make_planner("all-local", 0, 10)
    saved = []
    for k in range(1, 21):
        state = round_state(k, network(), DataParams(), 784)
        found = propose_offloading(trained, state)
        assert any(m != LOCAL for m in found.assignment)
        saved.append(float((propose_offloading(local, state).latency.total_s - found.latency.total_s)[0]))
    assert np.mean(saved) > 0


def test_the_trained_policy_is_the_shipped_one() -> None:
    state = round_state(6, network(), DataParams(), 784)
    expected = latency_of(Policy.trained(state.params).decide(state.world), state.world, state.params)
    np.testing.assert_array_equal(
        propose_offloading(make_planner("a2c", 0, 10), state).latency.device_s, expected.device_s
    )


def test_the_digest_names_the_weights_and_of_others_the_text() -> None:
    weights = Path(__file__).parents[3] / "policy" / "trained" / "a2c.json"
    assert make_planner("a2c", 0, 10).digest == "a2c:" + hashlib.sha256(weights.read_bytes()).hexdigest()
    for text in ("fixed:1,3", "random:0.5", "greedy-channel", "near-optimum"):
        assert make_planner(text, 0, 10).digest == make_planner(text, 0, 10).name == text


def test_every_simple_rule_can_be_chosen() -> None:
    assert set(HEURISTICS) < set(AGENTS.values())


def test_rules_that_draw_follow_seed_and_round() -> None:
    first, later = (round_state(k, network(), DataParams(), 784) for k in (1, 2))
    chosen = wanted("random-action", first)
    assert chosen == wanted("random-action", first)
    assert chosen != wanted("random-action", first, seed=1)
    assert chosen != wanted("random-action", later)


def test_the_cells_of_a_fixed_list_begin_where_the_one_before_ended() -> None:
    """Devices 0 and 3 belong to server 0, device 1 to server 1, device 2 to server 2; slots are 5 m + g."""
    state = round_state(1, network(4, 3), DataParams(), 784)
    found = propose_offloading(make_planner("fixed:0,1,2,3", 0, 4), state)
    assert found.allocation.slot.tolist() == [[0, 5 + 2, 10 + 3, 1]]
    assert found.channels == 5


def test_who_may_not_offload_takes_no_sub_channel_of_a_fixed_list() -> None:
    state = round_state(1, network(7, 1, consents={0: "never", 3: "never"}), DataParams(), 784)
    found = propose_offloading(make_planner("fixed:0,1,2,3,4,5,6", 0, 7), state)
    assert found.allocation.slot.tolist() == [[-1, 0, 1, -1, 2, 3, 4]]
    assert found.channels == 5


# --- consensus steps --------------------------------------------------------------------------------------------------


def test_phi_is_zero_without_gossip_configured_with_it_and_measured_where_auto() -> None:
    net = network()
    assert planned_phi(RoundParams(scheme="fedavg"), net, 1, 1.0) == 0
    assert planned_phi(RoundParams(phi="7"), net, 2, 1.0) == 7
    assert planned_phi(RoundParams(phi="auto"), net, 1, 0.0) == 5
    assert planned_phi(RoundParams(phi="auto:7"), net, 1, 0.0) == 7
    assert planned_phi(RoundParams(phi="auto"), net, 2, 1.0) == 5  # Corollary 1 by hand: see test_graph


def own(decide: object, state: RoundState) -> list[int]:
    return wanted(offer("planner", decide), state, seed=3)  # type: ignore[arg-type]


def test_an_own_planner_says_to_which_server_each_device_goes() -> None:
    state = round_state(1, network(), ALL, 784)
    assert own(lambda world, params, rng: [2, *[-1] * (params.devices - 1)], state) == [2, *[-1] * 9]
    assert own(lambda world, params, rng: np.zeros(10, np.int32), state) == [0] * 10


def test_an_own_planner_may_decide_everything() -> None:
    state = round_state(1, network(), ALL, 784)
    assert own(lambda world, params, rng: Policy.trained(params).decide(world), state) == wanted("a2c", state)


def test_what_an_own_planner_draws_follows_from_seed_and_round() -> None:
    first, later = (round_state(k, network(40), ALL, 784) for k in (1, 2))

    def draws(world: State, params: LatencyParams, rng: np.random.Generator) -> object:
        return rng.integers(-1, params.servers, params.devices)

    assert own(draws, first) == own(draws, first)
    assert own(draws, first) != own(draws, later)


def test_the_digest_of_an_own_planner_is_its_name_and_that_of_its_code() -> None:
    name = offer("planner", test_rules_that_draw_follow_seed_and_round)
    digest = make_planner(name, 0, 10).digest
    assert digest.startswith(f"{name}:")
    assert digest.endswith(hashlib.sha256(Path(__file__).read_bytes()).hexdigest())


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (None, r"found NoneType of shape \(\), expected a .*Decision, or 10 numbers of servers"),
        ([0, 1], r"found list of shape \(2,\), expected"),
        ([0.5] * 10, r"found list of shape \(10,\), expected"),
        ([3] * 10, "found servers 3 to 3, expected -1 to 2"),
        ([-2] * 10, "found servers -2 to -2, expected -1 to 2"),
    ],
)
def test_what_an_own_planner_may_not_say(said: object, told: str) -> None:
    with pytest.raises(PlanError, match=f"planner given:.*: {told}"):
        own(lambda world, params, rng: said, round_state(1, network(), ALL, 784))
