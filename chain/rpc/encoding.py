"""Blocks, transactions, receipts and logs as JSON-RPC answers, in Ethereum's words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chain.node.pool import PendingCall
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Log, Receipt
from chain.wire.transactions import Transaction

Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """The block and the position in it of a sealed transaction."""

    header: Header
    index: int


def hex_number(value: int) -> str:
    """A number as JSON-RPC writes it: hex without leading zeros, such as 0x1f."""
    return hex(value)


def hex_bytes(value: bytes) -> str:
    """Bytes as JSON-RPC writes them: two hex digits each, such as 0x00ff."""
    return "0x" + value.hex()


def header_json(header: Header) -> Json:
    """A header under Ethereum's names for its fields."""
    return {
        "number": hex_number(header.block_number),
        "hash": hex_bytes(header.hash),
        "parentHash": hex_bytes(header.parent_hash),
        "nonce": hex_bytes(header.nonce),
        "mixHash": hex_bytes(header.mix_hash),
        "sha3Uncles": hex_bytes(header.uncles_hash),
        "logsBloom": hex_bytes(header.bloom.to_bytes(256, "big")),
        "transactionsRoot": hex_bytes(header.transaction_root),
        "stateRoot": hex_bytes(header.state_root),
        "receiptsRoot": hex_bytes(header.receipt_root),
        "miner": hex_bytes(header.coinbase),
        "difficulty": hex_number(header.difficulty),
        "extraData": hex_bytes(header.extra_data),
        "gasLimit": hex_number(header.gas_limit),
        "gasUsed": hex_number(header.gas_used),
        "timestamp": hex_number(header.timestamp),
        "baseFeePerGas": hex_number(header.base_fee_per_gas),
    }


def block_json(block: Block, raw: bytes, full: bool) -> Json:
    """A sealed block, with its transactions or their hashes."""
    listed: list[Any] = [
        transaction_json(transaction, Place(block.header, index)) if full else hex_bytes(transaction.hash)
        for index, transaction in enumerate(block.transactions)
    ]
    return header_json(block.header) | {
        "totalDifficulty": hex_number(block.total_difficulty),
        "size": hex_number(len(raw)),
        "transactions": listed,
        "uncles": [],
    }


def pending_block_json(head: Header, total_difficulty: int, entries: Sequence[PendingCall], full: bool) -> Json:
    """What would follow `head`: nobody has built it, so whatever its builder decides is null."""
    undecided = ("hash", "nonce", "mixHash", "miner", "logsBloom", "stateRoot", "transactionsRoot", "receiptsRoot")
    pending = [entry.post.transaction for entry in entries]
    return header_json(head) | {
        **dict.fromkeys(undecided),
        "number": hex_number(head.block_number + 1),
        "parentHash": hex_bytes(head.hash),
        "extraData": "0x",
        "gasUsed": hex_number(sum(entry.outcome.gas for entry in entries)),
        "totalDifficulty": hex_number(total_difficulty),
        "size": hex_number(sum(len(transaction.raw) for transaction in pending)),
        "transactions": [transaction_json(each, None) if full else hex_bytes(each.hash) for each in pending],
        "uncles": [],
    }


def transaction_json(transaction: Transaction, place: Place | None) -> Json:
    """A transaction; pending where it has no place."""
    return {
        "type": "0x2",
        "hash": hex_bytes(transaction.hash),
        "chainId": hex_number(transaction.chain_id),
        "nonce": hex_number(transaction.nonce),
        "from": hex_bytes(transaction.sender),
        "to": hex_bytes(transaction.to) if transaction.to else None,
        "value": hex_number(transaction.value),
        "gas": hex_number(transaction.gas),
        "maxFeePerGas": hex_number(transaction.max_fee),
        "maxPriorityFeePerGas": hex_number(transaction.max_priority_fee),
        "gasPrice": "0x0",
        "input": hex_bytes(transaction.data),
        "accessList": [],
        "v": hex_number(transaction.parity),
        "yParity": hex_number(transaction.parity),
        "r": hex_number(transaction.r),
        "s": hex_number(transaction.s),
        "blockHash": hex_bytes(place.header.hash) if place else None,
        "blockNumber": hex_number(place.header.block_number) if place else None,
        "transactionIndex": hex_number(place.index) if place else None,
    }


def receipt_json(block: Block, index: int, created: bytes | None) -> Json:
    """The receipt of transaction `index`; `created` is the registry's address where it is the creation."""
    transaction, receipt = block.transactions[index], block.receipts[index]
    before = block.receipts[index - 1].gas_used if index else 0
    return {
        "type": "0x2",
        "transactionHash": hex_bytes(transaction.hash),
        "transactionIndex": hex_number(index),
        "blockHash": hex_bytes(block.header.hash),
        "blockNumber": hex_number(block.header.block_number),
        "from": hex_bytes(transaction.sender),
        "to": hex_bytes(transaction.to) if transaction.to else None,
        "contractAddress": hex_bytes(created) if created and receipt.status else None,
        "cumulativeGasUsed": hex_number(receipt.gas_used),
        "gasUsed": hex_number(receipt.gas_used - before),
        "effectiveGasPrice": "0x0",
        "status": hex_number(receipt.status),
        "logsBloom": hex_bytes(receipt.bloom.to_bytes(256, "big")),
        "logs": logs_json(block.receipts, index, transaction, block.header),
    }


def logs_json(receipts: Sequence[Receipt], index: int, transaction: Transaction, header: Header) -> list[Json]:
    """The logs of transaction `index`, numbered within the block."""
    first = sum(len(receipt.logs) for receipt in receipts[:index])
    place = Place(header, index)
    return [log_json(log, transaction, place, first + i) for i, log in enumerate(receipts[index].logs)]


def log_json(log: Log, transaction: Transaction, place: Place, log_index: int, is_pending: bool = False) -> Json:
    """One log. A pending one stands in the block after `place.header`, in the order of arrival, without a block hash:
    web3 sorts events by these numbers.
    """
    return {
        "address": hex_bytes(log.address),
        "topics": [hex_bytes(topic) for topic in log.topics],
        "data": hex_bytes(log.data),
        "transactionHash": hex_bytes(transaction.hash),
        "transactionIndex": hex_number(place.index),
        "logIndex": hex_number(log_index),
        "blockHash": None if is_pending else hex_bytes(place.header.hash),
        "blockNumber": hex_number(place.header.block_number + is_pending),
        "removed": False,
    }
