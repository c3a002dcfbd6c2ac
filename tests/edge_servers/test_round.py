"""Whole rounds: the order of phases, what each scheme agrees on, and devices that misbehave."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, Error, Message
from numpy.typing import NDArray

from bfl.simulation.grid import Fault
from chain.wire.plan import Plan
from clients.device import Device
from clients.models import Vector
from clients.orders import Order
from clients.training import TrainingNode
from edge_servers.federation import Federation
from edge_servers.learning.schemes import SCHEMES
from edge_servers.ledger.board import RoundSlot
from edge_servers.parameters import ON_CHAIN
from edge_servers.report import RoundReport
from edge_servers.round import ALGORITHM_1
from tests.edge_servers.small_network import DEVICES, SHARE, small_chain, small_federation

PHASES = ("plan", "train", "close", "gossip", "verify", "model", "seal")  # the table of protocol.md
OFF_CHAIN = [scheme for scheme in SCHEMES if scheme not in ON_CHAIN]


def test_a_round_is_the_phases_of_the_protocol_in_their_order() -> None:
    assert tuple(phase.__name__ for phase in ALGORITHM_1) == PHASES
    report = small_federation().run_round()
    assert tuple(report.seconds) == (*PHASES, "evaluate")


def test_training_nodes_are_the_local_devices_and_the_servers_with_offloaders() -> None:
    federation = small_federation()
    report = federation.run_round()
    closed = federation.servers[0].current.closed
    names = {g.node for g in closed}
    assert names == {"device 1", "device 2", "device 3", "device 5", "server 0", "server 1"}  # 0 -> 0, 4 -> 1
    assert report.samples == DEVICES * SHARE  # offloaded data counts at the server
    assert report.assignment == (0, -1, -1, -1, 1, -1)
    assert [g.sender for g in closed] == sorted(g.sender for g in closed)


def test_all_servers_end_with_the_leaders_model() -> None:
    federation = small_federation()
    federation.run_round()
    first, *others = (server.standing.model for server in federation.servers)
    assert all(np.array_equal(first, other) for other in others)


def test_traditional_servers_keep_models_of_their_own() -> None:
    federation = small_federation(scheme="traditional")
    federation.run_round()
    models = [server.standing.model for server in federation.servers]
    assert not np.array_equal(models[0], models[1])


def model_after(scheme: str, **rounds: Any) -> Vector:
    federation = small_federation(scheme=scheme, **rounds)
    federation.run_round()
    return federation.servers[0].standing.model


def test_consensus_with_many_steps_is_fedavg_of_the_same_training() -> None:
    agreed, mean = model_after("consensus-no-chain", phi="30"), model_after("fedavg")
    assert np.abs(agreed - mean).max() < 1e-6


def test_no_consensus_is_the_leaders_cluster_and_differs_from_the_mean() -> None:
    alone, mean = model_after("no-consensus-no-chain"), model_after("fedavg")
    assert np.abs(alone - mean).max() > 1e-4


@pytest.mark.parametrize("scheme", OFF_CHAIN)
def test_one_server_makes_all_schemes_equal(scheme: str) -> None:
    ours = model_after(scheme, edges=1)
    assert np.abs(ours - model_after("fedavg", edges=1)).max() < 1e-6


@pytest.mark.parametrize(("scheme", "without"), list(zip(ON_CHAIN, OFF_CHAIN[:2], strict=True)))
def test_one_server_makes_of_the_chain_a_board(scheme: str, without: str) -> None:
    """The same gradients, bit for bit where fp32 carries them; sums in order of address, which differ (P8)."""
    chain, calm = small_chain(scheme=scheme, codec="fp32", edges=1), small_federation(scheme=without, edges=1)
    reports = [chain.federation.run_round(), calm.run_round()]
    one, other = chain.federation.servers[0], calm.servers[0]
    chain.hosted.close()
    expected = {g.node: g.values for g in other.current.closed}
    assert {g.node for g in one.current.closed} == set(expected)
    assert all(np.array_equal(g.values, expected[g.node]) for g in one.current.closed)
    assert np.abs(one.standing.model - other.standing.model).max() < 1e-6
    assert [(r.phi, r.samples, r.refused) for r in reports[:1]] == [(r.phi, r.samples, r.refused) for r in reports[1:]]


def test_every_scheme_learns() -> None:
    for scheme in OFF_CHAIN:
        reports = list(small_federation(scheme=scheme, rounds=30).rounds())
        assert reports[-1].scores is not None
        assert reports[-1].scores.accuracy > 0.8, scheme


def test_the_same_seed_gives_the_same_round() -> None:
    first, second = (small_federation().run_round() for _ in range(2))
    assert first.scores == second.scores
    assert first.divergence == second.divergence


def test_the_leader_of_the_next_round_is_the_home_of_the_winner() -> None:
    federation = small_federation(rounds=8, term_cap=8)
    previous: RoundReport | None = None
    for report in federation.rounds():
        if previous:
            assert previous.winner is not None
            assert report.leader == previous.winner % 3
        previous = report


def test_nobody_leads_longer_than_the_term_cap() -> None:
    leaders = [report.leader for report in small_federation(rounds=12, term_cap=1).rounds()]
    assert all(a != b for a, b in pairwise(leaders))


def test_auto_phi_follows_the_divergence_of_the_round_before() -> None:
    federation = small_federation(phi="auto", rounds=3, xi=1e-4)
    first, second, _ = federation.rounds()
    assert first.phi == 5
    plan: Plan = next(iter(federation.servers[0].board.read(RoundSlot(3, "plan")).values()))
    assert plan.divergence == second.divergence
    assert second.phi > 5


# --- devices that misbehave ---------------------------------------------------------------------------------------


def record(reply: Message, name: str) -> Any:
    """One record of a reply, for a test to tamper with."""
    return reply.content[name]


def tampering(change: Callable[[Message], Message | None]) -> Fault:
    """`change` on every gradient on its way; other replies arrive as they are."""
    return lambda reply: change(reply) if reply.metadata.message_type == "train" else reply


def with_values(change: Callable[[Vector], NDArray[Any]]) -> Fault:
    def changed(reply: Message) -> Message:
        record(reply, "arrays")["gradient"] = Array(change(record(reply, "arrays")["gradient"].numpy().copy()))
        return reply

    return tampering(changed)


def with_entry(name: str, key: str, value: object) -> Fault:
    def changed(reply: Message) -> Message:
        record(reply, name)[key] = value
        return reply

    return tampering(changed)


def without_weight(reply: Message) -> Message:
    del reply.content["weight"]
    return reply


def one_nan(values: Vector) -> Vector:
    values[5] = np.nan
    return values


nan = with_values(one_nan)
silent = tampering(lambda reply: None)


def dead(reply: Message) -> Message:
    """What Flower answers for a node that died."""
    lost = Message(Error(5, "Node unavailable"), reply_to=reply)
    lost.metadata.__dict__["_reply_to_message_id"] = reply.metadata.reply_to_message_id
    return lost


class RaisingDevice(Device):
    def training_node(self, order: Order) -> TrainingNode:
        raise OSError("the card is broken")


def run_with_fault(fault: Fault | type[Device]) -> tuple[Federation, RoundReport]:
    if isinstance(fault, type):
        federation = small_federation(devices={3: fault})
    else:
        federation = small_federation(faults={3: fault})
    return federation, federation.run_round()


@pytest.mark.parametrize(
    ("fault", "reason", "detail"),
    [
        (RaisingDevice, "failed", "the card is broken"),
        (tampering(dead), "failed", "Node unavailable"),
        (nan, "not-finite", "found nan"),
        (with_values(lambda v: v[:7]), "malformed", "found float32 of shape (7,)"),
        (with_values(lambda v: v.astype(np.float64)), "malformed", "found float64"),
        (with_values(lambda v: v + np.float32(1e6)), "out-of-bounds", "found |value| 1e+06, expected at most 300"),
        (silent, "late", "no answer within 30 s"),
        (
            with_entry("weight", "samples", 10**6),
            "wrong-weight",
            "found 1000000 samples and 3 iterations, expected 40 and 3",
        ),
        (with_entry("about", "model-digest", "0" * 64), "stale", "found base model 000000000000"),
        (with_entry("about", "device", 1), "stale", "answer of device 1"),
        (tampering(without_weight), "malformed", "weight"),
    ],
)
def test_a_faulty_device_does_not_stop_the_round_and_is_named(
    fault: Fault | type[Device], reason: str, detail: str
) -> None:
    _, report = run_with_fault(fault)
    (refusal,) = report.refused
    assert (refusal.node, refusal.reason) == ("device 3", reason)
    assert detail in refusal.detail
    assert report.training_nodes == 5
    assert report.samples == (DEVICES - 1) * SHARE


@pytest.mark.parametrize("fault", [nan, silent, RaisingDevice])
def test_the_others_go_on_as_if_a_faulty_device_had_not_been_there(fault: Fault | type[Device]) -> None:
    federation, _ = run_with_fault(fault)
    closed = federation.servers[0].current.closed
    honest = small_federation()
    honest.run_round()
    expected = {g.node: g.values for g in honest.servers[0].current.closed}
    for gradient in closed:
        assert np.allclose(gradient.values, expected[gradient.node], atol=1e-5)


def offloading(change: Callable[[Any], None]) -> Fault:
    """`change` on the arrays of every hand-over of data."""

    def changed(reply: Message) -> Message:
        if reply.metadata.message_type == "query.offload":
            change(record(reply, "arrays"))
        return reply

    return changed


def unknown_label(arrays: Any) -> None:
    labels = arrays["labels"].numpy().copy()
    labels[0] = 99
    arrays["labels"] = Array(labels)


def lost_image(arrays: Any) -> None:
    arrays["inputs"] = Array(arrays["inputs"].numpy()[:-1])


@pytest.mark.parametrize("change", [unknown_label, lost_image])
def test_bad_offloaded_data_is_refused_and_its_server_goes_on_without(change: Callable[[Any], None]) -> None:
    federation = small_federation(faults={0: offloading(change)})
    report = federation.run_round()
    assert [(r.node, r.reason) for r in report.refused] == [("device 0", "malformed")]
    assert "server 0" not in {g.node for g in federation.servers[0].current.closed}


def test_a_device_that_does_not_consent_trains_instead() -> None:
    federation = small_federation(consents={4: "never"})
    report = federation.run_round()
    assert federation.servers[0].current.plan.assignment[4] == -1
    assert "device 4" in {g.node for g in federation.servers[0].current.closed}
    assert not report.refused


def test_a_device_that_withdraws_its_consent_after_the_plan_trains_instead() -> None:
    def once_willing(reply: Message) -> Message:
        if reply.metadata.message_type == "query.introduce":
            record(reply, "about")["offload"] = "any"
        return reply

    federation = small_federation(consents={4: "never"}, faults={4: once_willing})
    report = federation.run_round()
    assert federation.servers[0].current.plan.assignment[4] == 1
    assert not report.refused
    assert "device 4" in {g.node for g in federation.servers[0].current.closed}


def test_data_for_another_server_goes_through_the_home_server() -> None:
    federation = small_federation(planner="random:1")
    report = federation.run_round()
    plan = federation.servers[0].current.plan
    assert any(m != n % 3 for n, m in enumerate(plan.assignment))
    for server in federation.servers:
        assert sorted(server.current.data) == [n for n, m in enumerate(plan.assignment) if m == server.index]
    assert report.samples == DEVICES * SHARE


def test_a_round_in_which_nobody_answers_leaves_the_model_as_it_was() -> None:
    def lost(reply: Message) -> Message | None:
        return reply if reply.metadata.message_type == "query.introduce" else None

    federation = small_federation(faults=dict.fromkeys(range(DEVICES), lost), rounds=2)
    before = federation.servers[0].standing.model
    reports = list(federation.rounds())
    assert [r.round for r in reports] == [1, 2]
    assert reports[0].training_nodes == 0
    assert len(reports[0].refused) == DEVICES
    assert np.array_equal(federation.servers[0].standing.model, before)
