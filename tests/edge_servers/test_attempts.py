"""Attempts at a round (D3): what a failed one costs, what is kept of it, and that nobody is punished for silence."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from bfl.attacks.conduct import WITHHELD, Conduct, honest
from chain.errors import ChainError
from chain.node.following import Listener
from chain.node.node import Node
from chain.wire.address import Address
from chain.wire.sidecar import Sidecar
from clients.device import Device
from clients.orders import Order
from clients.replies import SignedReply, read_reply
from clients.training import TrainingNode
from edge_servers import round as algorithm_1
from edge_servers.errors import BoardError
from edge_servers.learning.gradients import Close
from edge_servers.ledger.attempts import OneAttempt
from edge_servers.ledger.chain_attempts import ChainAttempts
from edge_servers.ledger.referee import Referee
from tests.edge_servers.chain_network import ChainNetwork, chain_network, metrics_line, misbehave, only, recovered

COSTS_S = {"plan": 10, "close": 10 + 30 + 10, "model": 50 + 3 * 3 + 5 + 5, "seal": 69 + 30}
"""When what is due in an attempt of `chain_network`: 30 s for devices, two consensus steps"""


def silent_in(*kinds: str) -> Conduct:
    return lambda slot, body: WITHHELD if slot.kind in kinds else body


def heads(network: ChainNetwork) -> set[bytes]:
    return {node.head.hash for node in network.hosted.nodes}


@contextmanager
def unplugged(network: ChainNetwork, deaf: Sequence[int], *kinds: str) -> Iterator[None]:
    """Some servers' nodes do not hear these kinds of things (all if none is named) from the others."""
    nodes = network.hosted.nodes
    plugged = [list(node.listeners) for node in nodes]
    sources = [list(node.sources) for node in nodes]

    def filtered(listener: Listener, other: Node) -> Listener:
        def tell(kind: str, raw: bytes, sidecars: Sequence[Sidecar]) -> None:
            if nodes.index(other) not in deaf or (kinds and kind not in kinds):
                listener(kind, raw, sidecars)

        return tell

    for node in nodes:
        others = [other for other in nodes if other is not node]
        node.listeners[:] = [filtered(each, other) for each, other in zip(node.listeners, others, strict=True)]
        if nodes.index(node) in deaf:
            node.sources.clear()
    try:
        yield
    finally:
        for node, listeners, asked in zip(nodes, plugged, sources, strict=True):
            node.listeners[:], node.sources[:] = listeners, asked


def catch_up(network: ChainNetwork, round_: int) -> None:
    """Everybody tells everybody what it has, as nodes do when they meet again."""
    nodes = network.hosted.nodes
    for teller in nodes:
        for hearer in nodes:
            for number in range(1, teller.head.block_number + 1):
                with suppress(ChainError):
                    hearer.import_block(teller.raw_block(number) or b"")
            endorsements, passes = teller.votes(round_)
            with suppress(ChainError):
                for endorsement in endorsements:
                    hearer.take_endorsement(endorsement)
                for given in passes:
                    hearer.take_pass(given)


# --- silence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "nodes"), [("plan", 1), ("close", 1), ("model", 1), ("seal", 1), ("close", 3), ("seal", 3)]
)
def test_a_silent_leader_costs_its_phases_deadline_and_nobody_is_flagged_or_excluded(what: str, nodes: int) -> None:
    with chain_network(attack=f"silent-leader@1:phase={what}", nodes=nodes) as network:
        leader, following = network.ranked[:2]
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.excluded) == ((leader,), following, ())
        (offence,) = report.offences
        assert (offence.name, offence.kind) == (f"server {leader}", "absent")
        assert offence.detail == f"server {leader} posted no {what} in its time"
        assert offence.is_absence
        assert network.record(1).flags == ()
        assert network.waited_s(1) == COSTS_S[what]
        assert network.senders(1) == {0, 1, 2}, "whoever failed as a leader takes part in the next attempt"
        assert network.node.attempt_of(network.header(1).hash) == 1
        assert len(heads(network)) == 1
        (after,) = network.run()
        assert (after.failed_leaders, after.refused, after.offences) == ((), (), ())


@pytest.mark.parametrize(
    "attack", ["", "silent-leader@1:phase=close", "slow-leader@2", "wrong-model@2", "double-signing@1"]
)
def test_the_same_seed_gives_the_same_head_with_one_node_and_with_a_node_for_each_server(attack: str) -> None:
    found = []
    for nodes in (1, 3):
        with chain_network(attack=attack, nodes=nodes, phi="1") as network:
            reports = network.run(2)
            assert len(heads(network)) == 1
            told = [(report.leader, report.failed_leaders, report.excluded) for report in reports]
            found.append((network.node.head.hash, network.clock.now(), told))
    assert found[0] == found[1]


def test_two_silent_leaders_of_five_give_attempt_two() -> None:
    with chain_network(edges=5, graph="ring") as network:
        first, second, third = network.ranked[:3]
        for leader in (first, second):
            misbehave(network.servers[leader], silent_in("plan"))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.excluded) == ((first, second), third, ())
        assert network.node.attempt_of(network.header(1).hash) == 2
        assert network.waited_s(1) == 2 * COSTS_S["plan"]
        assert network.calls(1)[0] == "begin_attempt", "the block carries the certificate of its attempt"
        assert network.calls(1).count("begin_attempt") == 1
        assert network.record(1).plan.start_ms == 1000 * (network.header(0).timestamp + 2 * COSTS_S["plan"])
        assert [(o.name, o.kind) for o in report.offences] == [
            (f"server {first}", "absent"), (f"server {second}", "absent"),
        ]  # fmt: skip


def test_a_silent_majority_pauses_the_network_which_says_so_and_does_not_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time alone starts no attempt: one pass of three is no certificate."""
    with chain_network(nodes=3) as network:
        leader = network.leader
        misbehave(network.servers[leader], silent_in("plan"))
        signs = ChainAttempts.pass_on

        def alone(self: ChainAttempts, server: Address, round_: int, attempt: int) -> None:
            if server == network.key(leader):
                signs(self, server, round_, attempt)

        monkeypatch.setattr(ChainAttempts, "pass_on", alone)
        with pytest.raises(BoardError, match="round 1: no majority of the servers has come to another attempt"):
            network.run()
        assert heads(network) == {network.header(0).hash}
        monkeypatch.undo()
        misbehave(network.servers[leader], honest)
        (report,) = network.run()
        assert (report.round, report.excluded) == (1, ()), "a majority is back"


# --- blocks of attempts that failed -----------------------------------------------------------------------------------


def test_a_slow_leaders_block_that_comes_after_the_pass_is_never_final() -> None:
    blocks: list[bytes] = []
    with chain_network(attack="slow-leader@1", nodes=3) as network:
        leader, following = network.ranked[:2]
        late = network.hosted.nodes[leader]
        late.listeners.append(lambda kind, raw, _: blocks.append(raw) if kind == "block" else None)
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.excluded) == ((leader,), following, ())
        assert len(blocks) >= 1, "it was sealed, and handed out"
        (winner,) = heads(network)
        for node in network.hosted.nodes:
            assert node.final.hash == winner
            for raw in blocks:
                with suppress(ChainError):
                    node.import_block(raw)
            assert node.final.hash == node.head.hash == winner
        signed, _ = network.node.votes(1)
        assert {each.block_hash for each in signed} == {winner}
        assert network.run()[0].failed_leaders == ()


def test_a_block_that_too_few_signed_is_adopted_with_fresh_signatures_and_its_model_is_kept() -> None:
    """The leader's block reaches nobody before the deadline; its pass names it, and the next leader takes it up."""
    with chain_network(nodes=3) as network, chain_network(nodes=3) as calm:
        calm.run()
        leader, following, third = network.ranked
        algorithm_1.begin(network.servers)
        for phase in algorithm_1.ALGORITHM_1[:-1]:
            phase(network.servers)
        with unplugged(network, [following, third], "block", "endorsement"):
            algorithm_1.seal(network.servers)
            assert [server.is_at_work for server in network.servers].count(True) == 1
            assert not algorithm_1.settle(network.servers)
        catch_up(network, 1)
        block = network.hosted.nodes[leader].head.hash
        network.servers[leader].pass_on()  # a majority of passes is enough: without this one nobody would know
        algorithm_1.pass_on(network.servers)
        assert [server.attempt for server in network.servers] == [1, 1, 1]
        assert network.servers[0].leader == network.key(following)
        named = {each.signer: each.named for each in network.node.votes(1)[1]}
        assert named[network.key(leader)] == (0, block)
        algorithm_1.plan(algorithm_1.at_work(network.servers))
        assert algorithm_1.at_work(network.servers) == [], "nobody works: the block is there"
        assert algorithm_1.settle(network.servers)
        algorithm_1.finish(network.servers)
        signed, _ = network.node.votes(1)
        fresh = {each.signer for each in signed if (each.attempt, each.block_hash) == (1, block)}
        assert fresh == set(network.founding.network.servers)
        assert network.node.final.hash == block == calm.header(1).hash
        assert network.leader_of(1) == leader
        assert all(server.standing.model.tobytes() == calm.model(1).tobytes() for server in network.servers)
        (report,) = network.run()
        assert (report.round, report.failed_leaders, report.offences) == (2, (), ())
        assert len(heads(network)) == 1


def test_nobody_waits_in_a_later_attempt_for_a_server_that_has_not_come_to_it() -> None:
    """Two of three pass on: in attempt 1 the third is waited for once its own pass is here."""
    with chain_network(nodes=1) as network:
        leader, following, third = network.ranked
        algorithm_1.begin(network.servers)
        for each in (following, third):
            network.servers[each].pass_on()
        for each in (following, third):
            network.servers[each].join_next()
        oversight = network.servers[following].oversight
        assert set(oversight.expected()) == {network.key(following), network.key(third)}
        began = network.clock.now()
        present = [network.servers[each] for each in (following, third)]
        for phase in (algorithm_1.plan, algorithm_1.train, algorithm_1.close):
            phase(algorithm_1.at_work(present))
        assert network.clock.now() == began, "no deadline was waited for"
        network.servers[leader].join_next()
        assert set(oversight.expected()) == set(network.founding.network.servers), "it joins, and says so"


def test_a_server_whose_attempt_has_gone_from_the_pool_gives_it_up_and_goes_on() -> None:
    """Between its plan and its orders the others begin another attempt: no plan is there any more."""
    with chain_network(nodes=1) as network:
        leader, following, third = (network.servers[each] for each in network.ranked)
        network.walk("plan", "plan")
        for each in (following, third):
            each.pass_on()
        assert following.attempts.begin(following.address, 1, 1)
        algorithm_1.train([leader])
        assert not leader.is_at_work


def test_a_final_block_is_signed_late_by_who_may_and_never_by_who_had_passed_on() -> None:
    """A signature below its own pass would convict an honest server (D3.2)."""
    with chain_network(nodes=1) as network:
        leader, following, third = (network.servers[each] for each in network.ranked)
        network.walk("plan", "model")
        third.pass_on()
        algorithm_1.seal([leader, following])
        assert algorithm_1.settle(network.servers)
        algorithm_1.finish(network.servers)
        algorithm_1.begin(network.servers)
        assert {each.signer for each in network.node.votes(1)[0]} == {leader.address, following.address}
        assert network.node.contradictions(0) == []


def test_whoever_has_passed_on_signs_nothing_of_the_attempts_below_it() -> None:
    """Without exception (D3.2): neither the leader's choice nor a block of its own, nor what has become final."""
    with chain_network(nodes=1) as network:
        leader, following = network.ranked[:2]
        network.walk("plan", "model")
        for each in (leader, following):
            network.servers[each].attempts.pass_on(network.key(each), 1, 1)
        gone = network.servers[following]
        algorithm_1.seal(network.servers)
        signed, _ = network.node.votes(1)
        assert not {each.signer for each in signed} & {network.key(leader), gone.address}
        assert not gone.attempts.endorse(gone.address, 1, 0)


def test_a_server_that_gave_the_attempt_up_goes_on_with_the_final_blocks_model() -> None:
    """Its own model was another; what a majority signed is the authority (D3.5)."""
    with chain_network(nodes=3) as network, chain_network(nodes=3) as calm:
        calm.run(2)
        stray = network.servers[network.ranked[2]]
        network.walk("plan", "model")
        stray.current.model = stray.current.model + np.float32(1)
        stray.give_up(BoardError("it thinks otherwise"))
        algorithm_1.seal(algorithm_1.at_work(network.servers))
        assert algorithm_1.settle(network.servers)
        algorithm_1.finish(network.servers)
        assert not stray.is_at_work
        assert stray.standing.model.tobytes() == calm.model(1).tobytes()
        assert {server.standing.block_hash for server in network.servers} == {calm.header(1).hash}
        network.run()
        assert network.model(2).tobytes() == calm.model(2).tobytes()


# --- signatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize(
    ("attack", "kind"), [("double-signing@1", "double_endorsement"), ("broken-pass@1:server=2", "broken_pass")]
)
def test_who_signs_what_no_honest_server_does_is_convicted_with_both_signatures(
    attack: str, kind: str, nodes: int
) -> None:
    with chain_network(attack=attack, nodes=nodes) as network:
        liar = 2 if "server" in attack else network.leader
        first, second = network.run(2)
        assert (first.failed_leaders, first.offences) == ((), ())
        assert [(o.name, o.kind) for o in second.offences] == [(f"server {liar}", kind)]
        assert second.excluded == (liar,)
        shown = [post.call for post in network.posts(2) if post.call and post.call.name == "flag_signatures"]
        assert len(shown) == 2, "each of the others shows both"
        for call in shown:
            assert Address(str(call["offender"])) == network.key(liar)
            assert call["first"] != call["second"]
            assert len(call["first_signature"]) == len(call["second_signature"]) == 65
        assert len(heads(network)) == 1


# --- rolls ------------------------------------------------------------------------------------------------------------


def test_a_gradient_that_comes_after_the_rolls_is_late_and_nobodys_fault() -> None:
    """Its device posts it by itself when its server has sent its roll, and it does not reach the leader in time."""
    kept: list[SignedReply] = []

    def lost(reply: Message) -> Message | None:
        if reply.metadata.message_type != "train":
            return reply
        signed = read_reply(reply)
        assert isinstance(signed, SignedReply)
        kept.append(signed)
        return None

    with chain_network(planner="fixed:none", faults={3: lost}, nodes=3) as network:
        leader, following = network.ranked[:2]
        late = network.founding.network.devices[3].address
        network.walk("plan", "train")
        (signed,) = kept
        with unplugged(network, [leader], "transaction"):
            network.hosted.nodes[following].submit(signed.transaction, [Sidecar(signed.payload)])
        assert late in network.board(following).record(1).gradient_posts()
        assert late not in network.board(leader).record(1).gradient_posts()
        network.walk("close", "seal")
        assert [server.oversight.offences for server in network.servers] == [[], [], []]
        assert network.leader_of(1) == leader
        assert len(heads(network)) == 1
        replayed = network.replayed(1)
        assert (len(replayed.counted), replayed.offences) == (5, ())
        assert network.record(1).flags == ()


def test_a_gradient_in_a_roll_that_the_close_cites_cannot_be_left_out() -> None:
    with chain_network() as network:
        leader = network.leader
        misbehave(network.servers[leader], only("close", lambda close: replace(close, accepted=close.accepted[1:])))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "close")]
        assert (report.excluded, report.training_nodes) == ((leader,), 6), "the next attempt counts it"


def test_a_leader_that_cites_no_roll_closes_an_empty_list_and_a_roll_that_is_not_there_fails_it() -> None:
    """Whoever hears of no roll answers for nobody: what it leaves out was late."""
    with chain_network() as network:
        misbehave(network.servers[network.leader], only("close", lambda close: Close((), (), ())))
        (report,) = network.run()
        assert (report.offences, report.training_nodes, report.failed_leaders) == ((), 0, ())


# --- flags ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("plan", lambda plan: replace(plan, divergence=3.0)),
        ("close", lambda close: replace(close, accepted=close.accepted[::-1])),
        ("model", lambda model: model + np.float32(1)),
    ],
)
def test_a_refused_leaders_post_is_flagged_in_the_next_attempt_by_its_transaction(
    kind: str, change: Callable[[Any], Any], nodes: int
) -> None:
    sent: dict[bytes, bytes] = {}
    with chain_network(nodes=nodes, phi="1") as network:
        leader, following = network.ranked[:2]
        network.node.listeners.append(lambda what, raw, _: sent.update({raw: b""}) if what == "transaction" else None)
        misbehave(network.servers[leader], only(kind, change, 1))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", kind)]
        assert (report.failed_leaders, report.leader, report.excluded) == ((leader,), following, (leader,))
        flags = network.record(1).flags
        assert {each.server for each in flags} == {network.key(m) for m in range(3) if m != leader}
        posted = {post.transaction_hash for by in network.record(1).posts.values() for post in by.values()}
        assert not posted & {each.transaction_hash for each in flags}, "what they are about is not in the block"
        assert len({each.transaction_hash for each in flags}) == 1
        assert all(any(each.transaction_hash) for each in flags)


# --- dormant servers --------------------------------------------------------------------------------------------------


def test_a_dormant_server_ranks_last_is_not_waited_for_and_comes_back() -> None:
    everything = ("plan", "gradient", "roll", "close", "iterate", "model", "seal")
    with chain_network(devices=3, phi="1", planner="fixed:none", term_cap=2) as network:
        misbehave(network.servers[2], silent_in(*everything))
        slow = network.run(5)
        assert all(report.excluded == () for report in slow)
        assert all(network.waited_s(round_) > 2 for round_ in range(1, 6)), "everybody waits for its posts"
        assert network.node.ask("is_dormant", network.key(2))
        for _ in range(3):
            assert network.ranked[-1] == 2, "even as the winner's home"
            (report,) = network.run()
            assert (report.failed_leaders, report.excluded) == ((), ())
            assert network.waited_s(report.round) <= 2, "nobody waits for it"
            assert {o.kind for o in report.offences} == {"absent"}
            assert report.training_nodes == 3, "its devices' gradients count: it sends them on"
        misbehave(network.servers[2], honest)
        back, after = network.run(2)
        assert back.leader != 2
        assert not network.node.ask("is_dormant", network.key(2))
        assert after.offences == ()
        assert network.senders(after.round) == {0, 1, 2}


def sleeps(network: ChainNetwork, server: int) -> bool:
    return bool(network.node.ask("is_dormant", network.key(server)))


def test_a_relapsed_server_takes_part_and_is_waited_for_after_two_rounds() -> None:
    everything = ("plan", "gradient", "roll", "close", "iterate", "model", "seal")
    with chain_network(devices=3, phi="1", planner="fixed:none", term_cap=2) as network:
        for owed in (1, 2):
            misbehave(network.servers[2], silent_in(*everything))
            assert all(network.waited_s(report.round) > 2 for report in network.run(5)), "everybody waits for its posts"
            misbehave(network.servers[2], honest)
            for _ in range(owed):
                assert sleeps(network, 2)
                assert network.ranked[-1] == 2
                started = Referee(network.board(0))
                started.begin(network.servers[0].standing, 0)
                assert started.expected() == {network.key(0), network.key(1)}, "who has just started knows it too"
                (report,) = network.run()
                assert (report.failed_leaders, report.offences) == ((), ())
                assert network.senders(report.round) == {0, 1, 2}, "what it posts counts"
            assert not sleeps(network, 2)


# --- devices ----------------------------------------------------------------------------------------------------------


def test_devices_answer_the_second_attempt_with_the_same_update_and_do_not_train_again() -> None:
    replies: list[SignedReply] = []
    trained: list[int] = []

    class Counting(Device):
        def training_node(self, order: Order) -> TrainingNode:
            trained.append(self.index)
            return super().training_node(order)

    def seen(reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            signed = read_reply(reply)
            assert isinstance(signed, SignedReply)
            replies.append(signed)
        return reply

    with chain_network(
        attack="silent-leader@1:phase=close",
        planner="fixed:none",
        faults=dict.fromkeys(range(6), seen),
        kinds=dict.fromkeys(range(6), Counting),
    ) as network:
        (report,) = network.run()
        assert (report.training_nodes, report.refused) == (6, ())
    assert sorted(trained) == list(range(6)), "once each"
    assert len(replies) == 12
    payloads = Counter(reply.payload for reply in replies)
    assert set(payloads.values()) == {2}, "the same update twice, under two signatures"
    assert len({reply.transaction for reply in replies}) == 12


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["plan", "close", "model", "seal"])
def test_a_recovered_report_tells_the_attempts_as_the_live_one_did_but_not_what_was_missing(what: str) -> None:
    with chain_network(attack=f"silent-leader@1:phase={what}") as network:
        for report in network.run(2):
            told, again = metrics_line(report), recovered(network, report.round)
            kinds = [[(o["offender"], o["kind"]) for o in each.pop("offences")] for each in (told, again)]
            assert kinds[0] == kinds[1]
            assert told == again


def test_without_a_ledger_there_is_one_attempt() -> None:
    with chain_network() as network:
        attempts = OneAttempt(network.founding.network, 3)
        server = network.key(0)
        assert attempts.begin(server, 1, 0)
        assert not attempts.is_final(1)
        assert (attempts.find_later(1, 0), attempts.is_over(1, 0), attempts.choice(1, 0)) == (None, False, None)
        assert attempts.endorse(server, 1, 0)
        assert attempts.is_final(1)
        assert not attempts.is_final(2)
        assert not attempts.has_signed(server, 1, 0)
