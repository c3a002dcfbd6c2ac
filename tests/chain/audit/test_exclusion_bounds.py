"""An exclusion lasts through its last round, to the block: an auditor lets nobody back a round early, or keep out."""

from contextlib import suppress

import pytest

from chain.audit.found import Inspection
from chain.audit.inspection import inspect_chain
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.protocol.passes import begun_call
from chain.wire.blocks import Block
from chain.wire.transactions import decode_transaction
from tests.chain.network import passes_of
from tests.chain.small_chain import NETWORK, NEW_SERVER, StoredChain, accepted, forged, signed, story

LAST_ROUND = 5
"""Of the exclusion in the small chain: flagged in round 3, out for two rounds"""


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


def led_by_the_liar(round_: int, attempt: int) -> Block:
    """The block of an attempt with nothing but its certificate, built by the server that was excluded."""
    number = round_ + 1
    liar = next(server for server in NETWORK.servers if address_of(server) == story().liar)
    sent = [each for block in story().blocks[:number] for each in block.transactions if each.sender == story().liar]
    passes = passes_of(round_, attempt, [*NETWORK.servers, NEW_SERVER])
    posts = [decode_transaction(signed(liar, len(sent), "begin_attempt", *begun_call(passes)))]
    return forged(story().blocks[number], posts, accepted(posts), coinbase=story().liar)


def test_the_small_chain_excludes_its_liar_through_this_round() -> None:
    assert inspect_chain(StoredChain(story().blocks)).excluded_through[story().liar] == LAST_ROUND


@pytest.mark.parametrize("round_", [LAST_ROUND - 1, LAST_ROUND])
def test_until_its_last_round_an_excluded_server_posts_nothing(round_: int) -> None:
    with pytest.raises(InspectionError, match=rf"^block {round_ + 1}: .*vote by 0x[0-9a-f]{{40}}, who is excluded"):
        with_block(round_ + 1, voted_by_the_liar(round_))


@pytest.mark.parametrize("round_", [LAST_ROUND - 1, LAST_ROUND])
def test_until_its_last_round_an_excluded_server_leads_no_attempt(round_: int) -> None:
    for attempt in (1, 2, 3, 4):
        with pytest.raises(
            InspectionError, match=rf"^block {round_ + 1}: .*begin_attempt by 0x[0-9a-f]{{40}}, who is exc"
        ):
            with_block(round_ + 1, led_by_the_liar(round_, attempt))
    for attempt in (0, 1):  # as it is, and with the certificate of somebody else
        empty = forged(story().blocks[round_ + 1], *(([], []) if attempt == 0 else ()), coinbase=story().liar)
        with pytest.raises(InspectionError, match=rf"^block {round_ + 1}: led by 0x[0-9a-f]{{40}}, who does not lead"):
            with_block(round_ + 1, empty)


def test_in_the_round_after_it_posts_and_leads_again() -> None:
    assert with_block(7, voted_by_the_liar(LAST_ROUND + 1)).by_kind["vote"] == 5
    may_lead = []
    for attempt in (1, 2, 3, 4):
        with suppress(InspectionError):
            found = with_block(7, led_by_the_liar(LAST_ROUND + 1, attempt))
            may_lead.append((attempt, found.led[story().liar]))
    assert len(may_lead) == 1, "one of four attempts in a row"
