"""Servers that lie on the chain: named with the evidence, repaired, excluded; and nobody else ever is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from bfl.attacks.conduct import WITHHELD, Conduct, Twice, honest
from chain.client.posts import Flag
from chain.errors import SidecarSizeError
from chain.node.access import LocalLedger
from chain.protocol import slots
from chain.wire.sidecar import payload_digest
from edge_servers.learning.gradients import Gradient
from edge_servers.ledger.board import RoundSlot
from edge_servers.replay.replay import iterate_payload
from edge_servers.report import RoundReport
from tests.edge_servers.chain_network import ChainNetwork, chain_network, misbehave, only


@pytest.fixture(scope="module")
def calm() -> Iterator[ChainNetwork]:
    """The honest run that all lies of three servers are compared with."""
    with chain_network() as network:
        network.run(2)
        yield network


def attacked(attack: str, round_: int, **changes: Any) -> Any:
    return chain_network(attack=attack.replace("@", f"@{round_}"), **changes)


def flagged(network: ChainNetwork, round_: int) -> dict[str, set[str]]:
    """Names of those that were accused, with the names of those that did."""
    name = network.founding.network.name
    found: dict[str, set[str]] = {}
    for each in network.record(round_).flags:
        found.setdefault(name(each.offender), set()).add(name(each.server))
    return found


# --- wrong and missing iterates ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lie:
    """A run of one round in which one server does something wrong with an iterate, and its report."""

    kind: str
    step: int
    network: ChainNetwork
    report: RoundReport


LIAR = 1
"""One that does not lead round 1"""
HONEST = [m for m in range(3) if m != LIAR]
LIES = [
    (f"iterate-noise@1:server={LIAR},step=1", "iterate", 1),
    (f"iterate-noise@1:server={LIAR},step=0,strength=1e-6", "iterate", 0),
    (f"iterate-noise@1:server={LIAR},step=2", "iterate", 2),
    (f"lying-aggregate@1:server={LIAR}", "iterate", 0),
    (f"withheld-iterate@1:server={LIAR},step=1", "absent", 1),
]


@pytest.fixture(scope="module", params=LIES, ids=lambda lie: lie[0])
def lie(request: pytest.FixtureRequest) -> Iterator[Lie]:
    attack, kind, step = request.param
    with chain_network(attack=attack) as network:
        (report,) = network.run()
        yield Lie(kind, step, network, report)


def test_who_lies_about_an_iterate_is_named_with_its_step_and_excluded_and_who_posts_none_is_absent(
    calm: ChainNetwork, lie: Lie
) -> None:
    """In round 1 the same server leads as in the honest run: the model must be the same, bit for bit."""
    report = lie.report
    assert report.leader == calm.leader_of(1) != LIAR
    first = report.offences[0]
    assert (first.name, first.kind, first.step) == (f"server {LIAR}", lie.kind, lie.step)
    assert {offence.name for offence in report.offences} == {f"server {LIAR}"}
    assert [offence.step for offence in report.offences] == list(range(lie.step, 3))  # it goes on from its own lie
    assert (report.excluded, report.failed_leaders) == (() if lie.kind == "absent" else (LIAR,), ())
    assert lie.network.model(1).tobytes() == calm.model(1).tobytes()


def test_the_flags_in_the_block_name_the_transaction_and_the_digest_that_was_expected(
    calm: ChainNetwork, lie: Lie
) -> None:
    servers = lie.network.founding.network.servers
    right = calm.replayed(1).iterates.values(lie.step)[LIAR]
    expected = payload_digest(iterate_payload(right, calm.founding))
    posted = lie.network.record(1).iterate(servers[LIAR], lie.step)
    if lie.kind == "absent":
        assert lie.network.record(1).flags == (), "nobody is accused of silence"
        return
    found = posted.transaction_hash if posted else b""
    assert lie.network.record(1).flags == tuple(
        Flag(1, servers[LIAR], server, slots.iterate_slot(lie.step), found, expected)
        for server in sorted(servers)
        if server != servers[LIAR]
    )


def test_an_auditor_finds_the_same_offences_from_the_chain_alone(lie: Lie) -> None:
    assert lie.network.replayed(1).offences == lie.report.offences


def posting(network: ChainNetwork, server: int, post: Callable[[LocalLedger, int], None]) -> Conduct:
    """A server of whose iterates in round 1 `post` makes what it likes."""

    def conduct(slot: RoundSlot, body: Any) -> Any:
        if slot[:2] != (1, "iterate"):
            return body
        ledger = network.board(server).ledger.signed_by(network.hosting.account("server", server))
        assert isinstance(ledger, LocalLedger)
        post(ledger, slot[2])
        return WITHHELD

    return conduct


def garbage(ledger: LocalLedger, step: int) -> None:
    ledger.post(slots.iterate_slot(step), 1, bytes(ledger.access.sizes.iterate))


def beyond_the_last_step(ledger: LocalLedger, step: int) -> None:
    ledger.post(slots.iterate_slot(step + 50), 1, bytes(ledger.access.sizes.iterate))


def a_digest_of_nothing(ledger: LocalLedger, step: int) -> None:
    ledger._send("iterate", 1, 0, step, ledger.close_digest(), b"\x07" * 32, ledger.access.sizes.iterate)


def of_another_size(ledger: LocalLedger, step: int) -> None:
    with pytest.raises(SidecarSizeError, match=r"found 7 bytes of iterate, this network was founded with \d+"):
        ledger.post(slots.iterate_slot(step), 1, b"garbage")


@pytest.mark.parametrize(
    ("post", "kind"),
    [
        (garbage, "iterate"),
        (a_digest_of_nothing, "iterate"),
        (beyond_the_last_step, "absent"),
        (of_another_size, "absent"),
    ],
)
def test_bytes_that_are_no_iterate_are_a_wrong_one_or_none(
    calm: ChainNetwork, post: Callable[[LocalLedger, int], None], kind: str
) -> None:
    with chain_network() as network:
        misbehave(network.servers[LIAR], posting(network, LIAR, post))
        (report,) = network.run()
        assert [(o.name, o.kind, o.step) for o in report.offences] == [(f"server {LIAR}", kind, s) for s in range(3)]
        assert report.excluded == (() if kind == "absent" else (LIAR,))
        assert network.model(1).tobytes() == calm.model(1).tobytes()


def test_a_server_that_cannot_post_its_iterates_is_missed_like_one_that_does_not(calm: ChainNetwork) -> None:
    """Its false flag came too early: posts follow the phases, so the ledger takes none of its iterates."""
    with chain_network() as network:

        def hasty(slot: RoundSlot, body: Any) -> Any:
            if slot[:3] == (1, "iterate", 0):
                victim = network.founding.network.servers[HONEST[0]]
                ledger = network.board(LIAR).ledger_of(network.servers[LIAR].address)
                ledger.submit_flag(1, victim, slots.Slot.ITERATE, b"\1" * 32, bytes(32))
            return body

        misbehave(network.servers[LIAR], hasty)
        (report,) = network.run()
        assert {(o.name, o.kind) for o in report.offences} == {(f"server {LIAR}", "absent")}
        assert report.excluded == ()
        assert network.model(1).tobytes() == calm.model(1).tobytes()


def test_a_lie_of_one_unit_in_one_value_is_enough(calm: ChainNetwork) -> None:
    def nudged(x: Any) -> Any:
        other = x.copy()
        other[17] += 1
        return other

    with chain_network() as network:
        liar = next(m for m in range(3) if m != network.leader)
        misbehave(network.servers[liar], only("iterate", nudged))
        (report,) = network.run()
        assert {(o.name, o.step) for o in report.offences} == {(f"server {liar}", step) for step in range(3)}
        assert network.model(1).tobytes() == calm.model(1).tobytes()


@pytest.mark.parametrize("kind", ["plan", "close", "gradient"])
def test_two_signatures_for_any_slot_before_the_flags_are_found(kind: str) -> None:
    other: dict[str, Callable[[Any], Any]] = {
        "plan": lambda plan: replace(plan, state_digest="another"),
        "close": lambda close: replace(close, accepted=close.accepted[1:]),
        "gradient": lambda gradient: replace(gradient, values=gradient.values * 2),
    }
    with chain_network() as network:
        liar = 0 if kind == "gradient" else network.leader
        misbehave(network.servers[liar], only(kind, lambda body: Twice(body, other[kind](body))))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {liar}", "equivocation")]
        assert (report.excluded, report.training_nodes, report.refused) == ((liar,), 6, ())
        assert network.replayed(1).model.tobytes() == network.model(1).tobytes()


@pytest.mark.parametrize("nodes", [1, 3])
def test_two_signatures_for_one_slot_are_the_evidence_which_the_registry_checks(calm: ChainNetwork, nodes: int) -> None:
    with attacked(f"equivocation@:server={LIAR},step=1", 1, nodes=nodes) as network:
        (report,) = network.run()
        assert [(o.name, o.kind, o.step) for o in report.offences] == [(f"server {LIAR}", "equivocation", None)]
        assert (report.excluded, flagged(network, 1)) == ((LIAR,), {f"server {LIAR}": {f"server {m}" for m in HONEST}})
        assert network.calls(1).count("flag_equivocation") == 2
        assert {each.slot for each in network.record(1).flags} == {slots.Slot.EQUIVOCATION}
        assert network.model(1).tobytes() == calm.model(1).tobytes()
        assert len({node.head.hash for node in network.hosted.nodes}) == 1


# --- what a server trains itself --------------------------------------------------------------------------------------


def test_a_server_that_claims_more_data_than_the_plan_gave_it_does_not_count(calm: ChainNetwork) -> None:
    with attacked("inflated-weight@:server=0", 1) as network:
        (report,) = network.run()
        assert [(refusal.node, refusal.reason) for refusal in report.refused] == [("server 0", "wrong-weight")]
        assert "server 0" not in {gradient.node for gradient in network.replayed(1).counted}
        assert report.training_nodes == 5
        assert network.calls(1).count("gradient") == 6  # what was posted stays to be seen
        assert (report.offences, report.excluded) == ((), ())


def test_a_server_may_train_on_less_than_the_plan_gave_it() -> None:
    """Of those who should offload to it some may not have come."""

    def halved(gradient: Gradient) -> Gradient:
        return replace(gradient, samples=gradient.samples // 2)

    with chain_network() as network:
        misbehave(network.servers[0], only("gradient", halved))
        (report,) = network.run()
        assert report.refused == ()
        assert report.samples == 5 * 40 + 20


def test_a_poisoned_gradient_within_bounds_counts_and_a_huge_one_does_not() -> None:
    with attacked("poisoned-gradient@:server=0,strength=2", 1) as network:
        (report,) = network.run()
        assert (report.refused, report.offences, report.training_nodes) == ((), (), 6)
    with attacked("poisoned-gradient@:server=0,strength=2", 1, gradient_bound=1e-3, codec="fp32") as network:
        (report,) = network.run()
        assert ("server 0", "out-of-bounds") in {(each.node, each.reason) for each in report.refused}


# --- the leader -------------------------------------------------------------------------------------------------------


def test_a_leader_that_leaves_a_gradient_out_is_flagged_and_the_next_attempt_counts_it() -> None:
    with attacked("omitted-gradient@:device=3", 1) as network:
        leader = network.leader
        (report,) = network.run()
        assert [(o.name, o.kind, o.step) for o in report.offences] == [(f"server {leader}", "close", None)]
        assert report.offences[0].detail == f"server {leader} left device 3 out of the closed list without a reason"
        assert (report.training_nodes, report.refused) == (6, ())
        close = network.record(1).only(slots.Slot.CLOSE)
        assert close is not None
        ((slot, sent),) = {(each.slot, each.transaction_hash) for each in network.record(1).flags}
        assert (slot, sent != close.transaction_hash) == (slots.Slot.CLOSE, True), "that list is in no block"
        assert (report.excluded, report.failed_leaders) == ((leader,), (leader,))
        assert network.waited_s(1) == 1  # its flags excluded it before a model was due: nobody waits for it


def test_a_leader_that_lies_in_the_gossip_is_excluded_before_the_model_and_the_next_leads_at_once() -> None:
    with chain_network() as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], only("iterate", lambda x: x + 1))
        (report,) = network.run()
        assert (report.leader, report.excluded, report.failed_leaders) == (following, (leader,), (leader,))
        assert flagged(network, 1) == {f"server {leader}": {f"server {m}" for m in range(3) if m != leader}}
        assert network.waited_s(1) == 1
        assert not network.run()[0].refused  # devices take the model of a leader that was second in rank


# --- exclusion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
def test_an_excluded_server_posts_and_leads_nothing_until_its_time_is_over_and_its_devices_count(nodes: int) -> None:
    with attacked("iterate-noise@:server=2,step=1", 1, exclusion_rounds=2, term_cap=1, phi="1", nodes=nodes) as network:
        reports = network.run(5)
        assert [report.excluded for report in reports] == [(2,), (2,), (), (), ()]
        for report in reports[1:3]:
            assert network.senders(report.round) == {0, 1}
            assert report.leader != 2
            assert report.training_nodes == 6  # devices 2 and 5 are at home there
            assert network.calls(report.round).count("iterate") == 2 * 2
            assert network.replayed(report.round, (network.founding.network.servers[2],)).offences == ()
        for report in reports[3:]:
            assert network.senders(report.round) == {0, 1, 2}
        assert all(not report.offences and not report.refused for report in reports[1:])


def test_an_excluded_server_stays_a_virtual_node_that_everyone_computes() -> None:
    with attacked("iterate-noise@:server=2,step=1", 1) as network:
        network.run(2)
        iterates = network.replayed(2).iterates
        assert len(iterates.first) == 3
        assert np.abs(iterates.first[2]).max() > 0
        assert network.replayed(2).model.tobytes() == network.model(2).tobytes()


def test_no_device_is_sent_to_an_excluded_server() -> None:
    with attacked("iterate-noise@:server=2,step=1", 1, planner="fixed:2,5") as network:
        first, second = network.run(2)
        assert (first.offloaded, second.offloaded) == (2, 0)
        assert second.training_nodes == 6


def test_of_two_servers_the_liar_is_repaired_and_flagged_and_nobody_is_excluded() -> None:
    with chain_network(edges=2) as calm, chain_network(edges=2) as network:
        calm.run(1)
        liar = 1 - network.leader
        misbehave(network.servers[liar], only("iterate", lambda x: x + 1))
        for report in network.run(2):
            assert {o.name for o in report.offences} == {f"server {liar}"}
            assert report.excluded == ()
        assert network.model(1).tobytes() == calm.model(1).tobytes()
        assert flagged(network, 1) == {f"server {liar}": {f"server {1 - liar}"}}


def test_of_five_a_liar_and_a_silent_one_are_both_named_and_the_liar_is_excluded() -> None:
    with chain_network(edges=5, graph="ring") as calm, chain_network(edges=5, graph="ring") as network:
        calm.run(1)
        leader = network.leader
        liars = [m for m in range(5) if m != leader][:2]
        misbehave(network.servers[liars[0]], only("iterate", lambda x: x + 1))
        misbehave(network.servers[liars[1]], only("iterate", lambda x: WITHHELD))
        (report,) = network.run()
        assert report.excluded == (liars[0],), "silence is no lie"
        assert {(o.name, o.kind) for o in report.offences} == {
            (f"server {liars[0]}", "iterate"), (f"server {liars[1]}", "absent"),
        }  # fmt: skip
        assert network.model(1).tobytes() == calm.model(1).tobytes()
        misbehave(network.servers[liars[1]], honest)
        (after,) = network.run()
        assert (after.offences, network.senders(2)) == ((), set(range(5)) - {liars[0]})


def test_a_minority_cannot_exclude_whoever_is_honest_and_an_auditor_does_not_believe_it() -> None:
    with chain_network() as network:
        liar, victim = network.servers[0], network.founding.network.servers[1]
        network.walk("plan", "verify")
        post = network.board(0).ledger.posts(1, slots.Slot.ITERATE)[network.key(1)]
        network.board(0).ledger_of(liar.address).submit_flag(
            1, victim, slots.Slot.ITERATE, post.transaction_hash, bytes(31) + b"\x01"
        )
        network.walk("model", "seal")
        assert flagged(network, 1) == {"server 1": {"server 0"}}
        assert liar.standing.excluded == ()
        assert network.replayed(1).offences == ()
        assert network.run()[0].offences == ()
        assert network.senders(2) == {0, 1, 2}


def test_in_fifteen_honest_rounds_nobody_is_flagged() -> None:
    with chain_network(devices=3, phi="1", planner="random:0.5", filter="norm-clip") as network:
        reports = network.run(15)
    assert [report.round for report in reports] == list(range(1, 16))
    assert not any(r.offences or r.excluded or r.failed_leaders or r.refused for r in reports)
