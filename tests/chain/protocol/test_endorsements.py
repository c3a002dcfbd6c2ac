"""Endorsements (Q1): what is signed is EIP-712, and has one form."""

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.client.keys import address_of
from chain.errors import EndorsementError
from chain.protocol.contract import decode_call, encode_call
from chain.protocol.endorsements import (
    ENDORSEMENT_BYTES,
    Domain,
    Endorsement,
    check_final,
    decode_endorsement,
    endorse,
    is_final,
    posted_call,
    posted_endorsements,
    quorum,
)
from chain.wire.address import Address
from tests.chain.network import account, endorsements_of, genesis

SERVER, DOMAIN = account("server 0"), Domain.of(genesis())
UINTS, HASHES = st.integers(0, 2**64 - 1), st.binary(min_size=32, max_size=32)
DOMAINS = st.builds(Domain, UINTS, st.binary(min_size=20, max_size=20).map(Address))


def typed_data(said: Endorsement) -> dict[str, Any]:
    """The same as wallets of others know it."""
    word, chain, registry = "uint256", said.domain.chain_id, said.domain.registry
    return {
        "types": {
            "EIP712Domain": [{"name": "chainId", "type": word}, {"name": "verifyingContract", "type": "address"}],
            "Endorsement": [
                {"name": "round", "type": word},
                {"name": "attempt", "type": word},
                {"name": "block", "type": "bytes32"},
                {"name": "time", "type": word},
            ],
        },
        "primaryType": "Endorsement",
        "domain": {"chainId": chain, "verifyingContract": "0x" + registry.hex()},
        "message": {"round": said.round, "attempt": said.attempt, "block": said.block_hash, "time": said.time_ms},
    }


@settings(deadline=None, max_examples=50)
@given(UINTS, st.integers(0, 2**32 - 1), HASHES, UINTS, DOMAINS)
def test_digest_and_signature_are_those_of_eth_account(
    round_: int, attempt: int, block: bytes, time_ms: int, domain: Domain
) -> None:
    made = endorse(SERVER, domain, round_, attempt, block, time_ms)
    message = encode_typed_data(full_message=typed_data(made))
    oracle = Account.sign_message(message, SERVER.key)
    assert made.digest == bytes(oracle.message_hash)
    assert made.signature == oracle.signature[:64] + bytes([oracle.v - 27])
    signature = made.signature[:64] + bytes([made.signature[64] + 27])
    assert bytes.fromhex(Account.recover_message(message, signature=signature)[2:]) == made.signer == address_of(SERVER)


@settings(deadline=None, max_examples=50)
@given(UINTS, st.integers(0, 2**32 - 1), HASHES, UINTS, DOMAINS, st.binary(min_size=65, max_size=65))
def test_every_field_is_read_back(round_: int, attempt: int, block: bytes, ms: int, domain: Domain, by: bytes) -> None:
    said = Endorsement(round_, attempt, block, ms, domain, by)
    assert len(said.encode()) == ENDORSEMENT_BYTES
    assert decode_endorsement(said.encode(), domain) == said


@pytest.mark.parametrize(
    "changes",
    [
        {"round": 4},
        {"attempt": 1},
        {"block_hash": b"\1" + bytes(31)},
        {"time_ms": 6},
        {"domain": Domain(1, DOMAIN.registry)},
        {"domain": Domain(DOMAIN.chain_id, Address(b"\1" * 20))},
    ],
    ids=str,
)
def test_every_field_and_the_domain_are_signed(changes: dict[str, Any]) -> None:
    said = endorse(SERVER, DOMAIN, 3, 0, bytes(32), 5)
    other = replace(said, **changes)
    assert other.digest != said.digest
    assert other.signer != address_of(SERVER)


@pytest.mark.parametrize("size", [0, ENDORSEMENT_BYTES - 1, ENDORSEMENT_BYTES + 1])
def test_another_size_is_no_endorsement(size: int) -> None:
    with pytest.raises(EndorsementError, match=f"found an endorsement of {size} bytes, expected {ENDORSEMENT_BYTES}"):
        decode_endorsement(bytes(size), DOMAIN)


def test_what_has_no_form_is_refused() -> None:
    said = endorse(SERVER, DOMAIN, 3, 0, bytes(32), 5)
    for other in (replace(said, round=2**64), replace(said, attempt=2**32), replace(said, time_ms=-1)):
        with pytest.raises(EndorsementError, match="that has no form"):
            other.encode()


@pytest.mark.parametrize("servers", [1, 5])
def test_a_posted_call_carries_the_same_endorsements_by_address(servers: int) -> None:
    made = [endorse(account(f"server {m}"), DOMAIN, 3, 0, b"\7" * 32, m) for m in range(servers)]
    found = posted_endorsements(decode_call(encode_call("endorse", *posted_call(made))), DOMAIN)
    assert found == sorted(made, key=lambda each: each.signer)


def test_two_blocks_of_one_attempt_convict_and_nothing_else_does() -> None:
    one = endorse(SERVER, DOMAIN, 3, 0, b"\1" * 32, 5)
    assert one.contradicts(endorse(SERVER, DOMAIN, 3, 0, b"\2" * 32, 5))
    for other in (
        one,
        endorse(SERVER, DOMAIN, 3, 0, b"\1" * 32, 6),
        endorse(SERVER, DOMAIN, 4, 0, b"\2" * 32, 5),
        endorse(SERVER, DOMAIN, 3, 1, b"\2" * 32, 5),
        endorse(account("server 1"), DOMAIN, 3, 0, b"\2" * 32, 5),
    ):
        assert not one.contradicts(other)


def test_a_strict_majority_is_more_than_half() -> None:
    assert [quorum(servers) for servers in (1, 2, 3, 4, 5, 6, 7)] == [1, 2, 2, 3, 3, 4, 4]


def test_a_block_is_final_by_signatures_of_servers_under_it_alone() -> None:
    servers = [account(f"server {i}") for i in range(3)]
    members = {address_of(each) for each in servers}
    rules = genesis()
    header = replace(rules.header, block_number=2)
    two = endorsements_of(header, servers[:2], rules)
    assert check_final(header, two, members) == {address_of(each) for each in servers[:2]}
    strangers = endorsements_of(header, [account("a"), account("b")], rules)
    elsewhere = endorsements_of(replace(header, timestamp=1), servers, rules)
    for signed in (two[:1], [*two[:1], *strangers], [*two[:1], *elsewhere], []):
        assert not is_final(header, signed, members)
        with pytest.raises(EndorsementError, match=r"block 2 is signed by [01] of 3 servers, expected at least 2"):
            check_final(header, signed, members)
    assert is_final(replace(header, block_number=1), [], members), "the founding needs nobody"
    assert check_final(replace(header, block_number=1), [], members) == set()
    with pytest.raises(EndorsementError, match="an endorsement of round 1"):
        _ = replace(two[0], signature=bytes(65)).signer
