"""Headers without py-evm, measured against py-evm's own."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
import rlp
from eth.vm.forks.london.blocks import LondonBlockHeader
from eth_hash.auto import keccak
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import MalformedBlockError
from chain.wire.headers import Header
from tests.chain.headers_made import HEADERS, NAMES, NUMBERS, PLAIN, WINNER, oracle

REPOSITORY = Path(__file__).parents[3]


def items_of(header: Header) -> list[Any]:
    return list(rlp.decode(header.to_bytes()))


def test_the_fields_have_py_evms_names_and_order() -> None:
    assert tuple(NAMES) == LondonBlockHeader._meta.field_names


def test_a_header_has_the_bytes_worked_by_hand() -> None:
    word32, zero = b"\xa0", b"\x80"
    payload = (
        word32 + b"\x01" * 32 + word32 + b"\x02" * 32 + b"\x94" + b"\x03" * 20
        + word32 + b"\x04" * 32 + word32 + b"\x05" * 32 + word32 + b"\x06" * 32
        + b"\xb9\x01\x00" + bytes(256)
        + b"\x82\x12\x34" + b"\x07" + b"\x84\x01\xc9\xc3\x80" + zero + b"\x84\x65\x53\xf1\x00"
        + b"\x94" + WINNER + word32 + bytes(32) + b"\x88" + bytes(8) + zero
    )  # fmt: skip
    expected = b"\xf9" + len(payload).to_bytes(2, "big") + payload
    assert PLAIN.to_bytes() == expected
    assert PLAIN.hash == keccak(expected)


@given(HEADERS)
def test_bytes_hash_and_mining_hash_are_py_evms(header: Header) -> None:
    theirs = oracle(header)
    assert header.to_bytes() == rlp.encode(theirs)
    assert header.hash == theirs.hash
    assert header.mining_hash == theirs.mining_hash


@given(HEADERS)
def test_a_header_survives_the_wire(header: Header) -> None:
    assert Header.from_bytes(header.to_bytes()) == header


def test_the_hash_is_computed_once_and_the_header_is_frozen() -> None:
    assert PLAIN.hash is PLAIN.hash
    assert PLAIN.mining_hash is PLAIN.mining_hash
    with pytest.raises(FrozenInstanceError):
        PLAIN.nonce = bytes(8)  # type: ignore[misc]


def test_a_seal_changes_the_hash_but_not_what_was_sealed() -> None:
    sealed = PLAIN.with_nonce(b"\xff" * 8)
    assert sealed.nonce == b"\xff" * 8
    assert sealed.mining_hash == PLAIN.mining_hash
    assert sealed.hash != PLAIN.hash


def test_every_device_mines_a_puzzle_of_its_own() -> None:
    other = PLAIN.for_winner(b"\xaa" * 20)
    assert (PLAIN.winner, other.winner) == (WINNER, b"\xaa" * 20)
    assert other.mining_hash != PLAIN.mining_hash
    assert replace(other, extra_data=WINNER) == PLAIN


@pytest.mark.parametrize("extra_data", [b"", b"x" * 19, b"x" * 21, b"x" * 32])
def test_extra_data_that_is_no_address_names_no_winner(extra_data: bytes) -> None:
    assert replace(PLAIN, extra_data=extra_data).winner is None


def test_wrong_lengths_are_refused_when_a_header_is_made() -> None:
    with pytest.raises(MalformedBlockError, match="found 19 bytes of winner, expected 20"):
        PLAIN.for_winner(b"x" * 19)
    with pytest.raises(MalformedBlockError, match="found 7 bytes of nonce, expected 8"):
        PLAIN.with_nonce(b"x" * 7)
    with pytest.raises(MalformedBlockError, match="difficulty outside"):
        replace(PLAIN, difficulty=-1)
    with pytest.raises(MalformedBlockError, match="bloom outside"):
        replace(PLAIN, bloom=2**2048)


@given(st.binary(max_size=1100))
def test_random_bytes_are_no_header(data: bytes) -> None:
    with pytest.raises(MalformedBlockError):
        Header.from_bytes(data)


@given(HEADERS, st.data())
def test_changed_bytes_are_refused_or_are_another_header_in_its_one_form(header: Header, data: st.DataObject) -> None:
    wire = bytearray(header.to_bytes())
    for at in data.draw(st.lists(st.integers(0, len(wire) - 1), min_size=1, max_size=3)):
        wire[at] = data.draw(st.integers(0, 255))
    try:
        read = Header.from_bytes(bytes(wire))
    except MalformedBlockError:
        return
    assert read.to_bytes() == bytes(wire)
    assert rlp.decode(bytes(wire), LondonBlockHeader).hash == read.hash


@given(HEADERS, st.integers(0, 600))
def test_cut_and_lengthened_headers_are_refused(header: Header, length: int) -> None:
    wire = header.to_bytes()
    for damaged in (wire[: min(length, len(wire) - 1)], wire + b"\x00", wire + wire):
        with pytest.raises(MalformedBlockError):
            Header.from_bytes(damaged)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NUMBERS and name != "extra_data"])
@pytest.mark.parametrize("change", [-1, 1, "empty"])
def test_a_field_of_another_length_is_refused(name: str, change: int | str) -> None:
    items = items_of(PLAIN)
    old = items[NAMES.index(name)]
    items[NAMES.index(name)] = b"" if isinstance(change, str) else (old + b"\x01")[: len(old) + change]
    with pytest.raises(MalformedBlockError, match=rf"bytes of {name}, expected {len(old)}"):
        Header.from_bytes(rlp.encode(items))


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("item", [b"\x00", b"\x00\x01", b"\x01" + bytes(32), [], [b"\x01"]])
def test_a_number_in_another_form_is_refused(name: str, item: bytes | list[bytes]) -> None:
    items = items_of(PLAIN)
    items[NAMES.index(name)] = item
    with pytest.raises(MalformedBlockError):
        Header.from_bytes(rlp.encode(items))


def test_headers_of_other_forks_are_refused() -> None:
    items = items_of(PLAIN)
    for other in (items[:-1], [*items, b"\x01" * 32], []):
        with pytest.raises(MalformedBlockError, match=rf"found {len(other)} fields in a header, expected 16"):
            Header.from_bytes(rlp.encode(other))


def test_the_same_header_in_longer_rlp_is_refused() -> None:
    wire = PLAIN.to_bytes()
    number = wire.index(b"\x82\x12\x34") + 3  # block number 7, one byte
    longer = wire[:number] + b"\x81" + wire[number:]
    resized = longer[:1] + (len(longer) - 3).to_bytes(2, "big") + longer[3:]
    for damaged in (resized, b"\xfa\x00" + wire[1:]):
        with pytest.raises(MalformedBlockError, match="no RLP"):
            Header.from_bytes(damaged)


@pytest.mark.parametrize("data", [b"\xd0" * 1000, b"\xf9\xff\xff" * 300, bytes(2000), b"", "text", None, bytearray(5)])
def test_hostile_and_foreign_values_are_refused_as_malformed(data: Any) -> None:
    with pytest.raises(MalformedBlockError):
        Header.from_bytes(data)


def test_headers_need_no_py_evm() -> None:
    code = "import sys; sys.modules['eth'] = None; import chain.wire.headers"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=30)
    assert shown.returncode == 0, shown.stderr
