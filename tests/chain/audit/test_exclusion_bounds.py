"""An exclusion lasts through its last round, to the block: an auditor lets nobody back a round early, or keep out."""

import pytest

from chain.audit.found import Inspection
from chain.audit.inspection import inspect_chain
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.wire.blocks import Block
from chain.wire.transactions import decode_transaction
from tests.chain.small_chain import NETWORK, StoredChain, accepted, forged, signed, story

LAST_ROUND = 5
"""Of the exclusion in the small chain: flagged in round 3, out for two rounds"""
TURN_S = NETWORK.terms.turn_s


def with_block(number: int, block: Block) -> Inspection:
    """The small chain up to here, with another block at its end."""
    return inspect_chain(StoredChain((*story().blocks[:number], block)))


def voted_by_the_liar(round_: int) -> Block:
    """The block of a round with nothing but a post of the server that was excluded."""
    number = round_ + 1
    liar = next(server for server in NETWORK.servers if address_of(server) == story().liar)
    sent = [each for block in story().blocks[:number] for each in block.transactions if each.sender == story().liar]
    raw = signed(liar, len(sent), "vote", bytes(20), bytes(20))
    posts = [decode_transaction(raw)]
    return forged(story().blocks[number], posts, accepted(posts))


def led_by_the_liar(round_: int, waited_s: int) -> Block:
    """The block of a round, empty, built by the server that was excluded so long after its parent."""
    parent = story().blocks[round_].header
    return forged(story().blocks[round_ + 1], [], [], coinbase=story().liar, timestamp=parent.timestamp + waited_s)


def test_the_small_chain_excludes_its_liar_through_this_round() -> None:
    assert inspect_chain(StoredChain(story().blocks)).excluded_through[story().liar] == LAST_ROUND


@pytest.mark.parametrize("round_", [LAST_ROUND - 1, LAST_ROUND])
def test_until_its_last_round_an_excluded_server_posts_nothing(round_: int) -> None:
    with pytest.raises(InspectionError, match=rf"^block {round_ + 1}: .*vote by 0x[0-9a-f]{{40}}, who is excluded"):
        with_block(round_ + 1, voted_by_the_liar(round_))


@pytest.mark.parametrize("round_", [LAST_ROUND - 1, LAST_ROUND])
def test_until_its_last_round_an_excluded_server_has_no_turn_however_long_it_waits(round_: int) -> None:
    with pytest.raises(InspectionError, match=rf"^block {round_ + 1}: led by 0x[0-9a-f]{{40}} \(rank None\)"):
        with_block(round_ + 1, led_by_the_liar(round_, waited_s=10 * TURN_S))


def test_in_the_round_after_it_posts_and_leads_again() -> None:
    assert with_block(7, voted_by_the_liar(LAST_ROUND + 1)).by_kind["vote"] == 5
    assert with_block(7, led_by_the_liar(LAST_ROUND + 1, waited_s=10 * TURN_S)).led[story().liar] >= 1
