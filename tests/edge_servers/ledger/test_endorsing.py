"""When a server signs (Q1): after the leader, once, on what is final. Splits never make two final blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from edge_servers.ledger.endorsing import endorse_round, post_endorsements
from eth_account.signers.local import LocalAccount
from hypothesis import given, settings
from hypothesis import strategies as st

from bfl.auditing.findings import audit_rounds
from chain.audit.archive import FileArchive
from chain.client.keys import address_of
from chain.errors import ChainError
from chain.node.access import LocalLedger
from chain.node.node import Node
from chain.protocol.endorsements import Domain, decode_endorsement, endorse
from chain.wire.headers import Header
from edge_servers.errors import EndorsementWithheldError
from edge_servers.founding.simulated import START_S
from edge_servers.replay.offences import DERIVED
from tests.chain.network import Network, account, endorsements_of, founded_node, seal
from tests.edge_servers.chain_network import chain_network


def at_once(ready: Callable[[], Any]) -> Any:
    """Nobody waits."""
    return ready()


def sealed_round(network: Network, node: Node) -> Header:
    network.post_plan(node)
    node.propose(address_of(network.leader(node)))
    return seal(node, address_of(network.devices[0]))


def by(node: Node, server: LocalAccount) -> LocalLedger:
    return LocalLedger(node).signed_by(server)


def test_the_leader_signs_first_and_the_others_what_it_signed() -> None:
    network = Network()
    node = founded_node(network)
    leader = network.leader(node)
    header = sealed_round(network, node)
    others = [server for server in network.servers if server != leader]
    with pytest.raises(EndorsementWithheldError, match="its leader has signed no block"):
        endorse_round(by(node, others[0]), address_of(others[0]), 1, at_once, 0)
    for server in (leader, *others):
        endorsement = endorse_round(by(node, server), address_of(server), 1, at_once, 7)
        assert endorsement is not None
        assert (endorsement.signer, endorsement.block_hash, endorsement.time_ms) == (address_of(server), header.hash, 7)
        assert endorse_round(by(node, server), address_of(server), 1, at_once, 8) is None, "once"
    assert node.final == header


def test_nobody_signs_after_a_block_that_is_not_final() -> None:
    network = Network()
    node = founded_node(network)
    sealed_round(network, node)
    leader = network.leader(node)
    sealed_round(network, node)
    with pytest.raises(EndorsementWithheldError, match="the block before it is not final"):
        endorse_round(by(node, leader), address_of(leader), 2, at_once, 0)


def test_nobody_follows_a_leader_to_another_branch() -> None:
    """The leader signs a block after one that is not final; honest servers, who have it, sign nothing."""
    network = Network()
    node, other = founded_node(network), founded_node(network)
    network.post_plan(other, payload=b"another plan")
    other.propose(address_of(network.leader(other)))
    seal(other, address_of(network.devices[1]))
    network.post_plan(other)
    other.propose(address_of(network.leader(other)))
    astray = seal(other, address_of(network.devices[1]))
    sealed_round(network, node)
    node.sources = [other]
    node.import_block(other.raw_block(2) or b"")
    node.import_block(other.raw_block(3) or b"")
    final = next(header for header in node._store.headers_after(1) if header.hash != astray.parent_hash)
    for each in endorsements_of(final, network.servers[:2]):
        node.take_endorsement(each)
    node.propose(address_of(network.leader(node)))
    header = seal(node, address_of(network.devices[0]))
    leader = next(server for server in network.servers if address_of(server) == header.coinbase)
    for each in endorsements_of(astray, [leader]):
        node.take_endorsement(each)
    honest = next(server for server in network.servers if server != leader)
    with pytest.raises(EndorsementWithheldError, match="its leader has signed no block"):
        endorse_round(by(node, honest), address_of(honest), 2, at_once, 0)


def test_a_round_that_is_not_sealed_is_not_signed() -> None:
    network = Network()
    node = founded_node(network)
    one = network.servers[0]
    assert endorse_round(by(node, one), address_of(one), 0, at_once, 0) is None
    assert endorse_round(by(node, one), address_of(one), 1, at_once, 0) is None


def test_what_is_here_is_posted_in_one_call() -> None:
    network = Network()
    node = founded_node(network)
    sealed_round(network, node)
    post_endorsements(by(node, network.servers[0]), 1)
    assert len(node.pending()) == 0
    network.endorse(node)
    post_endorsements(by(node, network.servers[0]), 1)
    (entry,) = node.pending()
    assert entry.post.call is not None
    assert len(entry.post.call["times"]) == 3


# --- splits


@dataclass
class Split:
    """A leader's candidate that two devices seal at once; every server has a node of its own."""

    servers: int

    def __post_init__(self) -> None:
        self.network = Network(servers=[account(f"server {i}") for i in range(self.servers)])
        self.nodes = [founded_node(self.network) for _ in range(self.servers)]
        first = self.nodes[0]
        self.leader = self.network.servers.index(self.network.leader(first))
        self.network.post_plan(first)
        twin = founded_node(self.network)
        for entry in first.pending():
            twin.submit(entry.post.transaction.raw, [])
        twin.sources = [first]
        for node, device in zip((first, twin), self.network.devices, strict=False):
            for digest in [each.digest for each in node.wanted()]:
                node.deliver(digest, first.payload(digest) or b"")
            node.propose(address_of(self.network.servers[self.leader]))
            seal(node, address_of(device))
        self.blocks = [node.raw_block(2) or b"" for node in (first, twin)]
        self.nodes[0] = founded_node(self.network)
        for node in self.nodes:
            node.sources = [first, twin]

    def receive(self, server: int, order: tuple[int, ...]) -> None:
        for block in order:
            self.nodes[server].import_block(self.blocks[block])

    def sign(self, server: int, others: list[int]) -> None:
        """As the server's own code does; whoever is up hears of it."""
        node, key = self.nodes[server], self.network.servers[server]
        try:
            made = endorse_round(by(node, key), address_of(key), 1, at_once, 0)
        except (EndorsementWithheldError, ChainError):
            return
        for other in others if made is not None else ():
            told = decode_endorsement(made.encode(), Domain.of(node.genesis))  # type: ignore[union-attr]
            self.nodes[other].take_endorsement(told)

    @property
    def final(self) -> set[bytes]:
        """Hashes of final blocks of round 1, over all nodes."""
        return {node.final.hash for node in self.nodes if node.final.block_number == 2}


@settings(max_examples=8, deadline=None)
@given(st.data(), st.sampled_from([3, 5]))
def test_any_order_of_two_valid_blocks_and_any_crashed_minority_never_make_two_final_blocks(
    data: st.DataObject, servers: int
) -> None:
    split = Split(servers)
    crashed = data.draw(st.sets(st.integers(0, servers - 1), max_size=(servers - 1) // 2), "crashed")
    up = [server for server in range(servers) if server not in crashed]
    for server in range(servers):
        split.receive(server, data.draw(st.sampled_from([*permutations((0, 1)), (0,), (1,)]), f"order of {server}"))
    for server in [*data.draw(st.permutations(up), "who signs first"), *up, *up]:
        split.sign(server, [each for each in up if each != server])
    assert len(split.final) <= 1
    has_both = all(split.nodes[server].header(split.nodes[split.leader].head.hash) is not None for server in up)
    if split.leader in up and has_both:
        assert len(split.final) == 1, "a majority is up, and has the leader's choice"


def test_one_double_signer_of_three_is_found_and_named_by_whoever_hears_both() -> None:
    split = Split(3)
    for server in range(3):
        split.receive(server, (0, 1))
    liar = split.network.servers[(split.leader + 1) % 3]
    node = split.nodes[split.leader]
    headers = [node.header(each.hash) for each in node._store.headers_after(1)]
    for header in headers:
        assert header is not None
        for each in endorsements_of(header, [liar]):
            node.take_endorsement(each)
    ((first, second),) = node.double_endorsements()
    assert first.signer == second.signer == address_of(liar)


# --- in a running network


def test_who_signs_two_blocks_of_a_round_is_flagged_with_both_signatures_and_excluded(tmp_path: Path) -> None:
    with chain_network(folder=tmp_path) as network:
        network.run(1)
        liar = network.hosting.account("server", 2)
        other = endorse(liar, Domain.of(network.node.genesis), 1, b"\7" * 32, 1000 * START_S)
        network.node.take_endorsement(other)
        (report,) = network.run(1)
        assert [(offence.name, offence.kind) for offence in report.offences] == [("server 2", "double_endorsement")]
        assert (report.excluded, report.failed_leaders) == ((2,), ())
        network.run(1)
        assert network.node.final == network.node.head, "two of three sign on, and the excluded one too"
        assert len(network.node.endorsements(network.node.head.hash)) == 3
    audit = audit_rounds(FileArchive(tmp_path))
    (found,) = audit.findings
    assert (found.name, found.round, found.verdict) == ("server 2", 2, DERIVED)
    assert found.detail == "server 2 endorsed two different blocks of one round (round 1)"
    assert set(found.flagged_by) == {"server 0", "server 1"}


def test_a_double_signer_whom_nobody_has_flagged_yet_is_named_by_an_audit(tmp_path: Path) -> None:
    with chain_network(folder=tmp_path) as network:
        network.run(2)
        liar = network.hosting.account("server", 1)
        network.node.take_endorsement(endorse(liar, Domain.of(network.node.genesis), 2, b"\7" * 32, 0))
    (found,) = audit_rounds(FileArchive(tmp_path)).findings
    assert (found.name, found.round, found.flagged_by) == ("server 1", 2, ())
    assert "the signatures lie beside the chain" in found.detail
