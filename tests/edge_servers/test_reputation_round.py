"""Reputation in whole rounds on the chain (R1-R8): who is set aside, who decides it, and what one liar cannot do."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bfl.attacks.conduct import Conduct
from chain.protocol.slots import Slot
from edge_servers.errors import GradientRefusedError, PlanError
from edge_servers.learning.gradients import Close, Refusal
from edge_servers.learning.reputation import Absence, check_reputation
from edge_servers.replay.plan_check import check_plan
from edge_servers.replay.record import GradientReader
from tests.edge_servers.chain_network import (
    ChainNetwork,
    chain_network,
    metrics_line,
    misbehave,
    only,
    recovered,
    with_fields,
)

ATTACK = "sign-flip@all:device=3,strength=20"
KEPT: dict[str, Any] = {
    "devices": 5, "filter": "krum", "reputation": 2, "reputation_window": 6, "reputation_rounds": 2, "term_cap": 1,
}  # fmt: skip
"""Each server leads one round at a time: two rounds in a row have two leaders. Krum takes one of five gradients out,
and of four none."""


@pytest.fixture(scope="module")
def sealed() -> Iterator[ChainNetwork]:
    """Nine rounds in which device 3 attacks."""
    with chain_network(attack=ATTACK, **KEPT) as network:
        network.run(9)
        yield network


def rows(network: ChainNetwork, round_: int) -> tuple[tuple[int, ...], ...]:
    """What the plan of a round holds against devices."""
    return network.record(round_).plan.reputation


def senders(network: ChainNetwork, round_: int) -> set[str]:
    """Who posted a gradient in a round."""
    name = network.founding.network.name
    return {name(sender) for sender in network.record(round_).gradient_posts()}


# --- what happens


def test_a_device_that_is_filtered_twice_is_set_aside_comes_back_and_is_set_aside_for_twice_as_long(
    sealed: ChainNetwork,
) -> None:
    away = [k for k in range(1, 10) if "device 3" not in senders(sealed, k)]
    assert away == [3, 4, 7, 8, 9]
    assert [sealed.replayed(k).filtered for k in range(1, 10)] == [(3,), (3,), (), (), (3,), (3,), (), (), ()]
    assert rows(sealed, 3) == ((3, 1, 4),)
    assert rows(sealed, 7) == ((3, 2, 10),)
    assert sealed.servers[0].standing.reputation.rows == ((3, 2, 10),)


def test_a_plan_gives_no_data_to_who_is_set_aside_and_the_others_go_on(sealed: ChainNetwork) -> None:
    plan = sealed.record(3).plan
    assert (plan.samples[3], plan.assignment[3]) == (0, -1)
    assert senders(sealed, 3) == {"device 1", "device 2", "device 4", "server 0"}


def test_nobody_is_accused_or_excluded_for_it(sealed: ChainNetwork) -> None:
    for k in range(1, 10):
        assert sealed.record(k).flags == ()
        assert sealed.replayed(k).offences == ()


def test_a_round_tells_whom_the_filter_took_out_and_who_was_set_aside_and_its_block_tells_the_same() -> None:
    with chain_network(attack=ATTACK, **KEPT) as network:
        reports = network.run(4)
        assert [report.standing and report.standing.filtered for report in reports] == [(3,), (3,), (), ()]
        assert reports[2].standing is not None
        assert reports[2].standing.aside == (Absence(3, times=1, first=3, through=4),)
        assert [recovered(network, k) for k in range(1, 5)] == [metrics_line(report) for report in reports]


def test_every_server_by_itself_comes_to_the_same_end(sealed: ChainNetwork) -> None:
    with chain_network(attack=ATTACK, nodes=3, **KEPT) as network:
        network.run(9)
        assert len({node.head.hash for node in network.hosted.nodes}) == 1
        assert [rows(network, k) for k in range(1, 10)] == [rows(sealed, k) for k in range(1, 10)]
        assert len({server.standing.reputation for server in network.servers}) == 1


def test_a_network_that_is_stopped_after_any_round_goes_on_with_the_same_head(
    sealed: ChainNetwork, tmp_path: Path
) -> None:
    for _ in range(9):
        with chain_network(attack=ATTACK, folder=tmp_path, **KEPT) as network:
            network.run(1)
            head = network.node.head.hash
    assert head == sealed.node.head.hash


def test_a_network_without_it_has_no_word_for_it() -> None:
    with chain_network(attack=ATTACK, filter="krum") as network:
        (report,) = network.run(1)
        assert report.standing is None
        assert b"reputation" not in network.founding.encode()
        assert b"reputation" not in network.record(1).plan.payload
        assert "set-aside" not in metrics_line(report)


# --- what a liar cannot do


def naming(device: int, reason: str) -> Conduct:
    """A leader that says of a device that the filter took it out."""

    def change(close: Close) -> Close:
        kept = tuple(each for each in close.refused if each.node != f"device {device}")
        return replace(close, refused=(*kept, Refusal(f"device {device}", reason, "")))

    return only("close", change)


def test_a_leader_that_says_that_the_filter_took_an_honest_device_out_is_flagged_and_nothing_is_held() -> None:
    with chain_network(**KEPT) as network:
        leader, name = network.leader, network.founding.network.name

        def frame(close: Close) -> Close:
            framed = Refusal(name(close.accepted[0]), "krum", "")
            return replace(close, accepted=close.accepted[1:], refused=(*close.refused, framed))

        misbehave(network.servers[leader], only("close", frame))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "close")]
        assert {each.slot for each in network.record(1).flags} == {Slot.CLOSE}
        assert [record.strikes[0][0] for record in network.servers[0].standing.reputation.records] == [1]
        assert len(network.replayed(1).filtered) == 1, "of the attempt that ended the round"


def test_a_word_about_a_device_that_posted_nothing_is_held_against_nobody() -> None:
    """Device 0 offloads: the list names it as filtered, there is no gradient, and a replay takes none out."""
    with chain_network(**KEPT) as network:
        for server in network.servers:
            misbehave(server, naming(0, "krum"))
        reports = network.run(4)
        assert all(("device 0", "krum") in network.replayed(k).refused for k in range(1, 5))
        assert all(0 not in report.standing.filtered for report in reports if report.standing)
        assert 0 not in {record.device for record in network.servers[0].standing.reputation.records}


def test_a_plan_that_sets_a_device_aside_on_the_leaders_word_fails_and_its_leader_is_flagged() -> None:
    with chain_network(**KEPT) as network:
        leader = network.leader
        changed = with_fields(reputation=((2, 1, 9),), samples=(40, 40, 0, 40, 40))
        misbehave(network.servers[leader], only("plan", changed))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "plan")]
        assert report.failed_leaders == (leader,)
        assert "which no rounds give" in report.offences[0].detail
        assert report.standing is not None
        assert report.standing.aside == ()


def test_a_plan_that_lets_an_attacker_back_too_early_fails() -> None:
    with chain_network(attack=ATTACK, **KEPT) as network:
        network.run(2)
        leader = network.leader
        misbehave(network.servers[leader], only("plan", with_fields(reputation=())))
        (report,) = network.run()
        assert (report.failed_leaders, report.offences[0].kind) == ((leader,), "plan")
        assert "device 3" not in senders(network, 3)


def test_a_plan_that_gives_data_to_who_is_set_aside_is_refused(sealed: ChainNetwork) -> None:
    plan, others = sealed.record(3).plan, sealed.record(2).plan
    check_plan(plan, sealed.founding, 3)
    with pytest.raises(PlanError, match="found 40 samples of device 3, expected 0"):
        check_plan(replace(plan, samples=others.samples), sealed.founding, 3)
    with pytest.raises(PlanError, match="device 3 may not offload to server 0"):
        check_plan(replace(plan, assignment=(*plan.assignment[:3], 0, *plan.assignment[4:])), sealed.founding, 3)
    with pytest.raises(PlanError, match="the rounds before it give"):
        check_reputation(replace(plan, reputation=()), sealed.replayed(2).reputation)


def test_a_gradient_of_who_is_set_aside_does_not_count(sealed: ChainNetwork) -> None:
    device = sealed.founding.network.devices[3].address
    post = sealed.record(2).gradient_posts()[device]
    with pytest.raises(GradientRefusedError, match="it is set aside") as refused:
        GradientReader(sealed.founding).read(post, sealed.record(3).plan)
    assert refused.value.reason == "set-aside"
