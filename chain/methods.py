"""The JSON-RPC methods of a node: what web3 needs, what tools ask for, and work for miners."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chain import parsing
from chain.answers import (
    Json,
    Place,
    block_json,
    header_json,
    hex_bytes,
    hex_number,
    log_json,
    receipt_json,
    transaction_json,
)
from chain.blocks import encode_block
from chain.headers import Header
from chain.node import Node
from chain.parsing import ParameterError
from chain.proof import proof_of
from chain.store import Block
from chain.vm import Execution, StateView

MAX_LOGS = 10_000
PENDING = "pending"


class Methods:
    """Each public method is `eth_...`, `net_...`, `web3_...` or `bfl_...`; parameters come as JSON."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def table(self) -> dict[str, Callable[..., Any]]:
        """Methods by their JSON-RPC name."""
        prefixes = ("eth_", "net_", "web3_", "bfl_")
        return {name: getattr(self, name) for name in dir(self) if name.startswith(prefixes)}

    # --- the network

    def eth_chainId(self) -> str:  # noqa: N802
        return hex_number(self._node.genesis.chain_id)

    def net_version(self) -> str:
        return str(self._node.genesis.chain_id)

    def web3_clientVersion(self) -> str:  # noqa: N802
        try:
            return f"bfl/{version('bfl')}"
        except PackageNotFoundError:
            return "bfl"

    def eth_syncing(self) -> bool:
        return False

    def eth_accounts(self) -> list[str]:
        return []  # keys stay with their owners

    def eth_gasPrice(self) -> str:  # noqa: N802
        return "0x0"

    def eth_maxPriorityFeePerGas(self) -> str:  # noqa: N802
        return "0x0"

    def eth_feeHistory(self, count: Any, newest: Any, _percentiles: Any = None) -> Json:  # noqa: N802
        header = self._header(newest) or self._node.head
        blocks = min(parsing.number(count, "block count"), header.block_number + 1, 1024)
        return {
            "oldestBlock": hex_number(header.block_number + 1 - blocks),
            "baseFeePerGas": ["0x0"] * (blocks + 1),
            "gasUsedRatio": [0.0] * blocks,
            "reward": [["0x0"] * len(_percentiles or [])] * blocks,
        }

    def bfl_genesis(self) -> str:
        """The genesis as canonical JSON."""
        return self._node.genesis.canonical_json()

    # --- blocks

    def eth_blockNumber(self) -> str:  # noqa: N802
        return hex_number(self._node.head.block_number)

    def eth_getBlockByNumber(self, which: Any, full: Any = False) -> Json | None:  # noqa: N802
        if which == PENDING:
            return self._pending_block(parsing.flag(full, "full transactions"))
        header = self._header(which)
        return None if header is None else self._block_json(header.hash, full)

    def eth_getBlockByHash(self, block_hash: Any, full: Any = False) -> Json | None:  # noqa: N802
        return self._block_json(parsing.hash32(block_hash, "block hash"), full)

    def bfl_getRawBlock(self, which: Any) -> str | None:  # noqa: N802
        """A block as `bfl_importBlock` takes it, by number, tag or hash."""
        is_hash = isinstance(which, str) and len(which) == 66
        header = self._node.header(parsing.hash32(which)) if is_hash else self._header(which)
        raw = self._node.raw_block(header.hash) if header else None
        return None if raw is None else hex_bytes(raw)

    def bfl_getRawHeader(self, which: Any) -> str | None:  # noqa: N802
        """A header's bytes, by number or tag: what a device follows the chain with."""
        header = self._header(which)
        return None if header is None else hex_bytes(header.to_bytes())

    def bfl_importBlock(self, raw: Any) -> str:  # noqa: N802
        return hex_bytes(self._node.import_block(parsing.data(raw, "block")).hash)

    def _header(self, which: Any) -> Header | None:
        if which in ("latest", "safe", "finalized"):
            return self._node.head
        if which == "earliest":
            return self._node.header(0)
        if which == PENDING:
            raise ParameterError("block: found 'pending', expected a sealed one: a number, 'latest' or 'earliest'")
        return self._node.header(parsing.number(which, "block"))

    def _block_json(self, block_hash: bytes, full: Any) -> Json | None:
        full = parsing.flag(full, "full transactions")
        block = self._node.block(block_hash)
        return None if block is None else block_json(block, encode_block(block.header, block.transactions), full)

    def _pending_block(self, full: bool) -> Json:
        head = self._node.head
        entries = [entry.post.transaction for entry in self._node.pool]
        listed = [transaction_json(each, None) if full else hex_bytes(each.hash) for each in entries]
        return header_json(head) | {
            "number": hex_number(head.block_number + 1),
            "parentHash": hex_bytes(head.hash),
            "hash": None,
            "nonce": None,
            "totalDifficulty": hex_number(self._node.total_difficulty(head.hash)),
            "size": "0x0",
            "transactions": listed,
            "uncles": [],
        }

    # --- transactions

    def eth_sendRawTransaction(self, raw: Any) -> str:  # noqa: N802
        return hex_bytes(self._node.submit(parsing.data(raw, "transaction")))

    def eth_getTransactionByHash(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        wanted = parsing.hash32(transaction_hash, "transaction hash")
        found = self._sealed(wanted)
        if found is not None:
            block, index = found
            return transaction_json(block.transactions[index], Place(block.header, index))
        entry = self._node.pool.find(wanted)
        return None if entry is None else transaction_json(entry.post.transaction, None)

    def eth_getTransactionReceipt(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        found = self._sealed(parsing.hash32(transaction_hash, "transaction hash"))
        if found is None:
            return None
        block, index = found
        created = None if block.transactions[index].to else self._node.genesis.registry
        return receipt_json(block, index, created)

    def eth_getTransactionCount(self, address: Any, which: Any = "latest") -> str:  # noqa: N802
        return hex_number(self._state(which).nonce(parsing.address(address)))

    def bfl_pendingTransactions(self) -> list[str]:  # noqa: N802
        """Hashes of everything in the pool, in the order of arrival."""
        return [hex_bytes(entry.post.transaction.hash) for entry in self._node.pool]

    def bfl_dropTransaction(self, transaction_hash: Any) -> bool:  # noqa: N802
        """Leave a pending transaction out of what this node builds."""
        return self._node.drop(parsing.hash32(transaction_hash, "transaction hash"))

    def bfl_conflicts(self) -> list[list[str]]:
        """Pairs of signed transactions that post twice to one slot: evidence of equivocation (P15)."""
        return [[hex_bytes(first.raw), hex_bytes(second.raw)] for first, second in self._node.pool.conflicts]

    def bfl_getProof(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        """Inclusion and receipt of a sealed transaction, checkable without a node (P16)."""
        found = self._sealed(parsing.hash32(transaction_hash, "transaction hash"))
        return None if found is None else proof_of(*found).to_json()

    def _sealed(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        place = self._node.place(transaction_hash)
        block = None if place is None else self._node.block(place[0])
        return None if place is None or block is None else (block, place[1])

    # --- state

    def eth_getBalance(self, address: Any, which: Any = "latest") -> str:  # noqa: N802
        parsing.address(address)
        self._state(which)
        return "0x0"  # there is no money here

    def eth_getCode(self, address: Any, which: Any = "latest") -> str:  # noqa: N802
        return hex_bytes(self._state(which).code(parsing.address(address)))

    def eth_getStorageAt(self, address: Any, slot: Any, which: Any = "latest") -> str:  # noqa: N802
        value = self._state(which).storage(parsing.address(address), parsing.number(slot, "slot"))
        return hex_bytes(value.to_bytes(32, "big"))

    def eth_call(self, call: Any, which: Any = "latest", _overrides: Any = None) -> str:
        wanted = parsing.mapping(call, "call")
        sender = parsing.address(wanted["from"], "from") if wanted.get("from") else bytes(20)
        to = parsing.address(wanted.get("to"), "to")
        sent = parsing.data(wanted.get("data", wanted.get("input", "0x")), "data")
        header = None if which == PENDING else self._known_header(which)
        return hex_bytes(self._node.call(sent, to, sender, header))

    def eth_estimateGas(self, call: Any, _which: Any = "latest") -> str:  # noqa: N802
        """An upper bound; what is left over costs nothing. It executes nothing: estimating would run payloads twice."""
        sent = parsing.data(parsing.mapping(call, "call").get("data", "0x"), "data")
        return hex_number(min(self._node.genesis.gas_limit, 2_000_000 + 64 * len(sent)))

    def _state(self, which: Any) -> Execution | StateView:
        return self._node.state(None if which == PENDING else self._known_header(which))

    def _known_header(self, which: Any) -> Header:
        header = self._header(which)
        if header is None:
            raise ParameterError(f"block: found {which}, the head is {self._node.head.block_number}")
        return header

    # --- logs

    def eth_getLogs(self, criteria: Any) -> list[Json]:  # noqa: N802
        """Logs of a range of blocks, `pending` included, by address and topics."""
        wanted = parsing.mapping(criteria, "filter")
        addresses, topics = _addresses(wanted.get("address")), _topics(wanted.get("topics"))
        found: list[Json] = []
        for header in self._range(wanted):
            if _may_contain(header, addresses, topics):
                block = self._node.block(header.hash)
                found += [] if block is None else _block_logs(block, addresses, topics)
            if len(found) > MAX_LOGS:
                raise ParameterError(f"more than {MAX_LOGS} logs; ask for fewer blocks")
        if wanted.get("toBlock") == PENDING:
            found += self._pending_logs(addresses, topics)
        return found

    def _range(self, wanted: Json) -> list[Header]:
        if wanted.get("blockHash") is not None:
            header = self._node.header(parsing.hash32(wanted["blockHash"], "block hash"))
            return [header] if header else []
        head = self._node.head.block_number
        if wanted.get("fromBlock") == PENDING:
            return []
        first = self._number(wanted.get("fromBlock", "latest"))
        last = head if wanted.get("toBlock") == PENDING else min(head, self._number(wanted.get("toBlock", "latest")))
        headers = (self._node.header(number) for number in range(first, last + 1))
        return [header for header in headers if header is not None]

    def _number(self, which: Any) -> int:
        if which in ("latest", "safe", "finalized"):
            return self._node.head.block_number
        return 0 if which == "earliest" else parsing.number(which, "block")

    def _pending_logs(self, addresses: set[bytes], topics: list[set[bytes]]) -> list[Json]:
        return [
            log_json(log, entry.post.transaction, 0, 0, None)
            for entry in self._node.pool
            for log in entry.outcome.logs
            if _matches(log.address, log.topics, addresses, topics)
        ]

    # --- work for miners (C6)

    def bfl_propose(self, leader: Any) -> str:
        """Make what is pending a candidate block of `leader`; returns its header."""
        return hex_bytes(self._node.propose(parsing.address(leader, "leader")).to_bytes())

    def bfl_getWork(self, device: Any, leader: Any = None) -> str:  # noqa: N802
        """The header this device mines; its mining hash is what the nonce is searched for."""
        winner = parsing.data(device, "device")
        coinbase = None if leader is None else parsing.address(leader, "leader")
        return hex_bytes(self._node.work(winner, coinbase).header.to_bytes())

    def bfl_submitWork(self, mining_hash: Any, nonce: Any, device: Any) -> str:  # noqa: N802
        """Seal; returns the hash of the block."""
        found = parsing.hash32(mining_hash, "mining hash"), parsing.fixed(nonce, 8, "nonce")
        return hex_bytes(self._node.submit_work(*found, parsing.data(device, "device")).hash)


def _addresses(wanted: Any) -> set[bytes]:
    listed = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
    return {parsing.address(each) for each in listed}


def _topics(wanted: Any) -> list[set[bytes]]:
    """One set per position; an empty set matches anything."""
    if wanted is None:
        return []
    if not isinstance(wanted, list) or len(wanted) > 4:
        raise ParameterError("topics: expected a list of at most four")
    positions = [each if isinstance(each, list) else [] if each is None else [each] for each in wanted]
    return [{parsing.hash32(topic, "topic") for topic in position} for position in positions]


def _matches(address: bytes, found: tuple[bytes, ...], addresses: set[bytes], topics: list[set[bytes]]) -> bool:
    if addresses and address not in addresses:
        return False
    if len(topics) > len(found):
        return False
    return all(not wanted or topic in wanted for wanted, topic in zip(topics, found, strict=False))


def _may_contain(header: Header, addresses: set[bytes], topics: list[set[bytes]]) -> bool:
    """The header's bloom filter says no for sure, or maybe."""
    from eth_bloom import BloomFilter

    bloom = BloomFilter(header.bloom)
    return all(not wanted or any(each in bloom for each in wanted) for wanted in [addresses, *topics])


def _block_logs(block: Block, addresses: set[bytes], topics: list[set[bytes]]) -> list[Json]:
    found, number = [], 0
    for index, (transaction, receipt) in enumerate(zip(block.transactions, block.receipts, strict=True)):
        for log in receipt.logs:
            if _matches(log.address, log.topics, addresses, topics):
                found.append(log_json(log, transaction, index, number, block.header))
            number += 1
    return found
