"""A node that was away for forty blocks, in the middle of a round: it catches up, and answers meanwhile."""

import threading
import time
from contextlib import ExitStack

import pytest

from chain.client.asking import request, web3_over_http
from chain.client.keys import address_of
from chain.node.node import Node
from chain.peers.peers import Peers
from tests.chain.network import Network, seal
from tests.chain.rpc.served import served_node, wait_until

NETWORK = Network()
BEHIND = 40
PATIENCE_S = 2.0
"""What a request may take on a loaded machine; a block takes some hundredths of it"""


def short_round(node: Node) -> None:
    """A plan and two gradients, sealed."""
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    for device in NETWORK.devices[:2]:
        NETWORK.post_gradient(node, device, b"%d of " % node.head.block_number + address_of(device)[:8])
    node.propose(address_of(leader))
    seal(node, address_of(NETWORK.devices[0]))


def hashes(node: Node) -> set[bytes]:
    return {entry.post.transaction.hash for entry in node.pending()}


@pytest.mark.slow
def test_a_node_forty_blocks_behind_catches_up_while_a_round_runs() -> None:
    with ExitStack() as stack:
        first, first_url = served_node(stack)
        NETWORK.found(first)
        for _ in range(BEHIND):
            short_round(first)
        second, second_url = served_node(stack)
        stack.enter_context(Peers(first, [second_url], pull_s=0.1))
        took_s: list[float] = []
        is_over = threading.Event()

        def visit() -> None:
            web3 = web3_over_http(second_url)
            while not is_over.wait(0.01):
                before_s = time.monotonic()
                request(web3, "eth_blockNumber")
                took_s.append(time.monotonic() - before_s)

        visitor = threading.Thread(target=visit)
        visitor.start()
        stack.enter_context(Peers(second, [first_url], pull_s=0.1))
        NETWORK.post_plan(first)
        for device in NETWORK.devices[:3]:
            NETWORK.post_gradient(first, device)
            time.sleep(0.05)
        short_of = second.head.block_number
        wait_until(lambda: second.head.hash == first.head.hash, 60)
        NETWORK.post_gradient(first, NETWORK.devices[3])
        wait_until(lambda: hashes(second) == hashes(first))
        is_over.set()
        visitor.join()
        assert short_of < 1 + BEHIND, "the posts came while it was behind"
        assert (len(first.pending()), second.wanted()) == (5, [])
        assert len(took_s) > 10
        assert max(took_s) < PATIENCE_S
