"""A server that is started again in an attempt first posts what it has signed there, in the same bytes (D5)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.node.node import Node
from chain.protocol.posts import SignedCall
from chain.rpc.in_process import web3_in_process
from chain.signer.memory import SignedMemory
from chain.signer.statements import Signed
from chain.wire.address import Address
from chain.wire.blocks import encode_block
from edge_servers.leading import LedgerAccess
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.chain_attempts import ChainAttempts
from edge_servers.ledger.chain_board import ChainBoard
from edge_servers.ledger.chain_sealing import ChainSealer
from edge_servers.ledger.posting_again import post_again
from edge_servers.ledger.referee import Referee
from edge_servers.remote.ledger import RemoteLedger
from edge_servers.replay.record import GradientReader
from edge_servers.server import EdgeServer
from tests.edge_servers.chain_network import ChainNetwork, chain_network


def connected(node: Node) -> Connection:
    return Connection(web3_in_process(node), node.genesis.registry)


def remote_access(network: ChainNetwork, server: int, node: Node, memory: SignedMemory) -> LedgerAccess:
    """A server's way to a node, over JSON-RPC and with a memory of what its key has signed, as on a real machine."""
    checker, clock = RoundChecker(GradientReader(network.founding)), network.clock
    address, ledger = network.key(server), RemoteLedger(connected(node), node.genesis)
    account = network.hosting.account("server", server)
    attempts = ChainAttempts(ledger, {address: account}, clock, {address: memory})
    board = ChainBoard(ledger, checker.reader, {address: attempts.ledger_of(address)}, attempts, clock)
    return LedgerAccess(board, Referee(board), ChainSealer(node, checker, clock), attempts)


def restored(network: ChainNetwork) -> Node:
    """A node with the blocks of the network, and nothing of what is pending or signed."""
    node = Node.in_memory(network.node.genesis, now=network.clock.now)
    node.sources.append(network.node)
    for number in range(1, network.node.head.block_number + 1):
        block = network.node.block(number)
        assert block is not None
        node.import_block(encode_block(block.header, block.transactions))
    node.sources.clear()
    return node


@contextmanager
def remembering(tmp_path: Path) -> Iterator[tuple[ChainNetwork, EdgeServer, SignedMemory]]:
    """A network in which the first in rank has a memory."""
    with chain_network(devices=3, phi="1", planner="fixed:none") as network:
        account = network.hosting.account("server", network.leader)
        chain_id, path = network.node.genesis.chain_id, tmp_path / "signed.db"
        with SignedMemory.open(path, Address(address_of(account)), chain_id, is_founding=True) as memory:
            server = network.servers[network.leader]
            server.access = remote_access(network, server.index, network.node, memory)
            yield network, server, memory


def posts_of(node: Node, server: EdgeServer) -> list[SignedCall]:
    return [entry.post for entry in node.pending() if entry.post.sender == server.address]


def names(posts: list[SignedCall]) -> list[str]:
    return [post.call.name for post in posts if post.call is not None]


def test_posts_of_the_open_attempt_go_to_a_node_that_lacks_them_in_the_same_bytes(tmp_path: Path) -> None:
    with remembering(tmp_path) as (network, server, memory):
        network.walk("plan", "close")
        before = posts_of(network.node, server)
        assert names(before) == ["plan", "roll", "close"]
        node = restored(network)
        server.access = remote_access(network, server.index, node, memory)
        server.begin_round()
        assert [post.transaction.raw for post in posts_of(node, server)] == [post.transaction.raw for post in before]
        assert [each.digest for each in node.wanted()] == [each.digest for post in before for each in post.commitments]
        plan = network.node.payload(before[0].commitments[0].digest)
        server.post_plan()
        assert node.payload(before[0].commitments[0].digest) == plan, "computed again, it is the same, and is brought"
        assert len(posts_of(node, server)) == 3
        server.begin_round()
        assert len(posts_of(node, server)) == 3, "what is there already is no matter"


def test_endorsements_and_passes_of_every_attempt_go_out_again(tmp_path: Path) -> None:
    with remembering(tmp_path) as (network, server, memory):
        network.walk("plan", "model")
        server.seal_round()
        assert server.attempts.endorse(server.address, 1, 0)
        server.attempts.pass_on(server.address, 1, 1)
        signed, passes = network.node.votes(1)
        assert (len(signed), len(passes)) == (1, 1)
        head = network.node.head
        node = restored(network)
        server.access = remote_access(network, server.index, node, memory)
        assert node.votes(1) == ([], [])
        server.begin_round()
        found = node.votes(1)
        assert [each.encode() for each in found[0]] == [each.encode() for each in signed]
        assert [each.encode() for each in found[1]] == [each.encode() for each in passes]
        assert found[0][0].block_hash == head.hash
        server.begin_round()
        assert node.votes(1) == found


def test_a_certificate_that_only_its_own_pass_completes_is_joined_at_once(tmp_path: Path) -> None:
    with remembering(tmp_path) as (network, server, memory):
        network.walk("plan", "plan")
        server.attempts.pass_on(server.address, 1, 1)
        other = network.servers[network.ranked[1]]
        node = restored(network)
        other.attempts.pass_on(other.address, 1, 1)
        (given,) = [each for each in network.node.votes(1)[1] if each.signer == other.address]
        node.take_pass(given)
        server.access = remote_access(network, server.index, node, memory)
        server.begin_round()
        assert server.attempt == 1
        assert posts_of(node, server) == [], "its posts of attempt 0 are of no use any more"


def test_what_cannot_be_posted_yet_is_left_to_its_step(tmp_path: Path) -> None:
    """A roll without the plan before it: the nonce leaves a gap."""
    with remembering(tmp_path) as (network, server, memory):
        network.walk("plan", "train")
        node = restored(network)
        later = [each for each in memory.pending(1, 0) if each.slot == "roll"]
        assert len(later) == 1
        post_again(connected(node), Some(later), 1, 0)  # type: ignore[arg-type]
        assert posts_of(node, server) == []


class Some:
    """A memory of some things."""

    def __init__(self, signed: list[Signed]) -> None:
        self._signed = signed

    def pending(self, *_: int) -> list[Signed]:
        return self._signed


def test_a_round_that_is_final_asks_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with remembering(tmp_path) as (network, server, _):
        network.run()
        asked: list[object] = []

        def pending(*place: object) -> list[Signed]:
            asked.append(place)
            return []

        monkeypatch.setattr(SignedMemory, "pending", pending)
        server.attempts.post_again(server.address, 1)
        assert asked == []
        server.attempts.post_again(server.address, 2)
        assert asked
