"""Servers that trust each other, and leaders that fail where there is no chain."""

import numpy as np
import pytest

from bfl.attacks.conduct import WITHHELD, Conduct, Twice
from bfl.simulation.grid import SimulatedClock
from clients.errors import ParameterError
from edge_servers.errors import BoardError, FederationError
from edge_servers.founding.standing import Standing
from edge_servers.hosting import OffChain
from edge_servers.learning.filters import make_filter, make_filters
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.ledger.board import InProcessBoard, RoundSlot
from edge_servers.ledger.oversight import Trusting
from edge_servers.parameters import ON_CHAIN, RoundParams, Settings
from tests.edge_servers.chain_network import misbehave
from tests.edge_servers.planning.plannable import network
from tests.edge_servers.small_network import small_federation

NETWORK = network(10, 3)


def gradient(device: int, value: float) -> Gradient:
    record = NETWORK.devices[device]
    values = np.full(4, value, np.float32)
    return Gradient(record.address, f"device {device}", record.home, 40, 1, "model", "plan", values)


def trusting(filter_text: str, values: list[float]) -> Trusting:
    """Round 1, in which device n has posted a gradient of values[n]."""
    board = InProcessBoard()
    for n, value in enumerate(values):
        board.post(RoundSlot(1, "gradient"), NETWORK.devices[n].address, gradient(n, value))
    oversight = Trusting(board, NETWORK, filter_text)
    oversight.begin(Standing(0, np.zeros(4, np.float32), b""), 0)
    return oversight


def closed(oversight: Trusting, *refused: Refusal) -> list[str]:
    """Names of those that count once everybody but `refused` is accepted."""
    out = {refusal.node for refusal in refused}
    good, _ = oversight.gradients()
    accepted = tuple(sender for sender in sorted(good) if good[sender].node not in out)
    return [g.node for g in oversight.counted(Close(accepted, refused), NETWORK.servers[0], 0.0)]


def test_everything_on_the_board_may_count_and_nothing_is_refused() -> None:
    good, refused = trusting("none", [1.0, 2.0]).gradients()
    assert {g.node for g in good.values()} == {"device 0", "device 1"}
    assert refused == []


def test_what_the_leader_left_out_does_not_count() -> None:
    found = closed(trusting("none", [1.0, 2.0, 3.0]), Refusal("device 1", "late", ""))
    assert sorted(found) == ["device 0", "device 2"]


def test_krum_runs_once_over_the_whole_list_and_takes_nobody_out_in_silence() -> None:
    """Ten gradients: two go. Of the eight that are left another Krum would take one more."""
    values = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 50.0, -50.0]
    outliers = [Refusal(f"device {n}", "krum", "") for n in (8, 9)]
    assert len(make_filter("krum")([gradient(n, values[n]) for n in range(8)]).removed) == 1
    found = closed(trusting("krum", values), *outliers)
    assert sorted(found) == [f"device {n}" for n in range(8)]


def test_a_whole_round_under_krum_counts_whoever_is_not_named() -> None:
    federation = small_federation(filter="krum", planner="fixed:none")
    report = federation.run_round()
    assert [refusal.reason for refusal in report.refused] == ["krum"]  # six gradients: one goes
    counted = {g.node for g in federation.servers[0].current.closed}
    assert counted == {f"device {n}" for n in range(6)} - {refusal.node for refusal in report.refused}


def test_whom_the_leader_judged_by_loss_is_not_in_the_list_that_the_other_filters_see() -> None:
    """Norms 2, 20, 2000, 3: of all four the median is 11.5, of the three that are left 3, to which 20 is clipped."""
    oversight = trusting("loss+norm-clip:1", [1.0, 10.0, 1000.0, 1.5])
    good, _ = oversight.gradients()
    judged = Refusal("device 2", "loss", "")
    accepted = tuple(sender for sender in sorted(good) if good[sender].node != "device 2")
    found = oversight.counted(Close(accepted, (judged,)), NETWORK.servers[0], 0.0)
    counted = {g.node: float(g.values[0]) for g in found}
    assert counted == {"device 0": 1.0, "device 1": pytest.approx(1.5), "device 3": 1.5}


def test_nobody_is_accused_or_excluded_whatever_happens() -> None:
    oversight = trusting("none", [1.0])
    oversight.note_absent(NETWORK.servers[0], "plan")
    oversight.accuse(NETWORK.servers[1])
    oversight.check_all_iterates(1.0)
    oversight.check_model(np.full(4, np.nan, np.float32), NETWORK.servers[0])
    assert (oversight.excluded(), list(oversight.offences)) == (set(), [])


def test_an_iterate_is_what_was_posted_and_a_missing_one_stops_the_round() -> None:
    board = InProcessBoard()
    oversight = Trusting(board, NETWORK, "none")
    oversight.begin(Standing(2, np.zeros(4, np.float32), b""), 0)
    posted = np.arange(4, dtype=np.int32)
    board.post(RoundSlot(3, "iterate", 2), NETWORK.servers[1], posted)
    assert oversight.iterate(1, 2, 5.0) is posted
    assert len(oversight.iterates(2)) == 1
    with pytest.raises(BoardError, match="server 2 did not post iterate 2 of round 3"):
        oversight.iterate(2, 2, 5.0)


def test_a_filter_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ParameterError, match='did you mean "krum"'):
        make_filters("loss+krun")


# --- leaders that fail ------------------------------------------------------------------------------------------------


def silent_in(*kinds: str) -> Conduct:
    return lambda slot, body: WITHHELD if slot[1] in kinds else body


@pytest.mark.parametrize("what", ["plan", "close", "model", "seal"])
def test_without_a_ledger_a_round_has_one_attempt_and_ends_with_its_leader(what: str) -> None:
    """All servers are of one process: who is silent there has failed for good, and nobody waits."""
    clock = SimulatedClock()
    federation = small_federation(clock=clock)
    for server in federation.servers:
        misbehave(server, silent_in(what))
    told = "round 1 is not sealed" if what == "seal" else "round 1: no majority of the servers has come"
    with pytest.raises(BoardError, match=told):
        federation.run_round()
    assert (federation.round, clock.now()) == (0, 0.0)


def test_of_two_posts_for_one_slot_the_first_counts_where_nobody_keeps_books() -> None:
    federation, calm = small_federation(), small_federation()
    misbehave(federation.servers[1], lambda slot, body: Twice(body, body + 1) if slot[1] == "iterate" else body)
    assert federation.run_round().consensus_error == calm.run_round().consensus_error
    assert np.array_equal(federation.servers[0].standing.model, calm.servers[0].standing.model)


# --- schemes that need a chain ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ON_CHAIN)
def test_a_scheme_on_the_chain_is_refused_where_there_is_none(scheme: str) -> None:
    with pytest.raises(FederationError, match=f"found {scheme}, which runs on a chain.* use `bfl simulate`"):
        OffChain(Settings(RoundParams(scheme=scheme)))
    with pytest.raises(FederationError, match=scheme):
        small_federation(scheme=scheme)
