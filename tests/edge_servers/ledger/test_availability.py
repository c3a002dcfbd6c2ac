"""Payloads that somebody does not hand out (B3, B4): who is out, who waits how long, and that nobody honest pays."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bfl.auditing.evidence import evidence_against
from bfl.auditing.findings import Audit, audit_rounds
from bfl.simulation.grid import SimulatedClock
from chain.audit.archive import FileArchive
from chain.errors import WaitingBlockError
from chain.node.following import Listener
from chain.node.node import Node
from chain.protocol.posts import SignedCall, read_signed_call
from chain.protocol.slots import Slot
from chain.store.payloads import EVIDENCE
from chain.wire.codec import decode_iterate
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import decode_transaction
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.replay.record import GradientReader
from tests.edge_servers.chain_network import ChainNetwork, chain_network, metrics_line, recovered

PLAN_S = 10
"""What nobody has to wait for while no attempt fails"""
Chosen = Callable[[SignedCall], bool]


def withhold(network: ChainNetwork, server: int, chosen: Chosen, *others: int) -> None:
    """From now on a server's node hands `others` these posts without their payloads, and serves them nothing."""
    node, nodes = network.hosted.nodes[server], network.hosted.nodes

    def without(tell: Listener) -> Listener:
        def tell_less(kind: str, raw: bytes, sidecars: Sequence[Sidecar]) -> None:
            is_chosen = kind == "transaction" and chosen(read_signed_call(decode_transaction(raw), node.genesis))
            tell(kind, raw, () if is_chosen else sidecars)

        return tell_less

    told = [m for m in range(len(nodes)) if m != server]
    node.listeners[:] = [without(tell) if m in others else tell for m, tell in zip(told, node.listeners, strict=True)]
    for m in others:
        nodes[m].sources.remove(node)


def deliver_while_waiting(network: ChainNetwork, source: Node, patch: pytest.MonkeyPatch) -> list[bytes]:
    """Once round 1 is closed and somebody waits, what is missing arrives; returns what has."""
    came: list[bytes] = []

    def sleep(seconds: float) -> None:
        SimulatedClock.sleep(network.clock, seconds)
        for server, node in enumerate(network.hosted.nodes):
            if network.board(server).ledger.posts(1, Slot.CLOSE):
                for wanted in node.wanted():
                    node.deliver(wanted.digest, source.payload(wanted.digest) or b"")
                    came.append(wanted.digest)

    patch.setattr(network.clock, "sleep", sleep)
    return came


def gradient_of(network: ChainNetwork, device: int) -> Chosen:
    """In round 1."""
    address = network.founding.network.devices[device].address
    return lambda post: post.sender == address and post.call is not None and post.call["round"] == 1


def iterates_of(network: ChainNetwork, server: int) -> Chosen:
    return lambda post: post.sender == network.key(server) and post.call is not None and post.call.name == "iterate"


def audits(folder: Path) -> list[Audit]:
    """What every node's own file gives, by server."""
    found = []
    for name in ("chain.db", "chain-1.db", "chain-2.db"):
        with closing(FileArchive(folder / name)) as archive:
            found.append(audit_rounds(archive))
    return found


def why(name: str, audit: Audit) -> str:
    """What `bfl audit why` prints."""
    told, tables = evidence_against(name, audit)
    console = Console(file=StringIO(), width=200)
    console.print(*tables, told)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def heads(network: ChainNetwork) -> set[bytes]:
    return {node.head.hash for node in network.hosted.nodes}


def posted(network: ChainNetwork, round_: int, name: str) -> list[SignedCall]:
    return [post for post in network.posts(round_) if post.call is not None and post.call.name == name]


def kept(node: Node, round_: int) -> dict[bytes, str]:
    """What a node keeps of a round's block: kinds by digest."""
    block = node.block(round_ + 1)
    assert block is not None
    return {each.digest: each.kind for each in node._store.kept_by(block.header.hash)}


# --- gradients --------------------------------------------------------------------------------------------------------


def test_a_gradient_whose_payload_its_home_keeps_to_itself_is_closed_as_unavailable_and_nobody_is_accused(
    tmp_path: Path,
) -> None:
    with chain_network(nodes=3, phi="1", planner="fixed:none", folder=tmp_path) as network:
        leader, home, third = network.ranked
        device = home  # device n is at home at server n
        withhold(network, home, gradient_of(network, device), leader, third)
        (report,) = network.run()
        assert [(refusal.node, refusal.reason) for refusal in report.refused] == [(f"device {device}", "unavailable")]
        assert (report.leader, report.training_nodes) == (leader, 5)
        assert (report.offences, report.failed_leaders, report.excluded) == ((), (), ())
        assert network.waited_s(1) < PLAN_S  # nobody waits for what is unavailable
        assert network.record(1).flags == ()
        post = network.record(1).gradient_posts()[network.founding.network.devices[device].address]
        assert network.record(1).closed_list.unavailable == (post.transaction_hash,)
        assert len(heads(network)) == 1
        for node in network.hosted.nodes:  # not even where it was
            assert post.digest not in kept(node, 1)
            assert not node.has_payload(post.digest)
        assert recovered(network, 1) == metrics_line(report)
        (after,) = network.run()
        assert (after.training_nodes, after.refused, after.offences) == (6, (), ())
        assert len(heads(network)) == 1
    for audit in audits(tmp_path):
        assert [each.round for each in audit.rounds] == [1, 2]
        assert audit.findings == []
        assert audit.rounds[0].refused == ((f"device {device}", "unavailable"),)
        assert "its gradient did not count in round 1\n" in why(f"device {device}", audit)


def test_a_list_with_a_gradient_that_only_its_leader_holds_is_the_leaders_absence_and_nobody_honest_pays(
    tmp_path: Path,
) -> None:
    with chain_network(nodes=3, phi="1", planner="fixed:none", folder=tmp_path) as network:
        leader, following, third = network.ranked
        withhold(network, leader, gradient_of(network, leader), following, third)
        (report,) = network.run()
        assert (report.failed_leaders, report.leader) == ((leader,), following)
        assert [(o.name, o.kind, o.slot) for o in report.offences] == [(f"server {leader}", "absent", Slot.CLOSE)]
        assert report.offences[0].detail == f"server {leader} posted no close in its time"
        assert network.waited_s(1) >= 10 + 30 + 10  # until a close is due, and all at the same time
        assert (network.record(1).flags, report.excluded) == ((), ())
        (close,) = posted(network, 1, "close")
        assert close.sender == network.key(following)
        assert [(refusal.node, refusal.reason) for refusal in report.refused] == [(f"device {leader}", "unavailable")]
        assert len(heads(network)) == 1
        told, again = metrics_line(report), recovered(network, 1)
        assert (again["offences"], again["failed-leaders"]) == ([], [leader])
        assert again | {"offences": told["offences"]} == told
        (after,) = network.run()
        assert (after.training_nodes, after.refused, after.offences) == (6, (), ())
        assert len(heads(network)) == 1
    for audit in audits(tmp_path):
        assert audit.findings == [], "nobody has lied"
        assert "nobody has accused" in why(f"server {following}", audit)


def test_a_payload_that_comes_before_the_deadline_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with chain_network(nodes=3, phi="1", planner="fixed:none") as network:
        leader, *others = network.ranked
        withhold(network, leader, gradient_of(network, leader), *others)
        came = deliver_while_waiting(network, network.hosted.nodes[leader], monkeypatch)
        (report,) = network.run()
        assert (len(came), len(set(came))) == (2, 1)
        assert (report.leader, report.failed_leaders, report.offences) == (leader, (), ())
        assert (report.training_nodes, report.refused) == (6, ())
        assert network.waited_s(1) < 10 + 30 + 10
        assert len(heads(network)) == 1


def test_so_is_one_that_the_filter_has_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Krum without it would take out another: the leader's list would look like a lie."""
    with chain_network(nodes=3, phi="1", planner="fixed:none", filter="krum") as calm:
        (honest,) = calm.run()
        ((outlier, reason),) = [(refusal.node, refusal.reason) for refusal in honest.refused]
        expected = calm.header(1).hash
    assert reason == "krum"
    with chain_network(nodes=3, phi="1", planner="fixed:none", filter="krum") as network:
        leader, *others = network.ranked
        device = int(outlier.removeprefix("device "))
        for server in {leader, device % 3}:
            withhold(network, server, gradient_of(network, device), *(m for m in others if m != server))
        came = deliver_while_waiting(network, network.hosted.nodes[leader], monkeypatch)
        (report,) = network.run()
        assert came
        assert (report.leader, report.failed_leaders, report.offences) == (leader, (), ())
        assert report.refused == honest.refused
        assert network.header(1).hash == expected


def test_a_gradient_that_its_home_hands_to_the_leader_alone_comes_from_the_leader() -> None:
    with chain_network(nodes=3, phi="1", planner="fixed:none") as network:
        leader, home, third = network.ranked
        withhold(network, home, gradient_of(network, home), third)
        (report,) = network.run()
        assert (report.leader, report.failed_leaders, report.offences) == (leader, (), ())
        assert (report.training_nodes, report.refused) == (6, ())
        assert network.waited_s(1) < 10 + 30 + 10
        assert len(heads(network)) == 1


# --- nodes that were away ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three() -> Iterator[ChainNetwork]:
    """Two honest rounds of three servers with a node each."""
    with chain_network(nodes=3, phi="1") as network:
        network.run(2)
        yield network


def newcomer(network: ChainNetwork) -> Node:
    """A node that knows nothing but the rules."""
    checker = RoundChecker(GradientReader(network.founding))
    return Node.in_memory(network.node.genesis, now=network.clock.now, check_round=checker)


def test_a_node_that_was_away_fetches_the_payloads_from_its_sources_and_has_the_same_head(three: ChainNetwork) -> None:
    with closing(newcomer(three)) as node:
        node.sources += three.hosted.nodes[1:]
        for number in range(1, 4):
            node.import_block(three.node.raw_block(number) or b"")
        assert node.head.hash == three.node.head.hash
        for round_ in range(3):
            assert kept(node, round_) == kept(three.node, round_)
            assert all(node.payload(digest) == three.node.payload(digest) for digest in kept(node, round_))


def test_a_node_that_nobody_serves_waits_and_goes_on_when_the_payloads_come(three: ChainNetwork) -> None:
    with closing(newcomer(three)) as node:
        for number in range(1, 4):
            with pytest.raises(WaitingBlockError, match=f"block {number}"):
                node.import_block(three.node.raw_block(number) or b"")
            assert node.head.block_number == number - 1
            delivered = set()
            while wanted := node.wanted():  # with the closed list comes which rolls it cites
                delivered |= {each.digest for each in wanted}
                for each in wanted:
                    node.deliver(each.digest, three.node.payload(each.digest) or b"")
            assert delivered == set(kept(three.node, number - 1))
        assert node.head.hash == three.node.head.hash


# --- iterates ---------------------------------------------------------------------------------------------------------


def test_iterates_of_honest_servers_are_nowhere_once_the_round_is_sealed(three: ChainNetwork) -> None:
    for round_ in (1, 2):
        iterates = posted(three, round_, "iterate")
        assert len(iterates) == 6
        for node in three.hosted.nodes:
            assert set(kept(node, round_).values()) == {"plan", "gradient", "roll", "close", "model"}
            assert not any(node.has_payload(each.digest) for post in iterates for each in post.commitments)


LIE = "iterate-noise@1:server=2,step=1,strength=0.5"


def test_the_payload_of_a_wrong_iterate_is_kept_as_evidence_and_tells_how_far_off_it_was(tmp_path: Path) -> None:
    with chain_network(nodes=3, attack=LIE, folder=tmp_path) as network:
        (report,) = network.run()
        liar = network.key(2)
        assert [(o.name, o.step) for o in report.offences] == [("server 2", 1), ("server 2", 2)]
        wrong = {step: network.record(1).iterate(liar, step) for step in (1, 2)}
        digests = {post.digest for post in wrong.values() if post is not None}
        assert len(digests) == 2
        for node in network.hosted.nodes:
            assert {digest for digest, kind in kept(node, 1).items() if kind == EVIDENCE} == digests
            iterates = {each.digest for post in posted(network, 1, "iterate") for each in post.commitments}
            assert {digest for digest in iterates if node.has_payload(digest)} == digests
        assert wrong[1] is not None
        x = decode_iterate(wrong[1].payload or b"", network.founding.sizes)
        difference = (x.astype(np.float64) - network.replayed(1).iterates.values(1)[2]) / 2**24
        assert len(heads(network)) == 1
    for audit in audits(tmp_path):
        first = audit.findings[0]
        assert first.step == 1
        assert first.off_by == pytest.approx((np.abs(difference).max(), np.linalg.norm(difference)))
        told = why("server 2", audit)
        assert f"largest |difference| {np.abs(difference).max():.6g}, norm {np.linalg.norm(difference):.6g}" in told
        assert "distance unknown" not in told


def test_where_nobody_kept_a_wrong_iterate_the_flag_stands_and_its_distance_is_unknown(tmp_path: Path) -> None:
    with chain_network(nodes=3, attack=LIE, folder=tmp_path) as network:
        withhold(network, 2, iterates_of(network, 2), 0, 1)
        (report,) = network.run()
        assert [(o.name, o.kind, o.step) for o in report.offences] == [
            ("server 2", "iterate", 1),
            ("server 2", "iterate", 2),
        ]
        assert report.excluded == (2,)
        for node in network.hosted.nodes[:2]:
            assert EVIDENCE not in kept(node, 1).values()
        assert len(heads(network)) == 1
    *others, _ = audits(tmp_path)
    for audit in others:
        assert [(finding.step, finding.off_by) for finding in audit.findings] == [(1, None), (2, None)]
        assert audit.findings[0].excluded_through is not None
        assert "distance unknown: nobody kept the iterate" in why("server 2", audit)
