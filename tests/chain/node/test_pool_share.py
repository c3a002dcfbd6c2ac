"""A sender's share of a block's room, to the unit of gas: what a post costs at least counts before it is executed."""

import pytest

from chain.client.keys import address_of
from chain.errors import PoolFullError
from chain.node.node import Node
from chain.protocol.slots import Slot
from chain.wire.transactions import decode_transaction
from tests.chain.network import Network, founded_node, genesis

CHUNKS, CHUNK = 24, bytes(range(256)) * 300
"""Enough that a block with twice the room they take still has room for a founding"""
CHEAPEST_BYTE = 4
"""Gas of a byte of calldata that is zero"""


def filled(gas_limit: int | None = None) -> tuple[Node, int, bytes]:
    """A node with many chunks of one server, the gas that they used, and one more of them, signed."""
    network = Network()
    node = founded_node(network, rules=genesis(**({} if gas_limit is None else {"gas_limit": gas_limit})))
    leader, server = network.leader(node), network.leader(node, rank=1)
    network.post_plan(node, leader)
    for _ in range(CHUNKS):
        network.post(node, server, "chunk", 1, Slot.ITERATE, 0, CHUNK)
    mine = sum(call.outcome.gas for call in node.pending() if call.post.sender == address_of(server))
    return node, mine, network.signed(node, server, "chunk", 1, Slot.ITERATE, 0, CHUNK)


def test_a_server_may_use_its_half_of_a_block_to_the_last_unit_and_not_one_more() -> None:
    node, mine, post = filled()
    share = mine + CHEAPEST_BYTE * len(decode_transaction(post).data)
    node.submit(post)
    node.close()

    node, _, post = filled(gas_limit=2 * share)
    assert node.submit(post) in {call.post.transaction.hash for call in node.pending()}
    node.close()

    node, used, post = filled(gas_limit=2 * share - 1)  # half of it is one less
    with pytest.raises(PoolFullError, match=f"has used {mine} gas of its share of {share - 1} in this block"):
        node.submit(post)
    assert used == mine < share - 1  # what it had posted would have been within its share
    node.close()
