"""The JSON-RPC methods of a node: what web3 needs, what tools ask for, and work for miners."""

import functools
import zlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from chain.protocol.contract import call_gas, functions
from chain.protocol.genesis import FOUNDING_GAS
from chain.protocol.proof import proof_of
from chain.rpc import arguments as parsing
from chain.rpc.arguments import ArgumentError
from chain.rpc.encoding import (
    Json,
    Place,
    block_json,
    hex_bytes,
    hex_number,
    pending_block_json,
    receipt_json,
    transaction_json,
)
from chain.rpc.logs import find_logs
from chain.rpc.sidecar_methods import SidecarMethods
from chain.rpc.summaries import summary_of
from chain.wire.blocks import encode_block
from chain.wire.headers import Header
from chain.wire.lists import encode_rlp

PENDING = "pending"
_HASH_TEXT = 66  # 0x and 32 bytes
_MAX_FEE_BLOCKS = 1024
_MAX_PERCENTILES = 100
_GAS_PER_REGISTRATION = 60_000
_REGISTRATION_BYTES = 64  # of calldata: a participant and its home


class Methods(SidecarMethods):
    """Each public method is `eth_...`, `net_...`, `web3_...` or `bfl_...`; parameters come as JSON."""

    def table(self) -> dict[str, Callable[..., Any]]:
        """Methods by their JSON-RPC name."""
        prefixes = ("eth_", "net_", "web3_", "bfl_")
        return {name: self._while_open(getattr(self, name)) for name in dir(self) if name.startswith(prefixes)}

    def _while_open(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A closed node answers nothing, not even its chain id: whoever asks should look for another one."""

        @functools.wraps(method)
        def answer(*params: Any) -> Any:
            _ = self._node.head  # raises `StoreError`
            return method(*params)

        return answer

    # --- the network

    def eth_chainId(self) -> str:  # noqa: N802
        return hex_number(self._node.genesis.chain_id)

    def net_version(self) -> str:
        return str(self._node.genesis.chain_id)

    def web3_clientVersion(self) -> str:  # noqa: N802
        return _client_version()

    def eth_syncing(self) -> bool:
        return False

    def eth_accounts(self) -> list[str]:
        return []  # keys stay with their owners

    def eth_gasPrice(self) -> str:  # noqa: N802
        return "0x0"

    def eth_maxPriorityFeePerGas(self) -> str:  # noqa: N802
        return "0x0"

    def eth_feeHistory(self, count: Any, newest: Any, percentiles: Any = None) -> Json:  # noqa: N802
        """Fees are always 0; how full the blocks were is real."""
        last = self._known_header("latest" if newest == PENDING else newest).block_number
        blocks = min(parsing.number(count, "block count"), last + 1, _MAX_FEE_BLOCKS)
        asked = [] if percentiles is None else parsing.bounded_list(percentiles, "percentiles", _MAX_PERCENTILES)
        headers = [self._known_header(number) for number in range(last + 1 - blocks, last + 1)]
        return {
            "oldestBlock": hex_number(last + 1 - blocks),
            "baseFeePerGas": ["0x0"] * (blocks + 1),
            "gasUsedRatio": [header.gas_used / header.gas_limit for header in headers],
            "reward": [["0x0"] * len(asked)] * blocks,
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
        header = self._header(which)
        raw = self._node.raw_block(header.hash) if header else None
        return None if raw is None else hex_bytes(raw)

    def bfl_getRawHeader(self, which: Any) -> str | None:  # noqa: N802
        """A header's bytes, by number, tag or hash: what a device follows the chain with."""
        header = self._header(which)
        return None if header is None else hex_bytes(header.to_bytes())

    def bfl_getRawReceipts(self, which: Any) -> str | None:  # noqa: N802
        """A block's receipts as the database has them (zlib of an RLP list), by number, tag or hash."""
        header = self._header(which)
        block = None if header is None else self._node.block(header.hash)
        if block is None:
            return None
        encoded = encode_rlp([receipt.encoded for receipt in block.receipts])
        return hex_bytes(zlib.compress(encoded))

    def bfl_getBlockSummary(self, which: Any) -> Json | None:  # noqa: N802
        """A block in a few hundred bytes, by number, tag or hash."""
        header = self._header(which)
        block = None if header is None else self._node.block(header.hash)
        return None if block is None else summary_of(self._node, block)

    def bfl_importBlock(self, raw: Any) -> str:  # noqa: N802
        return hex_bytes(self._node.import_block(parsing.data(raw, "block")).hash)

    def _header(self, which: Any) -> Header | None:
        """A sealed block by tag, number or hash; none where there is none."""
        if which in ("safe", "finalized"):
            return self._node.final
        if which == "latest":
            return self._node.head
        if which == "earliest":
            return self._node.header(0)
        if which == PENDING:
            raise ArgumentError("block: found 'pending', expected a sealed one: a number, 'latest' or 'earliest'")
        if isinstance(which, str) and len(which) == _HASH_TEXT:
            return self._node.header(parsing.hash32(which, "block hash"))
        return self._node.header(parsing.number(which, "block"))

    def _known_header(self, which: Any) -> Header:
        header = self._header(which)
        if header is None:
            raise ArgumentError(f"block {which} was not found; the head is {self._node.head.block_number}")
        return header

    def _block_json(self, block_hash: bytes, full: Any) -> Json | None:
        full = parsing.flag(full, "full transactions")
        block = self._node.block(block_hash)
        return None if block is None else block_json(block, encode_block(block.header, block.transactions), full)

    def _pending_block(self, full: bool) -> Json:
        while True:
            head, entries = self._node.head, self._node.pending()
            if self._node.head == head:  # or else a block was sealed in between
                return pending_block_json(head, self._node.total_difficulty(head.hash), entries, full)

    # --- transactions

    def eth_sendRawTransaction(self, raw: Any) -> str:  # noqa: N802
        return hex_bytes(self._node.submit(parsing.data(raw, "transaction")))

    def eth_getTransactionByHash(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        wanted = parsing.hash32(transaction_hash, "transaction hash")
        entry = self._node.find_pending(wanted)  # first: what is sealed meanwhile is found below
        if entry is not None:
            return transaction_json(entry.post.transaction, None)
        found = self._node.find_sealed(wanted)
        if found is None:
            return None
        block, index = found
        return transaction_json(block.transactions[index], Place(block.header, index))

    def eth_getRawTransactionByHash(self, transaction_hash: Any) -> str | None:  # noqa: N802
        wanted = parsing.hash32(transaction_hash, "transaction hash")
        entry, found = self._node.find_pending(wanted), self._node.find_sealed(wanted)
        if found is not None:
            return hex_bytes(found[0].transactions[found[1]].raw)
        return None if entry is None else hex_bytes(entry.post.transaction.raw)

    def eth_getTransactionReceipt(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        found = self._node.find_sealed(parsing.hash32(transaction_hash, "transaction hash"))
        if found is None:
            return None
        block, index = found
        created = None if block.transactions[index].to else self._node.genesis.registry
        return receipt_json(block, index, created)

    def eth_getTransactionCount(self, address: Any, which: Any = "latest") -> str:  # noqa: N802
        return hex_number(self._node.nonce(parsing.address(address), self._after(which)))

    def bfl_pendingTransactions(self) -> list[str]:  # noqa: N802
        """Hashes of everything in the pool, in the order of arrival."""
        return [hex_bytes(entry.post.transaction.hash) for entry in self._node.pending()]

    def bfl_conflicts(self) -> list[list[str]]:
        """Pairs of signed transactions that post twice to one slot: evidence of equivocation (P15)."""
        return [[hex_bytes(first.raw), hex_bytes(second.raw)] for first, second in self._node.pool.conflicts]

    def bfl_getProof(self, transaction_hash: Any) -> Json | None:  # noqa: N802
        """Inclusion and receipt of a sealed transaction, checkable without a node (P16)."""
        found = self._node.find_sealed(parsing.hash32(transaction_hash, "transaction hash"))
        return None if found is None else proof_of(*found).to_json()

    # --- state

    def eth_getBalance(self, address: Any, which: Any = "latest") -> str:  # noqa: N802
        parsing.address(address)
        self._after(which)
        return "0x0"  # there is no money here

    def eth_getCode(self, address: Any, which: Any = "latest") -> str:  # noqa: N802
        return hex_bytes(self._node.code(parsing.address(address), self._after(which)))

    def eth_getStorageAt(self, address: Any, slot: Any, which: Any = "latest") -> str:  # noqa: N802
        value = self._node.storage(parsing.address(address), parsing.number(slot, "slot"), self._after(which))
        return hex_bytes(value.to_bytes(32, "big"))

    def eth_call(self, call: Any, which: Any = "latest", overrides: Any = None) -> str:
        """What the registry answers; nothing else has code here. Precompiles are not run: a pairing takes 0.2 s."""
        wanted = parsing.mapping(call, "call")
        if overrides:
            raise ArgumentError("overrides: found some, expected none: this node calls the state as it is")
        sender = parsing.address(wanted["from"], "from") if wanted.get("from") else bytes(20)
        to, sent, after = parsing.address(wanted.get("to"), "to"), _input(wanted), self._after(which)
        return hex_bytes(self._node.call(sent, to, sender, after)) if to == self._node.genesis.registry else "0x"

    def eth_estimateGas(self, call: Any, _which: Any = "latest", _overrides: Any = None) -> str:  # noqa: N802
        """An upper bound; what is left over costs nothing. It executes nothing: estimating would run payloads twice."""
        wanted = parsing.mapping(call, "call")
        is_creation = wanted.get("to") is None or not self._node.code(self._node.genesis.registry)
        gas = FOUNDING_GAS // 2 if is_creation else self._call_gas(_input(wanted))
        return hex_number(min(self._node.genesis.gas_limit, gas))

    def _call_gas(self, sent: bytes) -> int:
        gas = call_gas(len(sent))
        if sent[:4] == functions()["register"].selector:
            gas += _GAS_PER_REGISTRATION * (len(sent) // _REGISTRATION_BYTES)
        return gas

    def _after(self, which: Any) -> Header | None:
        """The block after which the state is asked for; none for everything pending."""
        return None if which == PENDING else self._known_header(which)

    # --- logs

    def eth_getLogs(self, criteria: Any) -> list[Json]:  # noqa: N802
        """Logs of a range of blocks, `pending` included, by address and topics."""
        return find_logs(self._node, criteria)

    # --- work for miners (C6)

    def bfl_propose(self, leader: Any) -> str:
        """Make what is pending a candidate block of `leader`; returns its header."""
        return hex_bytes(self._node.propose(parsing.address(leader, "leader")).to_bytes())

    def bfl_getWork(self, device: Any, leader: Any = None) -> str:  # noqa: N802
        """The header this device mines; its mining hash is what the nonce is searched for."""
        winner = parsing.data(device, "device")
        coinbase = None if leader is None else parsing.address(leader, "leader")
        return hex_bytes(self._node.work(winner, coinbase).to_bytes())

    def bfl_submitWork(self, mining_hash: Any, nonce: Any, device: Any) -> str:  # noqa: N802
        """Seal; returns the hash of the block."""
        found = parsing.hash32(mining_hash, "mining hash"), parsing.sized_bytes(nonce, 8, "nonce")
        return hex_bytes(self._node.submit_work(*found, parsing.data(device, "device")).hash)


def _input(call: Json) -> bytes:
    """Calldata, under its old or its new name."""
    old, new = call.get("data"), call.get("input")
    if old is not None and new is not None and old != new:
        raise ArgumentError("call: found data and input that differ, expected one of them")
    return parsing.data(next((each for each in (old, new) if each is not None), "0x"), "data")


@functools.cache
def _client_version() -> str:
    try:
        return f"bfl/{version('bfl')}"
    except PackageNotFoundError:
        return "bfl"
