"""Which blocks of a chain are final (Q1), counted without executing anything."""

import pytest
from eth_hash.auto import keccak

from chain.audit.endorsed import EndorsedBlocks
from chain.client.keys import address_of
from chain.errors import EndorsementError
from chain.protocol.contract import Call, decode_call, encode_call
from tests.chain.endorsing import endorse_call, signed
from tests.chain.network import account, genesis

SERVERS = [account(f"server {i}") for i in range(3)]
LIARS = [account(f"liar {i}") for i in range(9)]
MEMBERS = {address_of(each): address_of(each) for each in SERVERS}
HASHES = [keccak(b"block %d" % number) for number in range(6)]


def followed(blocks: int, joined: dict[bytes, bytes] | None = None, at: int = 0) -> EndorsedBlocks:
    """So many blocks; from number `at` on others are members too."""
    endorsed = EndorsedBlocks(genesis())
    for number in range(blocks):
        endorsed.follow(HASHES[number], MEMBERS | (joined or {} if number >= at else {}))
    return endorsed


def call_of(servers: list, round_: int, block_hash: bytes) -> Call:  # type: ignore[type-arg]
    return decode_call(encode_call("endorse", *endorse_call(servers, round_, block_hash)))


def test_a_majority_makes_a_block_final_and_all_before_it() -> None:
    endorsed = followed(5)
    assert endorsed.final == 1
    endorsed.take(signed(SERVERS[:1], 3, HASHES[4]))
    assert (endorsed.final, endorsed.told(4)) == (1, (1, 3))
    with pytest.raises(EndorsementError, match="block 4 is signed by 1 of 3 servers, expected at least 2"):
        endorsed.check_final(4)
    endorsed.take(signed(SERVERS[1:2], 3, HASHES[4]))
    assert (endorsed.final, endorsed.told(4), endorsed.told(3)) == (4, (2, 3), (0, 3))
    endorsed.check_final(4)
    endorsed.check_final(2)
    endorsed.take(signed(SERVERS, 1, HASHES[2]))
    assert endorsed.final == 4, "it does not go back"


def test_one_server_many_times_is_one_server() -> None:
    endorsed = followed(3)
    for time_s in range(3):
        endorsed.take(signed(SERVERS[:1], 1, HASHES[2], time_s=time_s))
    assert endorsed.final == 1


def test_posted_signatures_are_of_an_earlier_block_of_this_chain() -> None:
    endorsed = followed(3)
    endorsed.take_posted(call_of(SERVERS[:2], 1, HASHES[2]))
    assert endorsed.final == 2
    for round_, block_hash in ((1, HASHES[1]), (2, HASHES[3]), (0, HASHES[1])):
        with pytest.raises(EndorsementError, match="that is none of this chain"):
            endorsed.take_posted(call_of(SERVERS[:2], round_, block_hash))
    with pytest.raises(EndorsementError, match="who is no edge server"):
        endorsed.take_posted(call_of(LIARS[:1], 1, HASHES[2]))


def test_what_lies_beside_and_is_nobodys_does_not_count() -> None:
    endorsed = followed(3)
    beside = {HASHES[2]: [*signed(LIARS[:2], 1, HASHES[2]), *signed(SERVERS[:1], 2, HASHES[2])]}
    endorsed.take_beside(lambda block_hash: beside.get(block_hash, []))
    assert endorsed.final == 1
    beside[HASHES[2]] += signed(SERVERS[1:], 1, HASHES[2])
    endorsed.take_beside(lambda block_hash: beside.get(block_hash, []))
    assert endorsed.final == 2


def test_servers_that_a_forged_chain_registers_make_nothing_final() -> None:
    """Nine liars join in block 2, as its receipts say; the three servers have signed nothing of it."""
    liars: dict[bytes, bytes] = {address_of(each): address_of(each) for each in LIARS}
    endorsed = followed(5, liars, at=3)
    for number in (3, 4):
        endorsed.take(signed(LIARS, number - 1, HASHES[number]))
    assert endorsed.final == 1
    endorsed.take(signed(SERVERS[:2], 1, HASHES[2]))
    assert endorsed.final == 2, "now who joined in it is known"
    endorsed.take(signed(LIARS, 2, HASHES[3]))
    assert endorsed.final == 3
