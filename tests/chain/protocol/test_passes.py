"""Passes (D3.2): what is signed, how it travels, and what convicts its signer."""

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.client.keys import address_of
from chain.errors import EndorsementError, PassError
from chain.protocol.contract import decode_call, encode_call
from chain.protocol.endorsements import ENDORSEMENT_BYTES, Domain, endorse
from chain.protocol.passes import (
    PASS_BYTES,
    Named,
    Pass,
    begun_by,
    begun_call,
    decode_pass,
    decode_signed,
    sign_pass,
)
from chain.wire.address import Address
from tests.chain.network import account, genesis

SERVER, OTHER, DOMAIN = account("server 0"), account("server 1"), Domain.of(genesis())
X, Y = b"\1" * 32, b"\2" * 32
UINTS, HASHES = st.integers(0, 2**64 - 1), st.binary(min_size=32, max_size=32).filter(any)
DOMAINS = st.builds(Domain, UINTS, st.binary(min_size=20, max_size=20).map(Address))


@st.composite
def places(draw: st.DrawFn) -> tuple[int, Named | None]:
    """An attempt that is passed to, and what is named."""
    attempt = draw(st.integers(1, 2**32 - 1))
    return attempt, draw(st.none() | st.builds(Named, st.integers(0, attempt - 1), HASHES))


def typed_data(said: Pass) -> dict[str, Any]:
    """The same as wallets of others know it: 0 for nothing, b + 1 for a block of attempt b."""
    word, chain, registry = "uint256", said.domain.chain_id, said.domain.registry
    endorsed, block = (0, bytes(32)) if said.named is None else (said.named.attempt + 1, said.named.block_hash)
    fields = {"round": said.round, "attempt": said.attempt, "endorsed": endorsed, "block": block, "time": said.time_ms}
    return {
        "types": {
            "EIP712Domain": [{"name": "chainId", "type": word}, {"name": "verifyingContract", "type": "address"}],
            "Pass": [{"name": name, "type": "bytes32" if name == "block" else word} for name in fields],
        },
        "primaryType": "Pass",
        "domain": {"chainId": chain, "verifyingContract": "0x" + registry.hex()},
        "message": fields,
    }


@settings(deadline=None, max_examples=50)
@given(UINTS, places(), UINTS, DOMAINS)
def test_digest_and_signature_are_those_of_eth_account(
    round_: int, place: tuple[int, Named | None], time_ms: int, domain: Domain
) -> None:
    made = sign_pass(SERVER, domain, round_, *place, time_ms)
    oracle = Account.sign_message(encode_typed_data(full_message=typed_data(made)), SERVER.key)
    assert made.digest == bytes(oracle.message_hash)
    assert made.signature == oracle.signature[:64] + bytes([oracle.v - 27])
    assert made.signer == address_of(SERVER)


@settings(deadline=None, max_examples=50)
@given(UINTS, places(), UINTS, DOMAINS, st.binary(min_size=65, max_size=65))
def test_every_field_is_read_back(
    round_: int, place: tuple[int, Named | None], ms: int, domain: Domain, by: bytes
) -> None:
    said = Pass(round_, *place, ms, domain, by)
    assert len(said.encode()) == PASS_BYTES
    assert decode_pass(said.encode(), domain) == decode_signed(said.encode(), domain) == said


def test_an_endorsement_and_a_pass_are_told_by_their_sizes() -> None:
    endorsed, passed = endorse(SERVER, DOMAIN, 3, 0, X, 5), sign_pass(SERVER, DOMAIN, 3, 1, Named(0, X), 5)
    assert decode_signed(endorsed.encode(), DOMAIN) == endorsed
    assert decode_signed(passed.encode(), DOMAIN) == passed
    assert PASS_BYTES != ENDORSEMENT_BYTES
    with pytest.raises(EndorsementError, match="found an endorsement of 3 bytes"):
        decode_signed(b"abc", DOMAIN)


@pytest.mark.parametrize(
    "changes",
    [
        {"round": 4},
        {"attempt": 3},
        {"named": None},
        {"named": Named(0, X)},
        {"named": Named(1, Y)},
        {"time_ms": 6},
        {"domain": Domain(1, DOMAIN.registry)},
        {"domain": Domain(DOMAIN.chain_id, Address(b"\1" * 20))},
    ],
    ids=str,
)
def test_every_field_and_the_domain_are_signed(changes: dict[str, Any]) -> None:
    said = sign_pass(SERVER, DOMAIN, 3, 2, Named(1, X), 5)
    other = replace(said, **changes)
    assert other.digest != said.digest
    assert other.signer != address_of(SERVER)


@pytest.mark.parametrize("size", [0, PASS_BYTES - 1, PASS_BYTES + 1])
def test_another_size_is_no_pass(size: int) -> None:
    with pytest.raises(PassError, match=f"found a pass of {size} bytes, expected {PASS_BYTES}"):
        decode_pass(bytes(size), DOMAIN)


def test_a_pass_is_to_a_later_attempt_than_it_names_and_names_a_block_or_nothing() -> None:
    def raw(attempt: int, endorsed: int, block: bytes) -> bytes:
        numbers = (3).to_bytes(8, "big") + attempt.to_bytes(4, "big") + endorsed.to_bytes(4, "big")
        return numbers + block + bytes(8) + bytes(65)

    assert decode_pass(raw(1, 1, X), DOMAIN).named == Named(0, X)
    assert decode_pass(raw(1, 0, bytes(32)), DOMAIN).named is None
    for attempt, endorsed, block in ((0, 0, bytes(32)), (1, 2, X), (1, 0, X), (1, 1, bytes(32)), (0, 1, X)):
        with pytest.raises(PassError, match=f"a pass to attempt {attempt} that names attempt {endorsed - 1}"):
            decode_pass(raw(attempt, endorsed, block), DOMAIN)


def test_what_has_no_form_is_refused() -> None:
    said = sign_pass(SERVER, DOMAIN, 3, 2, Named(1, X), 5)
    for other in (
        replace(said, round=2**64),
        replace(said, attempt=2**32),
        replace(said, named=Named(2**32 - 1, X)),
        replace(said, time_ms=-1),
    ):
        with pytest.raises(PassError, match="that has no form"):
            other.encode()


@pytest.mark.parametrize("signature", [b"", bytes(65), b"\xff" * 65, bytes(64) + b"\x1b"])
def test_a_signature_of_nobody_is_an_error_that_names_the_round(signature: bytes) -> None:
    with pytest.raises(PassError, match="a pass of round 3: "):
        _ = replace(sign_pass(SERVER, DOMAIN, 3, 1, None, 5), signature=signature).signer


def test_two_passes_to_one_attempt_convict_if_they_name_different_things() -> None:
    one = sign_pass(SERVER, DOMAIN, 3, 2, Named(1, X), 5)
    for named in (None, Named(0, X), Named(1, Y)):
        assert one.contradicts(sign_pass(SERVER, DOMAIN, 3, 2, named, 5))
    for other in (
        one,
        sign_pass(SERVER, DOMAIN, 3, 2, Named(1, X), 6),
        sign_pass(SERVER, DOMAIN, 4, 2, None, 5),
        sign_pass(SERVER, DOMAIN, 3, 3, None, 5),
        sign_pass(OTHER, DOMAIN, 3, 2, None, 5),
    ):
        assert not one.contradicts(other)


def test_a_pass_hides_what_its_signer_endorsed_below_it_and_it_does_not_name() -> None:
    endorsed = endorse(SERVER, DOMAIN, 3, 1, X, 5)
    for attempt, named in ((2, None), (9, None), (2, Named(0, X)), (2, Named(1, Y))):
        assert sign_pass(SERVER, DOMAIN, 3, attempt, named, 5).hides(endorsed)
    for other in (
        sign_pass(SERVER, DOMAIN, 3, 2, Named(1, X), 5),
        sign_pass(SERVER, DOMAIN, 3, 4, Named(2, Y), 5),
        sign_pass(SERVER, DOMAIN, 3, 1, None, 5),
        sign_pass(SERVER, DOMAIN, 4, 2, None, 5),
        sign_pass(OTHER, DOMAIN, 3, 2, None, 5),
    ):
        assert not other.hides(endorsed)


@pytest.mark.parametrize("servers", [1, 5, 64])
def test_a_certificate_carries_the_same_passes_by_address(servers: int) -> None:
    made = [sign_pass(account(f"server {m}"), DOMAIN, 3, 2, None, m) for m in range(servers)]
    found = begun_by(decode_call(encode_call("begin_attempt", *begun_call(made))), DOMAIN)
    assert found == sorted(made, key=lambda each: each.signer)
