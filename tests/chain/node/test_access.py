"""A node at hand and the same node through web3 are the same chain."""

from collections.abc import Iterator

import pytest

from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import LedgerError
from chain.node.access import NodeAccess
from chain.node.node import Node
from chain.protocol.contract import events
from chain.protocol.slots import MAX_STEP, Slot, iterate_slot
from chain.rpc.in_process import web3_in_process
from chain.wire.transactions import decode_transaction
from tests.chain.network import Network, founded_node

NETWORK = Network()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """Two sealed rounds, and a third in which everything is posted."""
    running = founded_node(NETWORK)
    for _ in range(2):
        NETWORK.run_round(running)
    NETWORK.post_plan(running)
    NETWORK.post_gradient(running, NETWORK.devices[0])
    NETWORK.post_close(running)
    NETWORK.post_iterate(running, NETWORK.servers[0], 0, b"unlike those before")
    NETWORK.post_model(running)
    yield running
    running.close()


@pytest.fixture(scope="module")
def near(node: Node) -> NodeAccess:
    return NodeAccess(node)


@pytest.fixture(scope="module")
def far(node: Node) -> Connection:
    return Connection(web3_in_process(node), node.genesis.registry)


def test_what_is_fixed_is_the_same(near: NodeAccess, far: Connection) -> None:
    assert (near.chain_id, near.registry, near.settings) == (far.chain_id, far.registry, far.settings)
    assert (near.is_embedded, near.head(), near.block_hash(2)) == (True, far.head(), far.block_hash(2))
    assert near.header(3) == far.header(3)


@pytest.mark.parametrize("event", ["GradientPosted", "Founded"])
@pytest.mark.parametrize(("first", "last"), [(0, None), (1, 1), (2, 3), (3, 3), (4, None), (0, 0)])
def test_logs_of_sealed_and_pending_blocks_are_the_same(
    near: NodeAccess, far: Connection, event: str, first: int, last: int | None
) -> None:
    topics = [events()[event].topic]
    assert near.logs(topics, first, last) == far.logs(topics, first, last)


def test_logs_are_told_apart_by_every_topic(near: NodeAccess, far: Connection) -> None:
    sender = address_of(NETWORK.devices[0]).rjust(32, b"\0")
    topics = [events()["GradientPosted"].topic, None, sender]
    assert near.logs(topics, 0, None) == far.logs(topics, 0, None)
    assert len(near.logs(topics, 0, None)) == 3
    assert near.logs([*topics, None, None, None], 0, None) == []


def test_a_transaction_is_found_wherever_it_is(near: NodeAccess, far: Connection) -> None:
    for log in near.logs([events()["GradientPosted"].topic], 0, None):
        found = near.transaction(log.transaction_hash)
        assert found is not None
        assert found == far.transaction(log.transaction_hash)
        raw = near.raw_transaction(log.transaction_hash)
        assert raw is not None
        assert raw == far.raw_transaction(log.transaction_hash)
        assert decode_transaction(raw).hash == log.transaction_hash
    assert near.raw_transaction(bytes(32)) is far.raw_transaction(bytes(32)) is None
    assert near.transaction(bytes(32)) is far.transaction(bytes(32)) is None


def test_payloads_are_the_same_wherever_they_are(near: NodeAccess, far: Connection) -> None:
    """Of a sealed round and of the running one; an iterate's only while its round is running (B3)."""
    for round_, has_iterates in ((1, False), (3, True)):
        for post in Ledger(near).round_posts(round_):
            is_here = has_iterates or post.slot < Slot.ITERATE
            assert near.has_payload(post.digest) is far.has_payload(post.digest) is is_here
            assert near.payload(post.digest) == far.payload(post.digest)
    assert near.payload(bytes(32)) is far.payload(bytes(32)) is None
    assert near.has_payload(bytes(32)) is far.has_payload(bytes(32)) is False


def test_what_is_sealed_is_proven_and_nothing_else(near: NodeAccess, far: Connection) -> None:
    sealed, pending = (near.logs([events()["Planned"].topic], number, last)[0] for number, last in ((2, 2), (4, None)))
    assert near.proof(sealed.transaction_hash) == far.proof(sealed.transaction_hash)
    with pytest.raises(LedgerError, match="is not sealed"):
        near.proof(pending.transaction_hash)
    with pytest.raises(LedgerError, match="there is no block 9; the head is 3"):
        near.header(9)


@pytest.mark.parametrize("slot", [Slot.ENDORSE, Slot.EQUIVOCATION, Slot.DOUBLE_PASS, 6, iterate_slot(MAX_STEP) + 1])
def test_only_posts_of_a_round_are_posted(near: NodeAccess, slot: int) -> None:
    ledger = Ledger(near, NETWORK.servers[0])
    with pytest.raises(LedgerError, match=f"slot {int(slot)} is of no post"):
        ledger.post(slot, 3, b"")
