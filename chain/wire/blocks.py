"""Blocks on the wire: Ethereum's RLP of header, transactions and (no) uncles."""

from dataclasses import dataclass

import rlp
from eth_hash.auto import keccak
from rlp.exceptions import RLPException

from chain.errors import MalformedBlockError
from chain.wire.bounded import decode_rlp
from chain.wire.headers import Header
from chain.wire.receipts import Receipt
from chain.wire.transactions import Transaction, decode_transaction

EMPTY_UNCLES_HASH = keccak(rlp.encode([]))


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
    try:
        parts = decode_rlp(bytes(raw))
    except RLPException as error:
        raise MalformedBlockError(f"the block's RLP does not decode: {error}") from error
    if not isinstance(parts, list) or len(parts) != 3 or parts[2] != []:
        raise MalformedBlockError("found no block: expected header, transactions and an empty list of uncles")
    header, transactions, _ = parts
    if not _is_flat(header):
        raise MalformedBlockError("found no header in the block: expected a list of its fields")
    if not _is_flat(transactions):
        raise MalformedBlockError("found no list of EIP-1559 transactions in the block")
    return Header.from_bytes(rlp.encode(header)), tuple(decode_transaction(each) for each in transactions)


def _is_flat(part: object) -> bool:
    return isinstance(part, list) and all(isinstance(each, bytes) for each in part)
