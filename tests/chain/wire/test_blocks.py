"""Blocks on the wire: py-evm reads ours, we read our own, and nothing else is a block."""

import contextlib
from typing import Any

import pytest
import rlp
from eth.vm.forks.london.blocks import LondonBlock
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import MalformedBlockError, MalformedTransactionError
from chain.wire.blocks import decode_block, encode_block
from chain.wire.headers import Header
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.headers_made import HEADERS, PLAIN
from tests.chain.headers_made import oracle as py_evm_header
from tests.chain.network import Network, account, founded_node

ALICE = account("alice")
ENVELOPE = Envelope(chain_id=1, nonce=5, gas=21_000, to=b"\x11" * 20)
TRANSACTIONS = tuple(decode_transaction(sign_transaction(ALICE, ENVELOPE, bytes(size))) for size in (0, 1, 1000))
WIRE = encode_block(PLAIN, TRANSACTIONS)


def test_py_evm_reads_the_same_block() -> None:
    theirs = rlp.decode(WIRE, LondonBlock)
    assert theirs.header == py_evm_header(PLAIN)
    assert [each.encode() for each in theirs.transactions] == [each.raw for each in TRANSACTIONS]
    assert theirs.uncles == ()


@given(HEADERS)
def test_a_block_survives_the_wire(header: Header) -> None:
    for transactions in ((), TRANSACTIONS):
        assert decode_block(encode_block(header, transactions)) == (header, transactions)


def test_a_real_block_survives_the_wire() -> None:
    network = Network()
    node = founded_node(network)
    header = network.run_round(node)
    raw, block = node.raw_block(2), node.block(2)
    assert raw is not None
    assert block is not None
    assert decode_block(raw) == (header, block.transactions)


@given(st.data())
def test_a_changed_byte_is_refused_or_changes_the_block(data: st.DataObject) -> None:
    wire = bytearray(WIRE)
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedBlockError, MalformedTransactionError):
        found = decode_block(bytes(wire))
        assert found != (PLAIN, TRANSACTIONS)
        assert encode_block(*found) == bytes(wire)


@given(st.integers(0, len(WIRE) - 1))
def test_a_block_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(MalformedBlockError, match="RLP does not decode"):
        decode_block(WIRE[:length])


@given(st.binary(max_size=200))
def test_random_bytes_are_no_block(raw: bytes) -> None:
    with pytest.raises(MalformedBlockError):
        decode_block(raw)


def test_parts_that_are_missing_or_too_many_are_refused() -> None:
    header, transactions = rlp.decode(PLAIN.to_bytes()), [each.raw for each in TRANSACTIONS]
    for parts in (
        [],
        [header],
        [header, transactions],
        [header, transactions, [], []],
        [header, transactions, [header]],
    ):
        with pytest.raises(MalformedBlockError, match="expected header, transactions and an empty list of uncles"):
            decode_block(rlp.encode(parts))
    strange: Any
    for strange in (b"", [[]], [[b"x"]]):
        with pytest.raises(MalformedBlockError, match="found no list of EIP-1559 transactions"):
            decode_block(rlp.encode([header, strange, []]))
    for strange in (b"", [*header[:-1], []]):
        with pytest.raises(MalformedBlockError, match="found no header"):
            decode_block(rlp.encode([strange, transactions, []]))
    with pytest.raises(MalformedBlockError, match="found 15 fields in a header, expected 16"):
        decode_block(rlp.encode([header[:-1], transactions, []]))
    with pytest.raises(MalformedTransactionError, match="expected 0x02"):
        decode_block(rlp.encode([header, [b"x"], []]))
