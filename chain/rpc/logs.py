"""Logs by address and topics over a range of blocks, the pending ones included: what `eth_getLogs` finds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eth_bloom import BloomFilter

from chain.node.node import Node
from chain.node.pool import PendingCall
from chain.rpc import arguments as parsing
from chain.rpc.arguments import ArgumentError
from chain.rpc.encoding import Json, Place, log_json
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Log
from chain.wire.transactions import Transaction

MAX_LOGS = 10_000
_MAX_POSITIONS = 4
_MAX_ALTERNATIVES = 1000
_PENDING = "pending"
_HEAD = ("latest", "safe", "finalized")


@dataclass(frozen=True)
class Pattern:
    """Which logs are wanted. An empty set matches anything."""

    addresses: frozenset[bytes]
    topics: tuple[frozenset[bytes], ...]
    """The topics wanted at each position of a log."""

    def matches(self, log: Log) -> bool:
        """Whether a log is wanted; one with fewer topics than positions is not."""
        if (self.addresses and log.address not in self.addresses) or len(self.topics) > len(log.topics):
            return False
        pairs = zip(self.topics, log.topics, strict=False)
        return all(not wanted or topic in wanted for wanted, topic in pairs)

    def may_be_in(self, header: Header) -> bool:
        """The header's bloom filter says no for sure, or maybe."""
        return all(not masks or any(mask & header.bloom == mask for mask in masks) for masks in self._masks)

    @cached_property
    def _masks(self) -> list[list[int]]:
        """The bits of each alternative, hashed once for all blocks: a filter may have 5000 of them (Q6)."""
        return [[int(BloomFilter.from_iterable([each])) for each in of] for of in (self.addresses, *self.topics)]


def read_pattern(wanted: Json) -> Pattern:
    """Which logs a JSON filter asks for: its address and topics, not its range of blocks."""
    addresses = frozenset(parsing.address(each) for each in _alternatives(wanted.get("address"), "address"))
    positions = [] if wanted.get("topics") is None else parsing.bounded_list(wanted["topics"], "topics", _MAX_POSITIONS)
    topics = [{parsing.hash32(each, "topic") for each in _alternatives(position, "topics")} for position in positions]
    return Pattern(addresses, tuple(map(frozenset, topics)))


def _alternatives(wanted: Any, name: str) -> list[Any]:
    if wanted is None:
        return []
    return parsing.bounded_list(wanted if isinstance(wanted, list) else [wanted], name, _MAX_ALTERNATIVES)


def find_logs(node: Node, criteria: Any) -> list[Json]:
    """The logs a filter describes, oldest first.

    What is pending is looked at before the sealed blocks: a block sealed meanwhile moves logs from there to here, so
    that none is missed; those of that block are then told once, as sealed.
    """
    wanted = parsing.mapping(criteria, "filter")
    pattern = read_pattern(wanted)
    head = node.head
    pending = node.pending() if _includes_pending(wanted, head.block_number) else ()
    found: list[Json] = []
    sealed: set[bytes] = set()
    for block in _blocks(node, wanted, pattern):
        sealed |= {transaction.hash for transaction in block.transactions} if pending else set()
        found += _sealed_logs(block, pattern)
        _check_few(found)
    left = [entry for entry in pending if entry.post.transaction.hash not in sealed]
    found += _pending_logs(left, pattern, head)
    _check_few(found)
    return found


def _check_few(found: Sequence[Json]) -> None:
    if len(found) > MAX_LOGS:
        raise ArgumentError(f"filter: found more than {MAX_LOGS} logs, expected fewer; ask for fewer blocks")


def _includes_pending(wanted: Json, head: int) -> bool:
    """Whether the block to come, number head + 1, is in the range."""
    first, last = wanted.get("fromBlock"), wanted.get("toBlock")
    if first == _PENDING:
        return last is None or last == _PENDING
    return bool(last == _PENDING) and _number(first, head) <= head + 1


def _blocks(node: Node, wanted: Json, pattern: Pattern) -> Iterator[Block]:
    for header in _headers(node, wanted):
        block = node.block(header.hash) if pattern.may_be_in(header) else None
        if block is not None:
            yield block


def _headers(node: Node, wanted: Json) -> Iterable[Header]:
    if wanted.get("blockHash") is not None:
        return [_header_of_hash(node, wanted)]
    if wanted.get("fromBlock") == _PENDING:
        return []
    head = node.head.block_number
    first, last = _number(wanted.get("fromBlock"), head), _number(wanted.get("toBlock"), head)
    headers = (node.header(number) for number in range(first, min(last, head) + 1))
    return (header for header in headers if header is not None)


def _header_of_hash(node: Node, wanted: Json) -> Header:
    """The one block of a filter by hash; an unknown one is an error and not "no logs" (EIP-234)."""
    if wanted.get("fromBlock") is not None or wanted.get("toBlock") is not None:
        raise ArgumentError("filter: found blockHash beside fromBlock or toBlock, expected one or the other")
    header = node.header(parsing.hash32(wanted["blockHash"], "blockHash"))
    if header is None:
        raise ArgumentError(f"filter: block {wanted['blockHash']} was not found")
    return header


def _number(which: Any, head: int) -> int:
    if which is None or which == _PENDING or which in _HEAD:
        return head
    return 0 if which == "earliest" else parsing.number(which, "block")


def _sealed_logs(block: Block, pattern: Pattern) -> list[Json]:
    receipts = zip(block.transactions, block.receipts, strict=True)
    said = [(transaction, receipt.logs) for transaction, receipt in receipts]
    return _logs(said, pattern, block.header)


def _pending_logs(entries: Iterable[PendingCall], pattern: Pattern, head: Header) -> list[Json]:
    said = [(entry.post.transaction, entry.outcome.logs) for entry in entries]
    return _logs(said, pattern, head, is_pending=True)


def _logs(
    said: Iterable[tuple[Transaction, Sequence[Log]]], pattern: Pattern, header: Header, is_pending: bool = False
) -> list[Json]:
    found, number = [], 0
    for index, (transaction, logs) in enumerate(said):
        for log in logs:
            if pattern.matches(log):
                found.append(log_json(log, transaction, Place(header, index), number, is_pending))
            number += 1
    return found
