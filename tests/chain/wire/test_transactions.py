"""EIP-1559 transactions: golden bytes, eth-account and py-evm as oracles, and everything that is refused."""

import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rlp
from eth.vm.forks.london.transactions import DynamicFeeTransaction
from eth_account import Account
from eth_hash.auto import keccak
from eth_utils import int_to_big_endian
from hypothesis import given
from hypothesis import strategies as st

from chain.client.keys import address_of
from chain.errors import MalformedTransactionError, SignatureError
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.network import account

REPOSITORY = Path(__file__).parents[3]
ALICE = account("alice")
ENVELOPE = Envelope(chain_id=1, nonce=5, gas=21_000, to=b"\x11" * 20)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

envelopes = st.builds(
    Envelope,
    chain_id=st.integers(1, 2**63),
    nonce=st.integers(0, 2**64 - 2),
    gas=st.integers(21_000, 2**60),
    to=st.one_of(st.just(b""), st.binary(min_size=20, max_size=20)),
    max_fee=st.integers(0, 2**100),
    max_priority_fee=st.integers(0, 2**100),
)


def fields_of(raw: bytes) -> list[Any]:
    return list(rlp.decode(raw[1:]))


def encoded(fields: list[Any]) -> bytes:
    return b"\x02" + bytes(rlp.encode(fields))


def test_the_signed_bytes_are_those_worked_by_hand() -> None:
    """Key 1, whose address everybody knows; RLP of the nine unsigned fields written out."""
    key_one = Account.from_key((1).to_bytes(32, "big"))
    found = decode_transaction(sign_transaction(key_one, ENVELOPE, b"\xde\xad"))
    payload = (
        b"\x01" + b"\x05" + b"\x80" + b"\x80" + b"\x82\x52\x08" + b"\x94" + b"\x11" * 20 + b"\x80" + b"\x82\xde\xad"
    )
    assert found.unsigned == b"\x02" + bytes([0xC0 + len(payload) + 1]) + payload + b"\xc0"
    assert found.sender.hex() == "7e5f4552091a69125d5dfcb7b8c2659029395bdf"


@given(envelopes, st.binary(max_size=200))
def test_what_is_signed_is_read_back(envelope: Envelope, data: bytes) -> None:
    found = decode_transaction(sign_transaction(ALICE, envelope, data))
    read = Envelope(found.chain_id, found.nonce, found.gas, found.to, found.max_fee, found.max_priority_fee)
    assert (read, found.data, found.value) == (envelope, data, 0)
    assert found.sender == address_of(ALICE)


@given(envelopes, st.binary(max_size=200))
def test_hash_signed_message_and_sender_are_py_evms(envelope: Envelope, data: bytes) -> None:
    raw = sign_transaction(ALICE, envelope, data)
    found, theirs = decode_transaction(raw), rlp.decode(raw[1:], DynamicFeeTransaction)
    assert found.hash == keccak(raw)
    assert found.unsigned == theirs.get_message_for_signing()
    assert found.sender == theirs.sender
    assert Account.recover_transaction(raw) == ALICE.address


def test_the_signature_is_what_the_registry_recovers() -> None:
    found = decode_transaction(sign_transaction(ALICE, ENVELOPE, b""))
    assert len(found.signature) == 65
    assert Account._recover_hash(keccak(found.unsigned), signature=found.signature) == ALICE.address


def test_the_next_envelope_has_the_next_nonce() -> None:
    assert ENVELOPE.next() == replace(ENVELOPE, nonce=6)


def test_equal_transactions_are_one_in_a_set() -> None:
    raw = sign_transaction(ALICE, ENVELOPE, b"x")
    assert len({decode_transaction(raw), decode_transaction(raw)}) == 1


@given(st.binary(max_size=300))
def test_random_bytes_are_no_transaction(data: bytes) -> None:
    for raw in (data, b"\x02" + data):
        with pytest.raises(MalformedTransactionError):
            decode_transaction(raw)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_changed_bytes_are_refused_or_somebody_elses_or_another_transaction(
    payload: bytes, data: st.DataObject
) -> None:
    honest = sign_transaction(ALICE, ENVELOPE, payload)
    raw = bytearray(honest)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedTransactionError, SignatureError):
        found = decode_transaction(bytes(raw))
        assert found.raw == bytes(raw) == encoded(fields_of(found.raw))
        assert found.sender != address_of(ALICE)


@given(st.integers(0, 200))
def test_cut_and_lengthened_transactions_are_refused(length: int) -> None:
    raw = sign_transaction(ALICE, ENVELOPE, b"payload")
    for damaged in (raw[: min(length, len(raw) - 1)], raw + b"\x00", raw + raw):
        with pytest.raises(MalformedTransactionError):
            decode_transaction(damaged)


@pytest.mark.parametrize("position", [0, 1, 2, 3, 4, 6, 9, 10, 11])
@pytest.mark.parametrize("item", [b"\x00", b"\x00\x01", b"\x01" * 33, [], [b"\x01"]])
def test_a_number_in_another_form_is_refused(position: int, item: Any) -> None:
    fields = fields_of(sign_transaction(ALICE, ENVELOPE, b""))
    fields[position] = item
    with pytest.raises(MalformedTransactionError, match="expected"):
        decode_transaction(encoded(fields))


@pytest.mark.parametrize("receiver", [b"x" * 19, b"x" * 21, b"x" * 32])
def test_a_receiver_of_another_length_is_refused(receiver: bytes) -> None:
    fields = fields_of(sign_transaction(ALICE, ENVELOPE, b""))
    fields[5] = receiver
    with pytest.raises(
        MalformedTransactionError, match=f"found a receiver of {len(receiver)} bytes, expected 20 or none"
    ):
        decode_transaction(encoded(fields))


def test_a_transaction_in_longer_rlp_is_refused() -> None:
    """One transaction has one form, so its hash names exactly one."""
    raw = sign_transaction(ALICE, ENVELOPE, b"")
    with pytest.raises(MalformedTransactionError, match="RLP does not decode"):
        decode_transaction(raw[:1] + b"\xf9\x00" + raw[2:])


@pytest.mark.parametrize("kind", ["legacy", "access list"])
def test_transactions_of_other_types_are_refused(kind: str) -> None:
    fields: dict[str, Any] = {"nonce": 0, "gas": 21_000, "gasPrice": 0, "to": b"\x11" * 20, "value": 0, "chainId": 1}
    more: dict[str, Any] = {"type": 1, "accessList": []} if kind == "access list" else {}
    raw = bytes(ALICE.sign_transaction(fields | more).raw_transaction)
    with pytest.raises(MalformedTransactionError, match=r"found transaction type 0x.., expected 0x02 \(EIP-1559\)"):
        decode_transaction(raw)


def test_an_access_list_is_refused() -> None:
    fields = fields_of(sign_transaction(ALICE, ENVELOPE, b""))
    for other in ([[b"\x01" * 20, []]], b"", b"x"):
        fields[8] = other
        with pytest.raises(MalformedTransactionError):
            decode_transaction(encoded(fields))


def changed(transaction: Transaction, **numbers: int) -> Transaction:
    fields = fields_of(transaction.raw)
    for name, value in numbers.items():
        fields[{"parity": 9, "r": 10, "s": 11}[name]] = int_to_big_endian(value) if value else b""
    return decode_transaction(encoded(fields))


@pytest.mark.parametrize(
    "numbers",
    [{"s": 0}, {"r": 0}, {"r": ORDER}, {"s": ORDER // 2 + 1}, {"s": 2**256 - 1}, {"parity": 2}, {"parity": 27}],
)
def test_numbers_that_are_no_signature_belong_to_nobody(numbers: dict[str, int]) -> None:
    honest = decode_transaction(sign_transaction(ALICE, ENVELOPE, b""))
    with pytest.raises(SignatureError, match="out of range"):
        _ = changed(honest, **numbers).sender


def test_the_mirrored_signature_is_refused_although_it_is_alices() -> None:
    honest = decode_transaction(sign_transaction(ALICE, ENVELOPE, b""))
    with pytest.raises(SignatureError, match="low s"):
        _ = changed(honest, s=ORDER - honest.s, parity=1 - honest.parity).sender


def test_an_r_that_is_no_point_belongs_to_no_key() -> None:
    """x = 5 is on no point of secp256k1: 5^3 + 7 = 132 is no square."""
    honest = decode_transaction(sign_transaction(ALICE, ENVELOPE, b""))
    with pytest.raises(SignatureError, match="belongs to no key"):
        _ = changed(honest, r=5).sender


@given(st.integers(1, ORDER - 1), st.integers(1, ORDER // 2), st.integers(0, 1))
def test_any_signature_has_a_sender_or_is_refused(r: int, s: int, parity: int) -> None:
    honest = decode_transaction(sign_transaction(ALICE, ENVELOPE, b""))
    with contextlib.suppress(SignatureError):
        assert len(changed(honest, r=r, s=s, parity=parity).sender) == 20


def test_importing_eth_account_leaves_the_stack_guarded() -> None:
    """Its dependencies raise the recursion limit to 100,000; then brackets in a request overflow the C stack."""
    code = "import sys; import chain.wire.transactions, json; json.loads('[' * 99_000)"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 1
    assert "RecursionError" in shown.stderr


def test_transactions_need_neither_py_evm_nor_web3() -> None:
    code = "import sys; sys.modules['eth'] = sys.modules['web3'] = None; import chain.wire.transactions"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
