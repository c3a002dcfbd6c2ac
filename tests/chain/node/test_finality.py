"""What is final (Q1): signed by a strict majority, never undone, before total difficulty; who signs twice is named."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import ConflictError, EndorsementError, FinalityError
from chain.node import finality
from chain.node.node import Node
from chain.node.vm import StateView, call_registry
from chain.protocol.endorsements import Endorsement
from chain.protocol.genesis import Genesis
from chain.wire.blocks import decode_block, encode_block
from chain.wire.headers import Header
from chain.wire.seal import find_nonce
from tests.chain.endorsing import endorse_call, signed
from tests.chain.network import Clock, Network, account, endorsements_of, founded_node, genesis, seal
from tests.chain.store.faults import killed_at_every_statement

NETWORK = Network()
SERVERS = NETWORK.servers


def sealed(node: Node, plan: bytes = b"plan") -> Header:
    """A short round."""
    NETWORK.post_plan(node, payload=plan)
    node.propose(address_of(NETWORK.leader(node)))
    return seal(node, address_of(NETWORK.devices[0]))


def two_branches() -> tuple[Node, Header, Header]:
    """A node with two blocks 2, of which the first has the smaller hash: it is the head."""
    nodes = [founded_node(NETWORK) for _ in range(2)]
    for node, plan in zip(nodes, (b"one", b"other"), strict=True):
        sealed(node, plan)
    node, other = sorted(nodes, key=lambda each: each.head.hash)
    node.sources = [other]
    node.import_block(other.raw_block(2) or b"")
    assert node.head.hash < other.head.hash
    return node, node.head, other.head


def take(node: Node, endorsements: Sequence[Endorsement]) -> list[bool]:
    return [node.take_endorsement(each) for each in endorsements]


# --- a majority


@pytest.mark.parametrize(("servers", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_strict_majority_of_all_servers_makes_a_block_final_at_once(servers: int, needed: int) -> None:
    network = Network(servers=[account(f"server {i}") for i in range(servers)])
    node = founded_node(network)
    assert node.final == node.head, "the founding block needs nobody"
    network.post_plan(node)
    node.propose(address_of(network.leader(node)))
    seal(node, address_of(network.devices[0]))
    for count, server in enumerate(network.servers, start=1):
        network.endorse(node, servers=[server])
        assert (node.final == node.head) == (count >= needed)


def test_the_same_signature_counts_once_and_those_of_other_times_too() -> None:
    node = founded_node(NETWORK)
    header = sealed(node)
    assert take(node, signed(SERVERS[:1], 1, header.hash)) == [True]
    assert take(node, signed(SERVERS[:1], 1, header.hash)) == [False]
    assert take(node, signed(SERVERS[:1], 1, header.hash, time_s=5)) == [False]
    assert node.final.block_number == 1
    assert [each.signer for each in node.endorsements(header.hash)] == [address_of(SERVERS[0])]


def test_the_registry_is_asked_once_who_may_sign_a_block_and_not_before_somebody_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def counted(view: StateView, rules: Genesis, name: str) -> Any:
        asked.append(name)
        return call_registry(view, rules, name)

    monkeypatch.setattr(finality, "call_registry", counted)
    node = founded_node(NETWORK)
    first, second = sealed(node), sealed(node)
    assert asked == []
    for each in (first, second, first):
        take(node, endorsements_of(each, SERVERS))
    assert asked == ["server_list"] * 2
    assert node.final == second


def test_a_block_is_final_with_the_one_after_it() -> None:
    node = founded_node(NETWORK)
    first = sealed(node)
    second = sealed(node)
    take(node, endorsements_of(second, SERVERS[:2]))
    assert node.final == second
    take(node, endorsements_of(first, SERVERS[:2]))
    assert node.final == second


def test_who_is_no_server_endorses_nothing() -> None:
    node = founded_node(NETWORK)
    header = sealed(node)
    strangers: list[LocalAccount] = [account("stranger"), NETWORK.devices[0], NETWORK.founder]
    for who in strangers:
        with pytest.raises(EndorsementError, match="is no edge server"):
            take(node, endorsements_of(header, [who]))
    with pytest.raises(EndorsementError, match="found an endorsement of block 2 for round 2"):
        take(node, signed(SERVERS[:1], 2, header.hash))
    with pytest.raises(EndorsementError, match="found an endorsement for round 99, the head is of 1"):
        take(node, signed(SERVERS[:1], 99, bytes(32)))
    for each in signed(SERVERS[:1], 1, header.hash):
        with pytest.raises(EndorsementError, match="is no edge server"):  # signed for attempt 0
            node.take_endorsement(Endorsement(1, 1, header.hash, 0, each.domain, each.signature))
    assert node.endorsements(header.hash) == []


def test_an_excluded_server_counts() -> None:
    node = founded_node(NETWORK)
    liar, one, two = SERVERS
    for accuser in (one, two):
        NETWORK.post(node, accuser, "flag", 1, address_of(liar), 0, b"\1" * 32, bytes(32))
    leader = NETWORK.leader(node)
    node.propose(address_of(leader))
    header = seal(node, address_of(NETWORK.devices[0]))
    assert node.ask("is_excluded", address_of(liar))
    take(node, endorsements_of(header, [liar, one]))
    assert node.final == header


def test_a_server_counts_from_the_block_after_the_one_that_registered_it() -> None:
    newcomer = account("newcomer")
    node = founded_node(NETWORK)
    for server in SERVERS[:2]:
        NETWORK.post(node, server, "vote", address_of(newcomer), address_of(newcomer))
    header = sealed(node)
    with pytest.raises(EndorsementError, match="is no edge server"):
        take(node, endorsements_of(header, [newcomer]))
    take(node, endorsements_of(header, SERVERS[:2]))
    assert node.final == header
    later = sealed(node)
    take(node, endorsements_of(later, SERVERS[:2]))
    assert node.final == header, "two of four"
    take(node, endorsements_of(later, [newcomer]))
    assert node.final == later


# --- before work, and for ever


def test_a_node_switches_to_what_is_final_however_much_work_another_branch_has() -> None:
    node, head, other = two_branches()
    sealed(node)
    sealed(node)
    assert node.head.block_number == 4
    take(node, endorsements_of(other, SERVERS[1:]))
    assert (node.head, node.final) == (other, other)
    with pytest.raises(FinalityError, match="would undo block 2, which is final"):
        node.import_block(_child_of(node, head))
    node.propose(address_of(NETWORK.leader(node)))  # what the other branch had sealed is pending again
    assert seal(node, address_of(NETWORK.devices[0])).parent_hash == other.hash


def _child_of(node: Node, header: Header) -> bytes:
    child = node.header(_children(node, header)[0])
    assert child is not None
    raw = node.raw_block(child.hash) or b""
    return _another(raw)


def _children(node: Node, header: Header) -> list[bytes]:
    return [each.hash for each in node._store.headers_after(header.block_number) if each.parent_hash == header.hash]


def _another(raw: bytes) -> bytes:
    """The same block, sealed by another device."""
    header, transactions = decode_block(raw)
    header = replace(header, extra_data=address_of(NETWORK.devices[1]))
    nonce = find_nonce(header.mining_hash, header.difficulty)
    assert nonce is not None
    return encode_block(header.with_nonce(nonce), transactions)


def test_what_comes_before_its_block_counts_when_the_block_comes() -> None:
    one, other = founded_node(NETWORK), founded_node(NETWORK)
    first, second = sealed(one, b"one"), sealed(other, b"other")
    assert take(other, endorsements_of(first, SERVERS[:2])) == [True, True]
    assert (other.head, other.final.block_number) == (second, 1)
    with pytest.raises(EndorsementError, match=r"a majority has endorsed block 0x.* of round 1, which is not here"):
        other.propose(address_of(NETWORK.leader(other)))
    other.sources = [one]
    other.import_block(one.raw_block(2) or b"")
    assert other.head == other.final == first
    sealed(other)


def test_a_block_carries_the_signatures_under_its_parent_to_whoever_was_away() -> None:
    one, away = founded_node(NETWORK), founded_node(NETWORK)
    first = sealed(one)
    NETWORK.post(one, SERVERS[0], "endorse", *endorse_call(SERVERS[:2], 1, first.hash))
    sealed(one)
    away.sources = [one]
    for number in (2, 3):
        away.import_block(one.raw_block(number) or b"")
    assert away.final == one.final == first
    assert [each.signer for each in away.endorsements(first.hash)] == sorted(map(address_of, SERVERS[:2]))


def test_what_is_final_stays_so_after_a_restart(tmp_path: Path) -> None:
    node = Node.create(tmp_path / "chain.db", genesis(), now=Clock())
    NETWORK.found(node)
    header = sealed(node)
    take(node, endorsements_of(header, SERVERS[:2]))
    node.close()
    again = Node.open(tmp_path / "chain.db", now=Clock())
    assert again.final == header
    assert len(again.endorsements(header.hash)) == 2
    again.close()


# --- who signs twice


def test_a_double_signer_is_found_and_named() -> None:
    node, head, other = two_branches()
    liar, honest = SERVERS[0], SERVERS[1]
    take(node, endorsements_of(head, [liar, honest]))
    assert node.final == head
    take(node, endorsements_of(other, [liar]))
    ((first, second),) = node.contradictions()
    assert isinstance(first, Endorsement)
    assert isinstance(second, Endorsement)
    assert first.signer == second.signer == address_of(liar)
    assert {first.block_hash, second.block_hash} == {head.hash, other.hash}
    with pytest.raises(EndorsementError, match="has signed two blocks of round 1 already"):
        take(node, signed([liar], 1, b"\x07" * 32))
    assert node.final == head


@pytest.mark.parametrize("is_here", [True, False], ids=["both blocks here", "one block elsewhere"])
def test_two_majorities_stop_a_node_which_names_who_signed_both(is_here: bool, tmp_path: Path) -> None:
    path = tmp_path / "chain.db"
    node = Node.create(path, genesis(), now=Clock())
    NETWORK.found(node)
    other = founded_node(NETWORK)
    first, second = sealed(node, b"one"), sealed(other, b"other")
    if is_here:
        node.sources = [other]
        node.import_block(other.raw_block(2) or b"")
    liar, one, two = SERVERS
    take(node, endorsements_of(first, [liar, one]))
    take(node, endorsements_of(second, [liar]))
    told = f"signed twice: {address_of(liar)}. This node stops"
    with pytest.raises(ConflictError, match=told):
        take(node, endorsements_of(second, [two]))
    with pytest.raises(ConflictError, match="two majorities"):
        node.propose(address_of(NETWORK.leader(node)))
    assert node.final == first
    node.close()
    again = Node.open(path, now=Clock())
    with pytest.raises(ConflictError, match=told):
        take(again, endorsements_of(second, [two]))
    again.close()


def test_the_founding_is_signed_by_nobody() -> None:
    node = founded_node(NETWORK)
    with pytest.raises(EndorsementError, match="is no edge server"):
        take(node, signed(SERVERS[:1], 0, node.head.hash))


def test_signatures_come_at_most_four_rounds_before_their_block() -> None:
    node = founded_node(NETWORK)
    assert take(node, signed(SERVERS[:1], 1, b"\7" * 32)) == [True]
    assert take(node, signed(SERVERS[:1], 4, b"\7" * 32)) == [True]
    for round_ in (0, 5):
        with pytest.raises(EndorsementError, match=f"found an endorsement for round {round_}, the head is of 0"):
            take(node, signed(SERVERS[:1], round_, b"\7" * 32))


# --- crashes


def test_whoever_dies_while_a_block_becomes_final_is_told_again_and_it_is_final(tmp_path: Path) -> None:
    """Nobody signs after a block that is not final: a signature that is kept and not counted would stop the network."""
    path = tmp_path / "chain.db"
    with closing(Node.create(path, genesis(), now=Clock())) as node:
        NETWORK.found(node)
        first, second = endorsements_of(sealed(node), SERVERS[:2])
    deaths = 0
    for again in killed_at_every_statement(
        path, Clock(), lambda node: node.take_endorsement(first), lambda node: node.take_endorsement(second)
    ):
        deaths += 1
        take(again, [first, second])
        assert again.final == again.head, deaths
    assert deaths > 5


def test_whoever_dies_while_it_switches_to_a_final_block_is_on_one_branch_or_the_other(tmp_path: Path) -> None:
    path, other = tmp_path / "chain.db", founded_node(NETWORK)
    rival = sealed(other, b"other")
    first, second = endorsements_of(rival, SERVERS[:2])
    with closing(Node.create(path, genesis(), now=Clock())) as node:
        NETWORK.found(node)
        sealed(node, b"one")
        sealed(node)

    def hear_of_the_rival(node: Node) -> None:
        node.sources = [other]
        node.import_block(other.raw_block(2) or b"")
        node.take_endorsement(first)

    deaths = 0
    for again in killed_at_every_statement(
        path, Clock(), hear_of_the_rival, lambda node: node.take_endorsement(second)
    ):
        deaths += 1
        assert (again.head.block_number, again.final.block_number) in ((3, 1), (2, 2)), deaths
        take(again, [first, second])
        assert again.head == again.final == rival
    assert deaths > 5
