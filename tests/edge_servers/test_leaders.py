"""Leaders on the chain that are silent or lie: each costs an attempt, the next in rank leads another."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

from bfl.attacks.conduct import WITHHELD, Conduct, honest
from chain.protocol import slots
from chain.wire.documents import ClosedList
from chain.wire.plan import Plan
from edge_servers.errors import BoardError
from edge_servers.learning.gradients import Close
from edge_servers.ledger.board import RoundSlot
from tests.edge_servers.chain_network import ChainNetwork, chain_network, misbehave, only, with_fields

PLAN_S = 10
"""Until a plan is due, and a close: 30 s of the devices and 10 s later"""
CLOSE_S = PLAN_S + 30 + 10


def silent_in(*kinds: str) -> Conduct:
    return lambda slot, body: WITHHELD if slot[1] in kinds else body


def check_passed_on(network: ChainNetwork, round_: int, following: int, *accused: int) -> None:
    """The round is sealed by `following`, its model follows, and nobody is flagged but those."""
    assert network.leader_of(round_) == following
    assert network.replayed(round_).model.tobytes() == network.model(round_).tobytes()
    assert all(server.standing.model.tobytes() == network.model(round_).tobytes() for server in network.servers)
    assert {each.offender for each in network.record(round_).flags} == {network.key(m) for m in accused}


# --- silence: what each phase costs is in `test_attempts.py` ----------------------------------------------------------


def test_whoever_leads_next_may_fail_later_in_the_same_round() -> None:
    """Nothing of the attempts that failed is in the block: it holds the posts of one."""
    with chain_network() as network:
        first, second, third = network.ranked
        misbehave(network.servers[first], silent_in("plan"))
        misbehave(network.servers[second], silent_in("close"))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.excluded) == ((first, second), third, ())
        assert network.waited_s(1) == PLAN_S + CLOSE_S
        record = network.record(1)
        assert {post.attempt for by_sender in record.posts.values() for post in by_sender.values()} == {2}
        assert all(record.only(slot).sender == network.key(third) for slot in (slots.Slot.PLAN, slots.Slot.CLOSE))  # type: ignore[union-attr]


def test_of_two_servers_the_silent_one_is_passed_over_and_stays() -> None:
    with chain_network(edges=2) as network:
        leader, following = network.ranked
        misbehave(network.servers[leader], silent_in("model"))
        (report,) = network.run()
        assert (report.leader, report.excluded, report.failed_leaders) == (following, (), (leader,))
        misbehave(network.servers[leader], honest)
        assert network.run()[0].failed_leaders == ()


@pytest.mark.parametrize(("what", "edges"), [("plan", 1), ("close", 3), ("model", 3), ("seal", 1)])
def test_where_all_leaders_are_silent_the_round_stops_and_says_so(what: str, edges: int) -> None:
    with chain_network(edges=edges) as network:
        for server in network.servers:
            misbehave(server, silent_in(what))
        with pytest.raises(BoardError, match=f"round 1: all {edges} leaders have failed, each 2 times"):
            network.run()
        assert network.node.head.block_number == 1  # nothing was sealed


# --- wrong models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_wrong_model_is_flagged_with_its_transaction_in_the_next_attempt_at_once(nodes: int) -> None:
    sent: list[bytes] = []

    with chain_network(nodes=nodes, phi="1") as network:
        leader, following = network.ranked[:2]
        network.node.listeners.append(lambda kind, raw, _: sent.append(raw) if kind == "transaction" else None)
        misbehave(network.servers[leader], only("model", lambda model: model + np.float32(1)))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "model")]
        assert (report.failed_leaders, report.excluded) == ((leader,), (leader,))
        assert network.waited_s(1) == 1, "whoever has seen the lie waits for nothing"
        check_passed_on(network, 1, following, leader)
        flags = network.record(1).flags
        assert {each.slot for each in flags} == {slots.Slot.MODEL}
        assert all(any(each.transaction_hash) and any(each.expected) for each in flags)
        assert network.calls(1).count("model") == 1
        assert not network.run()[0].refused


@pytest.mark.parametrize("change", [lambda m: m[:-1], lambda m: m * np.nan, lambda m: m.astype(np.float64)])
def test_a_model_that_is_none_costs_its_leader_the_attempt(change: Callable[[Any], Any]) -> None:
    with chain_network() as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], only("model", change))
        (report,) = network.run()
        assert network.replayed(1).offences == ()
        if report.failed_leaders:
            assert (report.failed_leaders, report.leader) == ((leader,), following)
        else:  # float64 is written as the same float32
            assert report.leader == leader


def test_of_two_servers_a_model_that_follows_from_the_leaders_own_lie_is_passed_over() -> None:
    with chain_network(edges=2) as network:
        leader, following = network.ranked
        misbehave(network.servers[leader], only("iterate", lambda x: x + 1))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.excluded) == ((leader,), following, ())
        assert network.replayed(1).model.tobytes() == network.model(1).tobytes()


# --- wrong plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"phi": 10**6}, "plan: found phi 1000000, expected 2"),
        ({"assignment": (-1, -1, -1, -1, -1, 3)}, "plan: device 5 may not offload to server 3"),
        ({"assignment": (-1,)}, "found a plan of round 1 for 1 devices"),
        ({"hash_rate": ()}, "plan: found hash_rate for 0 devices, expected 6"),
        ({"divergence": 3.0}, "plan: found divergence 3.0 of the round before, expected 0.0"),
        ({"latency_s": {"T_wall": 1e300}}, "plan: found a round of 1e+300 s, expected 0 to 1000000"),
    ],
    ids=str,
)
def test_a_plan_that_the_founding_does_not_allow_costs_its_leader_the_attempt(
    changes: dict[str, Any], told: str
) -> None:
    """Every way a plan may be wrong is in `replay/test_plan_bounds.py`."""
    with chain_network() as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], only("plan", with_fields(**changes)))
        (report,) = network.run()
        (offence,) = report.offences
        assert (offence.name, offence.kind) == (f"server {leader}", "plan")
        assert offence.detail.startswith(told)
        assert (report.failed_leaders, report.excluded) == ((leader,), (leader,))
        check_passed_on(network, 1, following, leader)
        assert network.calls(1).count("plan") == 1


def test_a_flag_about_a_dropped_plan_names_its_transaction() -> None:
    with chain_network() as network:
        leader = network.ranked[0]
        seen: list[bytes] = []

        def wrong(plan: Plan) -> Any:
            board = network.board(leader)
            transaction = board.ledger.signed_by(network.hosting.account("server", leader)).post(
                slots.Slot.PLAN, 1, with_fields(phi=1)(plan).payload
            )
            seen.append(transaction)
            return WITHHELD

        misbehave(network.servers[leader], only("plan", wrong))
        network.run()
        assert {each.transaction_hash for each in network.record(1).flags} == set(seen)


def test_a_plan_that_sends_a_device_to_an_excluded_server_is_refused() -> None:
    with chain_network(attack="iterate-noise@1:server=2,step=1") as network:
        network.run()
        leader, following = network.ranked
        assert network.servers[0].standing.excluded == (network.founding.network.servers[2],)
        misbehave(network.servers[leader], only("plan", with_fields(assignment=(-1, -1, 2, -1, -1, -1))))
        (report,) = network.run()
        assert report.offences[0].detail == "plan: device 2 may not offload to server 2"
        assert (report.failed_leaders, report.leader) == ((leader,), following)


def test_a_plan_that_nobody_can_read_is_flagged_like_a_wrong_one() -> None:
    with chain_network() as network:
        leader, following = network.ranked[:2]

        def gibberish(plan: Plan) -> Any:
            network.board(leader).ledger.signed_by(network.hosting.account("server", leader)).post(
                slots.Slot.PLAN, 1, b"gibberish"
            )
            return WITHHELD

        misbehave(network.servers[leader], only("plan", gibberish))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.excluded) == ((leader,), following, (leader,))
        assert report.offences[0].detail == f"server {leader} posted a plan that nobody can read"
        assert network.replayed(1).offences == ()
        check_passed_on(network, 1, following, leader)


# --- wrong closed lists -----------------------------------------------------------------------------------------------


def posting_close(network: ChainNetwork, leader: int, change: Callable[[ClosedList], bytes]) -> Conduct:
    """A leader that posts any bytes as its closed list."""

    def post(close: Close) -> Any:
        ledger = network.board(leader).ledger
        posts = ledger.posts(1, slots.Slot.GRADIENT)
        right = ClosedList(
            1,
            tuple(posts[sender].transaction_hash for sender in close.accepted),
            tuple((refusal.node, refusal.reason) for refusal in close.refused),
            rolls=tuple(ledger.posts(1, slots.Slot.ROLL)[sender].transaction_hash for sender in close.rolls),
        )
        ledger.signed_by(network.hosting.account("server", leader)).post(slots.Slot.CLOSE, 1, change(right))
        return WITHHELD

    return only("close", post)


@pytest.mark.parametrize(
    "change",
    [
        lambda right: replace(right, accepted=right.accepted[::-1]).encode(),
        lambda right: replace(right, round=2).encode(),
        lambda right: b"gibberish",
        lambda right: right.encode().replace(b'"refused":[]', b'"refused":[["device 1"]]'),
        lambda right: right.encode().replace(b'"accepted":["0x', b'"accepted":["0X'),
    ],
    ids=["out of order", "another round", "gibberish", "half a refusal", "not canonical"],
)
def test_a_wrong_closed_list_costs_its_leader_the_attempt_and_the_next_closes(
    change: Callable[[ClosedList], bytes],
) -> None:
    with chain_network() as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], posting_close(network, leader, change))
        (report,) = network.run()
        assert (report.failed_leaders, report.excluded) == ((leader,), (leader,))
        assert {offence.name for offence in report.offences} == {f"server {leader}"}
        assert (report.training_nodes, report.refused) == (6, ())
        check_passed_on(network, 1, following, leader)


def test_a_closed_list_with_a_hash_that_nobody_knows_fails_and_its_leader_stays() -> None:
    """It may be a gradient that has reached nobody else: nothing proves that there is none (D3.6)."""

    def change(right: ClosedList) -> bytes:
        return replace(right, accepted=(*right.accepted, bytes(31) + b"\x01")).encode()

    with chain_network() as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], posting_close(network, leader, change))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "absent")]
        assert (report.failed_leaders, report.excluded) == ((leader,), ())
        assert network.waited_s(1) == CLOSE_S
        check_passed_on(network, 1, following)


def test_a_closed_list_that_accepts_what_must_not_count_is_the_leaders_failure() -> None:
    """A server claims ten times its samples: refused by rule, so a leader may not accept it."""
    with chain_network(planner="fixed:0,1") as network:
        leader, following = network.ranked[:2]
        liar = next(m for m in (0, 1) if m != leader)

        def generous(close: Close) -> Close:
            return Close(tuple(sorted((*close.accepted, network.founding.network.servers[liar]))), ())

        misbehave(network.servers[liar], only("gradient", lambda body: replace(body, samples=10 * body.samples)))
        misbehave(network.servers[leader], only("close", generous))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader) == ((leader,), following)
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "close")]
        assert "which is no gradient that may count" in report.offences[0].detail
        assert [(r.node, r.reason) for r in report.refused] == [(f"server {liar}", "wrong-weight")]


def test_a_closed_list_that_accepts_whom_the_filters_take_out_is_the_leaders_failure() -> None:
    with chain_network(filter="krum", planner="fixed:none") as network:
        leader, following = network.ranked[:2]

        def everybody(close: Close) -> Close:
            return Close(tuple(sorted(device.address for device in network.founding.network.devices)), ())

        misbehave(network.servers[leader], only("close", everybody))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader) == ((leader,), following)
        assert "the filters take out 1 gradients of the closed list, the leader named 0" in report.offences[0].detail
        assert [refusal.reason for refusal in report.refused] == ["krum"]


# --- who leads --------------------------------------------------------------------------------------------------------


def test_the_winners_home_leads_the_next_round_and_the_winner_is_in_the_header() -> None:
    with chain_network(term_cap=9, phi="0") as network:
        reports = network.run(6)
        for before, after in pairwise(reports):
            assert before.winner is not None
            assert after.leader == before.winner % 3
            assert network.header(before.round).winner == network.founding.network.devices[before.winner].address


@pytest.mark.parametrize("cap", [1, 2])
def test_nobody_leads_longer_than_the_term_cap(cap: int) -> None:
    with chain_network(term_cap=cap, phi="0", devices=3) as network:
        reports = network.run(10)
        assert not any(report.failed_leaders or report.refused for report in reports)
        terms = [len(list(same)) for _, same in groupby(network.leader_of(report.round) for report in reports)]
        assert max(terms) <= cap


def test_conduct_is_told_the_round_the_kind_and_the_step() -> None:
    seen: list[RoundSlot] = []

    def watching(slot: RoundSlot, body: Any) -> Any:
        seen.append(slot)
        return body

    with chain_network() as network:
        leader = network.leader
        misbehave(network.servers[leader], watching)
        network.run()
    kinds = [(slot[1], slot[2]) for slot in seen if slot[1] != "gradient"]
    iterates = [("iterate", step) for step in range(3)]
    assert kinds == [("plan", 0), ("roll", 0), ("close", 0), *iterates, ("model", 0), ("seal", 0), ("endorsement", 0)]
