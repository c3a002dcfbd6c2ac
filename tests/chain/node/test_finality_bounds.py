"""The founding block is final by definition (Q1)."""

import pytest

from chain.errors import FinalityError
from chain.node.node import Node
from tests.chain.network import Clock, Network, genesis


def test_the_first_founding_stands() -> None:
    network, clock = Network(), Clock()
    node, other = (Node.in_memory(genesis(), now=clock) for _ in range(2))
    network.found(node)
    clock.pass_s(10)
    network.found(other)
    rival = other.raw_block(1) or b""
    assert node.head.hash != other.head.hash
    assert node.final == node.head
    with pytest.raises(FinalityError, match="a branch from block 0 would undo block 1, which is final"):
        node.import_block(rival)
    network.run_round(node)
    assert node.head.block_number == 2
