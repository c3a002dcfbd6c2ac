"""Passes and endorsements at a node's door (D3.2), and between nodes that know each other."""

from contextlib import ExitStack

import pytest

from chain.client.asking import web3_over_http
from chain.client.keys import address_of
from chain.node.node import Node
from chain.peers.peers import Peers
from chain.protocol.endorsements import Domain
from chain.protocol.passes import Named, decode_signed
from chain.wire.headers import Header
from tests.chain.network import Network, endorsements_of, passes_of, seal
from tests.chain.rpc.served import served_node, wait_until
from tests.chain.scene import Scene, hexed

INVALID_PARAMS = -32602
NETWORK = Network()
SERVERS = NETWORK.servers


def test_a_pass_is_taken_once_and_told_with_the_endorsements_of_its_round(own: Scene) -> None:
    passed = passes_of(1, 1, SERVERS[:1], Named(0, own.node.head.hash))[0]
    endorsed = endorsements_of(own.node.head, SERVERS[1:2])[0]
    assert own.ask("bfl_sendEndorsement", hexed(endorsed.encode())) is True
    assert own.ask("bfl_sendPass", hexed(passed.encode())) is True
    assert own.ask("bfl_sendPass", hexed(passed.encode())) is False
    assert own.ask("bfl_votes", 1) == [hexed(endorsed.encode()), hexed(passed.encode())]
    assert own.ask("bfl_votes", "0x1") == own.ask("bfl_votes", 1)
    assert own.ask("bfl_votes", 2) == []
    domain = Domain.of(own.node.genesis)
    assert [decode_signed(bytes.fromhex(each[2:]), domain) for each in own.ask("bfl_votes", 1)] == [endorsed, passed]


def test_what_is_no_pass_is_refused(own: Scene) -> None:
    good = passes_of(1, 1, SERVERS[:1])[0].encode()
    for absurd in (None, 7, "0x", hexed(good[:-1]), hexed(good + b"\0"), "zz"):
        assert own.refusal("bfl_sendPass", absurd)["code"] == INVALID_PARAMS
    stranger = passes_of(1, 1, NETWORK.devices[:1])[0].encode()
    for raw in (
        stranger,
        good[:12] + b"\xff" + good[13:],
        good[:-65] + bytes(65),
        passes_of(9, 1, SERVERS[:1])[0].encode(),
    ):
        assert own.refusal("bfl_sendPass", hexed(raw))["data"]["error"] == "PassError"
    assert own.ask("bfl_votes", 1) == []


def test_the_attempt_of_a_block_is_told_by_its_hash(own: Scene) -> None:
    assert own.ask("bfl_attemptOf", hexed(own.node.head.hash)) == 0
    NETWORK.begin_attempt(own.node, 4)
    leader = NETWORK.leader(own.node)
    NETWORK.post_plan(own.node, leader)
    own.node.propose(address_of(leader))
    header = seal(own.node, address_of(NETWORK.devices[0]))
    assert own.ask("bfl_attemptOf", hexed(header.hash)) == 4
    assert own.ask("bfl_attemptOf", hexed(bytes(32))) is None
    for absurd in (None, 2, "0x00"):
        assert own.refusal("bfl_attemptOf", absurd)["code"] == INVALID_PARAMS


def test_contradictions_are_told_in_pairs_from_a_round_on(own: Scene) -> None:
    assert own.ask("bfl_contradictions") == []
    endorsed, passed = endorsements_of(own.node.head, SERVERS[:1])[0], passes_of(1, 1, SERVERS[:1])[0]
    own.node.take_endorsement(endorsed)
    own.node.take_pass(passed)
    pair = [hexed(endorsed.encode()), hexed(passed.encode())]
    assert own.ask("bfl_contradictions") == own.ask("bfl_contradictions", 1) == [pair]
    assert own.ask("bfl_contradictions", 2) == []


# --- between nodes


def two_nodes(stack: ExitStack) -> tuple[Node, str, Node, str]:
    """Founded alike."""
    first, first_url = served_node(stack)
    NETWORK.found(first)
    second, second_url = served_node(stack)
    Peers(second, []).fetch_from(web3_over_http(first_url))
    return first, first_url, second, second_url


def short_round(node: Node) -> Header:
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    node.propose(address_of(leader))
    return seal(node, address_of(NETWORK.devices[0]))


def test_passes_reach_the_other_node_at_once(stack: ExitStack) -> None:
    first, _, second, second_url = two_nodes(stack)
    stack.enter_context(Peers(first, [second_url], pull_s=60))
    NETWORK.pass_on(first, servers=SERVERS[:2])
    wait_until(lambda: len(second.votes(1)[1]) == 2)


def test_votes_that_were_missed_are_fetched_with_the_endorsed_block_that_is_no_head_at_the_peer(
    stack: ExitStack,
) -> None:
    first, first_url, second, _ = two_nodes(stack)
    endorsed = short_round(first)
    first.take_endorsement(endorsements_of(endorsed, SERVERS[:1])[0])
    NETWORK.pass_on(first, servers=SERVERS[1:], round_=1)
    assert first.head.block_number == 1, "a majority passed on and named nothing: the block is not canonical"
    peers, web3 = Peers(second, []), web3_over_http(first_url)
    assert peers.fetch_from(web3) == 0
    assert peers.fetch_votes(web3) == 3
    assert peers.fetch_votes(web3) == 0
    peers.fetch_payloads(web3)
    assert second.header(endorsed.hash) == endorsed
    assert second.head.block_number == 1
    assert second.votes(1) == first.votes(1)


def test_a_peer_that_tells_nonsense_is_no_trouble_for_the_rest(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, first_url, second, _ = two_nodes(stack)
    good, stranger = passes_of(1, 1, SERVERS[:1])[0], passes_of(1, 1, NETWORK.devices[:1])[0]
    monkeypatch.setattr(first, "votes", lambda _: ([], [stranger, good]))
    assert Peers(second, []).fetch_votes(web3_over_http(first_url)) == 1
    assert second.votes(1)[1] == [good]
