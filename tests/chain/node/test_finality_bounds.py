"""Finality (P17) of the first block that can be final: the founding."""

import pytest

from chain.errors import FinalityError
from chain.node.node import Node
from tests.chain.network import Clock, Network, genesis


def test_a_founding_that_a_majority_endorsed_cannot_be_undone_from_the_next_block_on() -> None:
    network, clock = Network(), Clock()
    node, other = (Node.in_memory(genesis(), now=clock) for _ in range(2))
    network.found(node)
    clock.pass_s(10)
    network.found(other)
    rival = other.raw_block(1) or b""
    assert node.head.hash != other.head.hash
    for server in network.servers[:2]:
        network.post(node, server, "endorse", 1, node.head.hash)
    network.run_round(node)
    assert (node.head.block_number, node.ask("final_block", header=node.head)) == (2, 1)
    with pytest.raises(FinalityError, match="a branch from block 0 would undo block 1, which is final"):
        node.import_block(rival)
    assert node.head.block_number == 2
