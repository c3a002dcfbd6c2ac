"""Who follows headers and receipts alone knows who leads: the attempt of a block, and who is dormant."""

from dataclasses import replace

import pytest

from chain.audit.inspection import Inspector
from chain.audit.light import LightInspector
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.node.node import Node
from chain.protocol.contract import events
from tests.chain.network import Network, founded_node, genesis, seal
from tests.chain.small_chain import StoredChain, forged, story

REGISTRY = genesis().registry


def follower(blocks: int = 2) -> LightInspector:
    """Has read so many blocks of the small chain, the founding whole."""
    made = LightInspector(story().genesis, StoredChain(story().blocks))
    for block in story().blocks[:2]:
        made.check(block)
    for block in story().blocks[2:blocks]:
        made.follow(block.header, block.receipts)
    return made


def test_a_chain_with_a_later_attempt_is_followed_and_any_block_of_it_read_whole() -> None:
    whole = Inspector(story().genesis, StoredChain(story().blocks))
    for block in story().blocks:
        whole.check(block)
    for number in range(2, 8):
        light = follower(number)
        light.check(story().blocks[number])
        for block in story().blocks[number + 1 :]:
            light.follow(block.header, block.receipts)
        assert light.found.led == whole.found.led
        assert light.found.hashes == whole.found.hashes
        assert light.found.excluded_through == whole.found.excluded_through


def test_a_builder_that_does_not_lead_the_attempt_of_its_receipts_is_named() -> None:
    block = story().blocks[5]
    without = [replace(each, logs=()) if i == 0 else each for i, each in enumerate(block.receipts)]
    assert block.receipts[0].logs[0].topics[0] == events()["AttemptBegun"].topic
    made = forged(block, receipts=without)
    with pytest.raises(InspectionError, match=r"^block 5: led by 0x[0-9a-f]{40}, who does not lead attempt 0"):
        follower(5).follow(made.header, made.receipts)
    twice = forged(block, receipts=[block.receipts[0], *block.receipts])
    with pytest.raises(InspectionError, match=r"^block 5: attempt 1 begins in a block of attempt 1"):
        follower(5).follow(twice.header, twice.receipts)


def sleeping_chain(network: Network) -> Node:
    """The third server posts nothing until round 8, leads round 9, posts nothing until rounds 15 and 16, and leads the
    next; its device seals from the fifth on.
    """
    node = founded_node(network)
    three = network.servers[2]
    for round_ in range(1, 18):
        leader = network.leader(node)
        if leader is three and round_ in (*range(1, 6), *range(10, 15)):
            network.begin_attempt(node)
            leader = network.leader(node)
        network.post_plan(node, leader)
        if round_ in (8, 15, 16):
            network.post_gradient(node, three)
        network.post_close(node, leader)
        network.post_model(node, leader)
        node.propose(address_of(leader))
        seal(node, address_of(network.devices[2 if round_ > 4 else round_ % 2]))
    return node


def test_whoever_sleeps_is_last_for_who_reads_all_and_for_who_reads_receipts() -> None:
    network = Network()
    node = sleeping_chain(network)
    blocks = [block for number in range(19) if (block := node.block(number)) is not None]
    whole, light = Inspector(node.genesis, node), LightInspector(node.genesis, node)
    for number, block in enumerate(blocks):
        whole.check(block)
        if number < 2:
            light.check(block)
        else:
            light.follow(block.header, block.receipts)
    leaders = [block.header.coinbase for block in blocks[2:]]
    three = address_of(network.servers[2])
    assert three not in leaders[:8], "its device won, and it was dormant"
    assert leaders[8] == three, "back in the round after its post"
    assert three not in leaders[9:16], "asleep again, for two rounds"
    assert leaders[16] == three
    assert whole.found.led == light.found.led
