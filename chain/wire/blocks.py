"""Blocks on the wire: Ethereum's RLP of header, transactions and (no) uncles."""

from dataclasses import dataclass

import rlp
from eth_hash.auto import keccak
from rlp.exceptions import RLPException

from chain.errors import MalformedBlockError
from chain.wire.headers import Header
from chain.wire.lists import decode_list, split_list
from chain.wire.receipts import Receipt
from chain.wire.seal import check_seal
from chain.wire.transactions import Transaction, decode_transaction

EMPTY_UNCLES_HASH = keccak(rlp.encode([]))
MAX_BLOCK_BYTES = 32 << 20
MAX_BLOCK_TRANSACTIONS = 4096
"""As many as a pool holds"""
_NO_UNCLES = b"\xc0"
_PARTS, _MOST_FIELDS = 3, 32
_EXPECTED = "expected header, transactions and an empty list of uncles"


@dataclass(frozen=True)
class Block:
    """A block with its receipts."""

    header: Header
    transactions: tuple[Transaction, ...]
    receipts: tuple[Receipt, ...]
    total_difficulty: int


def encode_block(header: Header, transactions: tuple[Transaction, ...]) -> bytes:
    """A block as nodes send it to each other."""
    raw = [transaction.raw for transaction in transactions]
    return bytes(rlp.encode([rlp.decode(header.to_bytes()), raw, []], infer_serializer=False))


def decode_block(raw: bytes) -> tuple[Header, tuple[Transaction, ...]]:
    """Header and transactions; `MalformedBlockError`, or what is wrong with a transaction."""
    header, body = open_block(raw)
    return header, decode_transactions(body)


def open_sealed_block(raw: bytes) -> tuple[Header, bytes]:
    """As `open_block`, its seal checked too (C5): what a visitor must have worked for before a node listens (Q6)."""
    header, body = open_block(raw)
    if header.block_number > 0:  # nobody seals a genesis
        check_seal(header.mining_hash, header.nonce, header.difficulty)
    return header, body


def open_block(raw: bytes) -> tuple[Header, bytes]:
    """Header and the transactions, still encoded: of no transaction more than the place is looked at."""
    if len(raw) > MAX_BLOCK_BYTES:
        raise MalformedBlockError(f"found {len(raw)} bytes of block, expected at most {MAX_BLOCK_BYTES}")
    try:
        parts = split_list(bytes(raw), _PARTS + 1)
    except RLPException as error:
        raise MalformedBlockError(f"the block's RLP does not decode: {error}; {_EXPECTED}") from error
    if len(parts) != _PARTS or parts[2] != _NO_UNCLES:
        raise MalformedBlockError(f"found no block; {_EXPECTED}")
    try:
        decode_list(parts[0], _MOST_FIELDS)
    except RLPException as error:
        raise MalformedBlockError("found no header in the block: expected a list of its fields") from error
    return Header.from_bytes(parts[0]), parts[1]


def decode_transactions(body: bytes) -> tuple[Transaction, ...]:
    """The transactions of a block, from `open_block`."""
    try:
        raw = decode_list(body, MAX_BLOCK_TRANSACTIONS)
    except RLPException as error:
        raise MalformedBlockError(f"found no list of EIP-1559 transactions in the block: {error}") from error
    return tuple(decode_transaction(each) for each in raw)
