"""A sender's share of a block's room, to the unit of gas: what a post costs at least counts before it is executed."""

from copy import copy

import pytest

from chain.client.keys import address_of
from chain.errors import PoolFullError, RevertedError
from chain.node import pool as pool_module
from chain.node.node import Node
from chain.wire.transactions import decode_transaction
from tests.chain.network import Network, account, founded_node

VOTES = 3
"""A vote for somebody new is what a server may post again and again"""
CHEAPEST_BYTE = 4
"""Gas of a byte of calldata that is zero"""


def filled() -> tuple[Node, int, bytes]:
    """A node with many votes of one server, the gas that they used, and one more of them, signed."""
    network = Network()
    node = founded_node(network)
    server = network.servers[0]
    for i in range(VOTES):
        network.post(node, server, "vote", address_of(account(f"newcomer {i}")), address_of(server))
    mine = sum(call.outcome.gas for call in node.pending())
    one_more = "vote", address_of(account("one more")), address_of(server)
    return node, mine, network.signed(node, server, *one_more, gas=100_000)


def with_room(node: Node, gas_limit: int) -> Node:
    """The node, as if its blocks had only so much room."""
    small = copy(node.genesis)
    object.__setattr__(small, "gas_limit", gas_limit)  # less than a founding needs
    node._store.genesis = small
    return node


def test_a_server_may_use_its_half_of_a_block_to_the_last_unit_and_not_one_more() -> None:
    node, mine, post = filled()
    share = mine + CHEAPEST_BYTE * len(decode_transaction(post).data)
    with pytest.raises(PoolFullError, match=f"has used {mine} gas of its share of {share - 1} in this block"):
        with_room(node, 2 * share - 1).submit(post)  # half of it is one less
    assert mine < share - 1  # what it had posted is within its share
    assert len(node.pending()) == VOTES
    assert with_room(node, 2 * share).submit(post) in {call.post.transaction.hash for call in node.pending()}
    node.close()


def test_a_device_has_the_room_of_two_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one post; the second would be evidence against itself."""
    network = Network()
    node = founded_node(network)
    network.post_plan(node)
    network.post_gradient(node, network.devices[0])
    mine = node.pending()[-1].outcome.gas
    monkeypatch.setattr(pool_module, "call_gas", lambda: mine // 2)
    with pytest.raises(PoolFullError, match=f"has used {mine} gas of its share of {mine // 2 * 2} in this block"):
        network.post_gradient(node, network.devices[0], b"another")
    network.post_gradient(node, network.devices[1])
    monkeypatch.undo()
    with pytest.raises(RevertedError, match="already posted"):
        network.post_gradient(node, network.devices[0], b"another")
    node.close()
