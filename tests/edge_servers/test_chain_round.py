"""A round on the chain: what its block holds, in which order, signed by whom, and that the block is the round."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

from chain.node.access import LocalLedger
from chain.protocol.consensus import check_order
from chain.wire.address import Address
from chain.wire.codec import decode_floats
from clients.errors import ParameterError
from edge_servers.errors import GradientRefusedError
from edge_servers.founding.parameters import read_founding_parameters
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.schemes import SCHEMES, ClosedRound
from edge_servers.replay.iterates import Iterates
from edge_servers.replay.record import RoundRecord, read_gradient
from edge_servers.replay.replay import replayed_aggregates, replayed_model
from tests.edge_servers.chain_network import SHARE, ChainNetwork, chain_network


@pytest.fixture(scope="module")
def calm() -> Iterator[ChainNetwork]:
    """Three honest rounds of three servers and six devices."""
    with chain_network() as network:
        network.run(3)
        yield network


def gradients_in(record: RoundRecord, network: ChainNetwork) -> list[Gradient]:
    """As anybody reads them from the chain."""
    posts = record.gradient_posts().values()
    return [read_gradient(post, post.payload or b"", record.plan, network.founding) for post in posts]


def test_a_block_holds_plan_gradients_rolls_close_iterates_and_model_in_this_order(calm: ChainNetwork) -> None:
    for round_ in (1, 2, 3):
        found = [(name, len(list(same))) for name, same in groupby(calm.calls(round_))]
        endorsed = [("endorse", 1)] if round_ > 1 else []  # of the block before it
        assert found == [
            *endorsed,
            ("plan", 1),
            ("gradient", 6),
            ("roll", 3),
            ("close", 1),
            ("iterate", 3 * 3),
            ("model", 1),
        ]
        check_order(calm.posts(round_))
        assert all(receipt.status == 1 for receipt in calm.block(round_).receipts)


def test_a_round_is_one_block_and_names_it(calm: ChainNetwork) -> None:
    assert calm.node.head.block_number == 4
    for round_ in (1, 2, 3):
        calls = [post.call for post in calm.posts(round_) if post.call is not None]
        assert all(call["round"] == round_ - (call.name == "endorse") for call in calls)
    assert calm.servers[0].standing.block_hash == calm.header(3).hash


def test_every_training_node_signs_its_own_gradient_and_names_model_and_plan(calm: ChainNetwork) -> None:
    """Device 0 hands its data to server 0, which trains in its place."""
    network = calm.founding.network
    expected = {network.servers[0], *(network.devices[n].address for n in range(1, 6))}
    for round_ in (1, 2, 3):
        posts = [post for post in calm.posts(round_) if post.call is not None]
        gradients = [post for post in posts if post.call is not None and post.call.name == "gradient"]
        assert {post.transaction.sender for post in gradients} == expected
        plan = next(post.call for post in posts if post.call is not None and post.call.name == "plan")
        for post in gradients:
            assert post.call is not None
            assert post.call["plan_digest"] == plan["digest"]
            assert (post.call["samples"], post.call["iterations"]) == (SHARE, 2)


def test_plan_close_and_model_are_the_leaders_and_every_server_posts_every_step(calm: ChainNetwork) -> None:
    for round_ in (1, 2, 3):
        leader = calm.header(round_).coinbase
        steps: dict[bytes, list[int]] = {}
        for post in calm.posts(round_):
            assert post.call is not None
            if post.call.name == "iterate":
                steps.setdefault(post.sender, []).append(int(post.call["step"]))
            elif post.call.name not in ("gradient", "roll"):
                assert post.sender == leader
        assert steps == {calm.key(m): [0, 1, 2] for m in range(3)}


def test_the_closed_list_accepts_the_gradients_by_address(calm: ChainNetwork) -> None:
    record = calm.record(2)
    gradients = sorted(record.gradient_posts().values(), key=lambda post: post.sender)
    assert record.closed_list.accepted == tuple(post.transaction_hash for post in gradients)
    assert record.closed_list.refused == ()


def test_the_founding_block_carries_parameters_that_read_back_equal(calm: ChainNetwork) -> None:
    posts = calm.posts(0)
    found = next(post.call for post in posts if post.call is not None and post.call.name == "found")
    parameters = calm.node.payload(bytes(found["parameters"]))
    assert parameters is not None
    assert len(parameters) == found["parameters_size"]
    read = read_founding_parameters(parameters)
    assert read.encode() == calm.founding.encode()
    assert (read.network, read.tensors) == (calm.founding.network, calm.founding.tensors)
    assert LocalLedger(calm.node).parameters() == calm.founding.encode()


def test_the_model_in_the_block_is_the_standings_bit_for_bit(calm: ChainNetwork) -> None:
    for server in calm.servers:
        assert server.standing.model.tobytes() == calm.model(3).tobytes()
    assert calm.model(3).tobytes() != calm.model(2).tobytes()


def test_the_chain_alone_gives_every_model_and_no_offence(calm: ChainNetwork) -> None:
    for round_ in (1, 2, 3):
        replayed = calm.replayed(round_)
        assert replayed.model.tobytes() == calm.model(round_).tobytes()
        assert replayed.offences == ()


def test_the_model_is_that_of_consensus_without_a_chain_from_the_same_decoded_gradients(calm: ChainNetwork) -> None:
    for round_ in (1, 2, 3):
        record, before = calm.record(round_), calm.model(round_ - 1)
        counted = gradients_in(record, calm)
        leader = calm.leader_of(round_)
        x = Iterates(replayed_aggregates(counted, calm.founding), record.plan.phi, calm.founding).last[leader]
        eta = calm.founding.settings.training.learning_rate
        scheme = SCHEMES["consensus-no-chain"]
        weights = [gradient.weight for gradient in counted]
        model = scheme.next_model(ClosedRound(leader, 3, before, weights, x, eta))
        assert model.tobytes() == calm.model(round_).tobytes()
        assert replayed_model(weights, x, leader, before, calm.founding).tobytes() == model.tobytes()


def test_time_on_the_chain_passes_as_the_plan_says(calm: ChainNetwork) -> None:
    for round_ in (1, 2, 3):
        planned_s = calm.record(round_).plan.latency_s["T_wall"]
        assert planned_s <= calm.waited_s(round_) <= planned_s + 2


def test_with_one_node_too_every_server_signs_every_block(calm: ChainNetwork) -> None:
    for round_ in (1, 2, 3):
        signed = calm.node.endorsements(calm.header(round_).hash)
        assert [each.signer for each in signed] == sorted(calm.key(m) for m in range(3))
        assert {each.time_ms for each in signed} == {1000 * calm.header(round_).timestamp}
    assert calm.node.final == calm.header(3)


# --- schemes, codecs, steps, servers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "bfl-no-consensus"},
        {"codec": "int8"},
        {"phi": "0"},
        {"edges": 1},
        {"filter": "norm-clip"},
        {"filter": "krum", "planner": "fixed:none"},
        {"filter": "loss"},
        {"planner": "random:1"},
        {"edges": 2, "phi": "auto:3"},
    ],
    ids=str,
)
def test_rounds_run_and_follow_from_the_chain_under_every_setting(changes: dict[str, Any]) -> None:
    servers = changes.get("edges", 3)
    with chain_network(**changes) as network:
        for report in network.run(2):
            posts = network.calls(report.round)
            assert posts.count("iterate") == (report.phi + 1) * servers
            assert (posts.count("plan"), posts.count("close"), posts.count("model")) == (1, 1, 1)
            assert report.offences == ()
            assert report.block == network.header(report.round).hash.hex()
            replayed = network.replayed(report.round)
            assert len(replayed.counted) == report.training_nodes
            assert replayed.model.tobytes() == network.model(report.round).tobytes()


def test_without_consensus_nobody_mixes_and_the_model_is_the_leaders_clusters() -> None:
    with chain_network(scheme="bfl-no-consensus", phi="2") as network:
        (report,) = network.run()
        assert report.phi == 0
        record, leader = network.record(1), network.leader_of(1)
        cluster = [gradient for gradient in gradients_in(record, network) if gradient.server == leader]
        total = sum(gradient.samples for gradient in cluster)
        mean = sum(each.samples / total * each.values.astype(np.float64) for each in cluster)
        assert np.abs(network.model(1) - (network.model(0) - 0.1 * mean)).max() < 1e-6


def test_phi_auto_follows_the_divergence_of_the_round_before() -> None:
    with chain_network(phi="auto:1", xi=1e-5) as network:
        first, second = network.run(2)
        assert (first.phi, network.record(2).plan.divergence) == (1, first.divergence)
        assert second.phi > 1
        assert network.calls(2).count("iterate") == 3 * (second.phi + 1)


@pytest.mark.parametrize(("codec", "at_most"), [("fp32", 0.0), ("fp16", 1e-3), ("int8", 1e-2)])
def test_a_codec_changes_what_counts_and_by_how_much_it_may(codec: str, at_most: float) -> None:
    """The same training; what differs is what the ledger keeps of it, relative to the largest value."""
    with chain_network(codec=codec, planner="fixed:none") as network:
        network.run()
        trained = {g.sender: g.values for server in network.servers for g in server.current.collected.values()}
        for sender, post in network.record(1).gradient_posts().items():
            kept = decode_floats(network.node.payload(post.digest) or b"", network.founding.sizes)
            assert np.array_equal(kept, trained[sender])  # what a server reads is what everyone will read
    with chain_network(codec="fp32", planner="fixed:none") as exact:
        exact.run()
        by_name = {g.node: g.values for server in exact.servers for g in server.current.collected.values()}
    by_codec = {g.node: g.values for server in network.servers for g in server.current.collected.values()}
    for node, values in by_name.items():
        assert np.abs(by_codec[node] - values).max() <= at_most * np.abs(values).max()


# --- several nodes ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three() -> Iterator[ChainNetwork]:
    """Three servers with a node each, after three rounds."""
    with chain_network(nodes=3, phi="1") as network:
        network.run(3)
        yield network


def test_three_nodes_have_the_same_head(three: ChainNetwork) -> None:
    assert len(three.hosted.nodes) == 3
    assert len({node.head.hash for node in three.hosted.nodes}) == 1
    assert three.node.head.block_number == 4


def test_the_next_leader_posts_all_signatures_and_every_node_has_them_at_once(three: ChainNetwork) -> None:
    assert three.calls(1).count("endorse") == 0
    for round_ in (2, 3):
        (endorsed,) = [post for post in three.posts(round_) if post.call and post.call.name == "endorse"]
        assert endorsed.call is not None
        assert endorsed.sender == three.key(three.leader_of(round_))
        assert bytes(endorsed.call["digest"]) == three.header(round_ - 1).hash
        assert len(endorsed.call["times"]) == 3
    for node in three.hosted.nodes:
        assert node.final == three.header(3)
        assert len(node.endorsements(three.header(3).hash)) == 3


def test_three_nodes_run_the_rounds_of_one(three: ChainNetwork) -> None:
    with chain_network(phi="1") as one:
        one.run(3)
        assert [one.header(k).hash for k in (1, 2, 3)] == [three.header(k).hash for k in (1, 2, 3)]


def test_a_number_of_nodes_between_one_and_all_is_refused() -> None:
    with pytest.raises(ParameterError, match="nodes: found 2, expected 1"), chain_network(nodes=2):
        pass


# --- models of any size -----------------------------------------------------------------------------------------------


def test_a_block_is_as_large_with_a_large_model_as_with_a_small_one() -> None:
    """Posts name their payloads: devices, servers and blocks are the same for every model (B1)."""
    found = []
    for hidden in ("4", "300,100"):
        with chain_network(hidden=hidden, phi="1") as network:
            (report,) = network.run()
            assert (report.refused, report.offences, report.failed_leaders) == ((), (), ())
            assert len(network.replayed(1).counted) == report.training_nodes == 6
            sizes = [len(transaction.raw) for transaction in network.block(1).transactions]
            found.append((len(sizes), sum(sizes), max(sizes)))
            payloads = [each.size for post in network.posts(1) for each in post.commitments if post.is_stored]
    (calls, small, _), (as_many, large, largest) = found
    assert calls == as_many
    assert abs(large - small) < 8 * calls  # numbers with more digits, a zero byte more or less
    assert largest < 600
    assert max(payloads) > 160_000


# --- determinism ------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_head_and_another_seed_another(calm: ChainNetwork) -> None:
    with chain_network() as again, chain_network(seed=2) as other:
        again.run(3)
        other.run(1)
        assert again.node.head.hash == calm.node.head.hash
        assert other.header(0).hash != calm.header(0).hash
        assert other.header(1).hash != calm.header(1).hash


@pytest.mark.parametrize("changes", [{"attack": "iterate-noise@2"}, {"rounds": 7}, {"nodes": 3}], ids=str)
def test_the_founding_block_does_not_say_how_long_a_run_is_who_attacks_or_how_many_nodes(
    calm: ChainNetwork, changes: dict[str, Any]
) -> None:
    with chain_network(**changes) as network:
        assert network.header(0).hash == calm.header(0).hash


def test_every_block_has_the_one_before_as_its_parent(calm: ChainNetwork) -> None:
    headers = [calm.header(round_) for round_ in range(4)]
    assert all(later.parent_hash == earlier.hash for earlier, later in pairwise(headers))


def test_a_gradient_of_a_stranger_is_none(calm: ChainNetwork) -> None:
    record = calm.record(1)
    post = next(iter(record.gradient_posts().values()))
    with pytest.raises(GradientRefusedError, match="is no participant of the founding"):
        read_gradient(replace(post, sender=Address(bytes(20))), post.payload or b"", record.plan, calm.founding)
