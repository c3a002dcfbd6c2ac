"""The latency of a planned round, in the paper's terms and in the run's own (P24)."""

from dataclasses import replace

import numpy as np
import pytest

from clients.parameters import DataParams
from edge_servers.errors import PlanError
from edge_servers.learning.graph import make_graph
from edge_servers.planning.latency import graph_consensus_s, paper_terms, passes, real_terms, server_rates_bps
from edge_servers.planning.planners import NAMES, make_planner
from edge_servers.planning.proposal import LOCAL, Proposal, RoundState, propose_offloading, round_state
from policy.env.offloading import round_info
from policy.parameters import LatencyParams
from policy.world.latency import consensus_s
from policy.world.projection import local_cycles
from policy.world.radio import server_rate_bps
from tests.edge_servers.planning.plannable import Stub, alike, network

KEYS = ["T", "T_learn", "T_cons", "T_mine", "T_wall", "n_off", "n_demoted", "n_timeout"]


def near(state: RoundState, gain: float = 1e-9) -> RoundState:
    """The same state where everybody is heard this well by every server, and has 8 Mbit."""
    world = replace(
        state.world,
        gain=np.full_like(state.world.gain, gain),
        path_gain=np.full_like(state.world.path_gain, gain),
        data_bits=np.full_like(state.world.data_bits, 8e6),
    )
    return replace(state, world=world)


def real(
    proposal: Proposal,
    state: RoundState,
    payload_bytes: int = 5000,
    block_bytes: int = 250_000,
    batch: int = 25,
    iterations: int = 10,
    graph: str = "complete",
    phi: int = 5,
) -> dict[str, float]:
    return real_terms(
        proposal, state, payload_bytes, block_bytes, batch, iterations, make_graph(graph, state.servers), phi, 784
    )


def drawn(planner: str, round_: int = 1, devices: int = 10, servers: int = 3) -> tuple[Proposal, RoundState]:
    state = round_state(round_, network(devices, servers), DataParams(), 784)
    return propose_offloading(make_planner(planner, 0, devices), state), state


def test_a_plan_by_hand() -> None:
    """Choice 1 + 5 m + g. Alone in its cell and on its sub-channel: R = 20 MHz log2(1 + 1 W 1e-9 / 1e-13 W)."""
    state = near(round_state(1, network(3, 2), DataParams(), 784))
    found = propose_offloading(Stub((0, 1 + 5 + 2, 1 + 0)), state)
    assert found.assignment == (LOCAL, 1, 0)
    assert found.allocation.slot.tolist() == [[-1, 7, 0]]
    assert found.latency.offload_s[0] == pytest.approx([0, *2 * [8e6 / (20e6 * np.log2(1 + 1e4))]], rel=1e-12)


def test_of_two_devices_on_one_slot_the_other_trains() -> None:
    state = near(round_state(1, network(2, 1), DataParams(), 784))
    found = propose_offloading(Stub((3, 3)), state)
    assert found.assignment == (0, LOCAL)  # a tie goes to the lowest device (S9)
    assert found.allocation.is_demoted.tolist() == [[False, True]]


def test_a_device_predicted_to_time_out_trains_and_its_three_seconds_are_counted() -> None:
    """20 MHz log2(1 + 1e-15 / 1e-13) = 0.29 Mbit/s: 8 Mbit take 28 s."""
    found = propose_offloading(Stub((1,)), near(round_state(1, network(1, 1), DataParams(), 784), gain=1e-15))
    assert found.assignment == (LOCAL,)
    assert found.allocation.slot.tolist() == [[0]]
    assert found.latency.offload_s.tolist() == [[3.0]]
    assert found.latency.local_s[0, 0] > 0


def test_a_device_that_may_not_offload_trains_with_all_its_cpu_and_frees_its_slot() -> None:
    """Device 0 would win the tie; as it never consents, device 1 has the slot and nobody is demoted."""
    free, bound = (near(round_state(1, network(2, 1, consents), DataParams(), 784)) for consents in ({}, {0: "never"}))
    assert propose_offloading(Stub((3, 3)), free).assignment == (0, LOCAL)
    found = propose_offloading(Stub((3, 3)), bound)
    assert found.assignment == (LOCAL, 0)
    assert not found.allocation.is_demoted.any()
    assert alike(found, propose_offloading(Stub((0, 3)), bound))


def test_a_fixed_list_is_not_limited_by_the_sub_channels() -> None:
    """Seven of one cell: seven sub-channels in order, a seventh of 20 MHz each; the sixth fades like the first."""
    state = near(round_state(1, network(7, 1), DataParams(), 784))
    found = propose_offloading(make_planner("fixed:0,1,2,3,4,5,6", 0, 7), state)
    assert found.assignment == (0,) * 7
    assert found.channels == 7
    assert found.allocation.slot.tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert found.allocation.bandwidth_hz[0] == pytest.approx(7 * [20e6 / 7])
    assert found.latency.offload_s[0] == pytest.approx(7 * [7 * 8e6 / (20e6 * np.log2(1 + 1e4))], rel=1e-12)


@pytest.mark.parametrize("planner", NAMES)
def test_the_papers_terms_are_those_of_the_environment(planner: str) -> None:
    found, state = drawn(planner)
    terms = paper_terms(found, state)
    assert list(terms) == KEYS
    assert terms == {name: values[0] for name, values in round_info(found.latency, state.params).items()}
    assert all(type(terms[key]) is (int if key.startswith("n_") else float) for key in KEYS)
    assert terms["T"] == pytest.approx(terms["T_learn"] + terms["T_cons"] + terms["T_mine"], rel=1e-12)
    assert terms["n_off"] - terms["n_timeout"] == sum(m != LOCAL for m in found.assignment)


def test_a_crowded_cell_counts_its_own_sub_channels() -> None:
    """Seven devices on seven sub-channels of server 0 of two: the wall clock must not take the sixth for server 1."""
    state = near(round_state(1, network(14, 2), DataParams(), 784))
    found = propose_offloading(make_planner("fixed:0,2,4,6,8,10,12", 0, 14), state)
    terms = paper_terms(found, state)
    assert found.assignment == (0, LOCAL) * 7
    assert terms["n_off"] == 7
    exe_s = state.world.server_work_cycles[0, 0] * 7 * 8e6 / 10e6 / 5e9
    sent_s = 7 * 8e6 / (20e6 * np.log2(1 + 1e4))
    rest_s = terms["T_cons"] + 3 * (found.latency.generation_s.min() + found.latency.propagation_s)
    trained_s = (found.latency.local_s + found.latency.upload_s).max()
    assert terms["T_wall"] == pytest.approx(max(sent_s + exe_s, trained_s) + rest_s, rel=1e-12)


def test_the_run_s_terms_by_hand() -> None:
    """Device 0 offloads to the only server, device 1 trains. 1,000 and 2,000 images of 784 bytes; B e = 25 * 10.

    T_exe = C_m (D_0 / D_ref) (250 / 1,000) / 5 GHz, T_loc = C_1 (D_1 / D_ref) (250 / 2,000) / f_1,
    T_off = D_0 / (20 MHz log2(1 + 1e4)), T_up = 8 * 87,360 / (same rate), T_prop = 0.005 * 0.3 * 2.
    """
    state = replace(near(round_state(1, network(2, 1), DataParams(), 784)), samples=(1000, 2000))
    found = propose_offloading(Stub((1, 0)), state)
    terms = real(found, state, payload_bytes=87_360, block_bytes=300_000, phi=4)
    rate_bps = 20e6 * np.log2(1 + 1e4)
    sent_s, uploaded_s = 1000 * 784 * 8 / rate_bps, 8 * 87_360 / rate_bps
    executed_s = state.world.server_work_cycles[0, 0] * (1000 * 784 * 8 / 10e6) * 0.25 / 5e9
    trained_s = state.world.work_cycles[0, 1] * (2000 * 784 * 8 / 10e6) * 0.125 / found.allocation.cpu_hz[0, 1]
    mined_s = 3 * (50e9 / found.allocation.hash_rate[0] + 0.003)
    assert terms["T_learn"] == pytest.approx(sent_s + executed_s + trained_s + uploaded_s, rel=1e-12)
    assert terms["T_cons"] == pytest.approx(4 * 0.05, rel=1e-12)  # one server has nobody to wait for
    assert terms["T_mine"] == pytest.approx(mined_s.sum(), rel=1e-12)
    learned_s = max(sent_s + executed_s, trained_s + uploaded_s)
    assert terms["T_wall"] == pytest.approx(learned_s + 0.2 + mined_s.min(), rel=1e-12)


def test_where_the_run_is_as_the_paper_says_both_agree() -> None:
    """Whole shares of 6,000: B e = D where the batch is the whole data once; 5 KB, 0.25 MB, phi = 5, complete graph."""
    state = round_state(1, network(), DataParams(data_per_round="all"), 784)
    found = propose_offloading(make_planner("all-local", 0, 10), state)
    expected = paper_terms(found, state)
    terms = real(found, state, batch=6000, iterations=1)
    assert terms == pytest.approx(expected, rel=1e-12)


def test_a_server_passes_over_the_union_of_what_it_got() -> None:
    """Three devices of 6,000 at one server: rho e = 25 * 10 / 18,000, so that T_exe is that of 250 images."""
    state = near(round_state(1, network(3, 1), DataParams(data_per_round="all"), 784))
    found = propose_offloading(Stub((1, 2, 3)), state)
    assert found.assignment == (0, 0, 0)
    terms = real(found, state)
    sent_s = 3 * 6000 * 784 * 8 / (20e6 / 3 * np.log2(1 + 1e4))
    executed_s = state.world.server_work_cycles[0, 0] * (250 * 784 * 8 / 10e6) / 5e9
    assert terms["n_timeout"] == 0
    assert terms["T_learn"] == pytest.approx(sent_s + executed_s, rel=1e-12)


def test_a_batch_is_never_more_than_the_data() -> None:
    assert passes(np.array([10, 25, 1000, 0]), 25, 10).tolist() == [10.0, 10.0, 0.25, 0.0]


def test_consensus_waits_for_the_slowest_neighbour_of_the_run_s_graph() -> None:
    """Servers 1 and 2 are 300 m from server 0 and 600 m apart: a star spares the long way, line and ring take it."""
    params = LatencyParams(servers=3, phi=4, model_bits=8e6)
    rate_bps = server_rates_bps(params)
    assert rate_bps[0, 1] == pytest.approx(rate_bps[0, 2])
    assert rate_bps[1, 2] == server_rate_bps(params) < rate_bps[0, 1]
    taken_s = {name: graph_consensus_s(make_graph(name, 3), params) for name in ("star", "line", "ring", "complete")}
    assert taken_s["star"] == pytest.approx(4 * (8e6 / rate_bps[0, 1] + 0.05), rel=1e-12)
    assert taken_s["line"] == pytest.approx(4 * (8e6 / rate_bps[1, 2] + 0.05), rel=1e-12)
    assert taken_s["ring"] == taken_s["complete"] == taken_s["line"]
    assert taken_s["complete"] == pytest.approx(consensus_s(params), rel=1e-12)


def test_a_given_rate_between_servers_is_that_of_every_link() -> None:
    params = LatencyParams(servers=4, phi=2, model_bits=4e6, server_rate_bps=8e6)
    assert graph_consensus_s(make_graph("line", 4), params) == pytest.approx(2 * (0.5 + 0.05), rel=1e-12)


def test_no_steps_take_no_time_and_more_steps_more() -> None:
    found, state = drawn("a2c")
    none, one, two = (real(found, state, graph="line", phi=phi)["T_cons"] for phi in (0, 1, 2))
    assert none == 0
    assert two == pytest.approx(2 * one)


def test_a_larger_model_and_a_larger_block_take_longer() -> None:
    found, state = drawn("threshold")
    plain, model, block = (
        real(found, state),
        real(found, state, payload_bytes=10**6),
        real(found, state, block_bytes=10**6),
    )
    assert model["T_learn"] > plain["T_learn"]
    assert model["T_cons"] > plain["T_cons"]
    assert model["T_mine"] == plain["T_mine"]
    assert block["T_mine"] == pytest.approx(plain["T_mine"] + 10 * 3 * 0.005 * 0.75 * 12, rel=1e-12)
    assert block["T_learn"] == plain["T_learn"]


@pytest.mark.parametrize("planner", NAMES)
def test_the_run_s_terms_are_complete_finite_and_the_same_twice(planner: str) -> None:
    for devices, servers in ((1, 1), (12, 2)):
        terms = real(*drawn(planner, 3, devices, servers))
        assert list(terms) == KEYS
        assert np.isfinite(list(terms.values())).all()
        assert terms == real(*drawn(planner, 3, devices, servers))


def test_planning_leaves_the_state_as_it_was() -> None:
    found, state = drawn("a2c")
    before = local_cycles(state.world, state.params).copy()
    digest = round_state(1, network(), DataParams(), 784).digest
    real(found, state)
    np.testing.assert_array_equal(local_cycles(state.world, state.params), before)
    assert state.digest == digest


def test_a_graph_of_other_servers_is_refused() -> None:
    found, state = drawn("all-local")
    with pytest.raises(PlanError, match="found a graph of 4 servers, expected 3"):
        real_terms(found, state, 5000, 0, 25, 10, make_graph("line", 4), 5, 784)
