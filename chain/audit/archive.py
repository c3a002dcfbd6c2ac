"""A chain to read, whole blocks with receipts and payloads: from a database file, or from a node. No py-evm."""

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from web3 import Web3

from chain.audit.checked_state import CheckedStore
from chain.client.asking import ranges_of, read_bytes, request, web3_over_http
from chain.client.payloads import fetch_payload
from chain.errors import MalformedBlockError, NodeUnreachableError, ProofError, StoreError
from chain.protocol.contract import decode_call
from chain.protocol.endorsements import Domain, Endorsement, decode_endorsement
from chain.protocol.genesis import Genesis, read_genesis
from chain.protocol.passes import Signed, decode_signed
from chain.protocol.posts import PayloadSource
from chain.protocol.turns import MOST_SERVERS
from chain.store.passes import contradictions
from chain.wire.blocks import Block, decode_block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, unpack_receipts

DATABASE = "chain.db"


class Archive(PayloadSource, Protocol):
    """The canonical chain, block by block, and the payloads beside it."""

    genesis: Genesis

    def head(self) -> Header:
        """The last sealed block."""

    def header(self, number: int) -> Header:
        """A block's header by number."""

    def receipts(self, header: Header) -> tuple[Receipt, ...]:
        """The receipts of a block, without its transactions."""

    def block(self, number: int) -> Block:
        """A block by number."""

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """A sealed transaction's block and position."""

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that are kept beside the chain (Q1)."""

    def contradictions(self) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of, as far as they were seen."""

    def close(self) -> None:
        """Give back what is open."""


class FileArchive:
    """A database file, opened for reading; a running node may go on writing it."""

    def __init__(self, path: Path) -> None:
        with _damage(path):
            self._store = CheckedStore.open(path / DATABASE if path.is_dir() else path, read_only=True)
        self._path, self.genesis = path, self._store.genesis

    def head(self) -> Header:
        """The last sealed block."""
        with _damage(self._path):
            header = self._store.head()
            if self._store.find_header(header.hash) is None:
                raise StoreError(f"the head's header has hash 0x{header.hash.hex()}, which the database does not know")
            return header

    def header(self, number: int) -> Header:
        """A block's header by number."""
        with _damage(self._path):
            block_hash = self._store.canonical_hash(number)
            if block_hash is None:
                raise StoreError(f"there is no block {number}; the head is {self.head().block_number}")
            header = self._store.header_by_hash(block_hash)
        if header.hash != block_hash:
            raise StoreError(f"its header has hash 0x{header.hash.hex()}, the database says 0x{block_hash.hex()}")
        return header

    def receipts(self, header: Header) -> tuple[Receipt, ...]:
        """The receipts of a block, without its transactions."""
        with _damage(self._path):
            return self._store.receipts(header.hash)

    def block(self, number: int) -> Block:
        """A block by number."""
        with _damage(self._path):
            header, store = self.header(number), self._store
            of = header.hash
            return _whole(Block(header, store.transactions(of), store.receipts(of), store.total_difficulty(of)))

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """A sealed transaction's block and position."""
        with _damage(self._path):
            place = self._store.place(transaction_hash)
            return None if place is None else _checked_place(self.block(place[0]), place[1], transaction_hash)

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that are kept beside the chain (Q1)."""
        with _damage(self._path):
            return self._store.endorsements.of(block_hash)

    def contradictions(self) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of, as far as they were seen."""
        with _damage(self._path):
            return contradictions(self._store.endorsements, self._store.passes)

    def payload(self, digest: bytes) -> bytes | None:
        """A payload by its digest, as the file has it; None where it was pruned."""
        with _damage(self._path):
            return self._store.payloads.read(digest)

    def has_payload(self, digest: bytes) -> bool:
        """Whether the file has a payload."""
        with _damage(self._path):
            return self._store.payloads.has(digest)

    @property
    def state(self) -> CheckedStore:
        """The states after its blocks, as the file has them: each node is held against its hash as it is read."""
        return self._store

    def close(self) -> None:
        """Close the file."""
        self._store.close()


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """SQLite notices damaged pages, not that a text is no UTF-8 any more, or a number a text."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error


class RemoteArchive:
    """A node of ours over JSON-RPC. Nothing it says is believed: whoever inspects checks every byte."""

    def __init__(self, web3: Web3) -> None:
        self._web3 = web3
        text = self._ask("bfl_genesis")
        if not isinstance(text, str):
            raise NodeUnreachableError(f"found {text!r:.80} as the genesis; is it a node of ours?")
        self.genesis = read_genesis(text)

    @classmethod
    def connect(cls, url: str, token: str = "") -> "RemoteArchive":
        """The chain of the node at `url`."""
        return cls(web3_over_http(url, token))

    def _ask(self, method: str, *params: Any) -> Any:
        return request(self._web3, method, *params)

    def head(self) -> Header:
        """The last sealed block."""
        return Header.from_bytes(read_bytes(self._ask("bfl_getRawHeader", "latest")))

    def header(self, number: int) -> Header:
        """A block's header by number."""
        raw = self._ask("bfl_getRawHeader", hex(number))
        if raw is None:
            raise StoreError(f"there is no block {number}; the head is {self.head().block_number}")
        return Header.from_bytes(read_bytes(raw))

    def receipts(self, header: Header) -> tuple[Receipt, ...]:
        """The receipts of a block, without its transactions."""
        return self._receipts(header.block_number)

    def _receipts(self, number: int) -> tuple[Receipt, ...]:
        return _read_receipts(read_bytes(self._ask("bfl_getRawReceipts", hex(number))), number)

    def block(self, number: int) -> Block:
        """A block by number."""
        raw = self._ask("bfl_getRawBlock", hex(number))
        if raw is None:
            raise StoreError(f"there is no block {number}; the head is {self.head().block_number}")
        header, transactions = decode_block(read_bytes(raw))
        return _whole(Block(header, transactions, self._receipts(number), 0))

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """A sealed transaction's block and position."""
        receipt = self._ask("eth_getTransactionReceipt", "0x" + transaction_hash.hex())
        if receipt is None:
            return None
        try:
            number, position = int(receipt["blockNumber"], 16), int(receipt["transactionIndex"], 16)
        except (TypeError, KeyError, ValueError) as error:
            raise NodeUnreachableError(f"found no place of a transaction in the node's receipt: {error!r}") from error
        return _checked_place(self.block(number), position, transaction_hash)

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that the node holds (Q1)."""
        found = self._ask("bfl_endorsements", "0x" + block_hash.hex())
        return [self._endorsement(each) for each in _listed(found)[:MOST_SERVERS]]

    def contradictions(self) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of, as far as the node has seen them."""
        domain = Domain.of(self.genesis)
        pairs = [
            [decode_signed(read_bytes(each), domain) for each in _listed(pair)]
            for pair in _listed(self._ask("bfl_contradictions"))
        ]
        return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]

    def _endorsement(self, found: Any) -> Endorsement:
        return decode_endorsement(read_bytes(found), Domain.of(self.genesis))

    def payload(self, digest: bytes) -> bytes | None:
        """A payload by its digest; None where the node has it not."""
        return fetch_payload(digest, ranges_of(self._web3), most=self._most_bytes)

    @cached_property
    def _most_bytes(self) -> int:
        """Of a payload, as the network was founded: a node does not choose how much memory an auditor takes."""
        calls = [decode_call(each.data) for each in self.block(1).transactions if each.to]
        founded = [max(call["parameters_size"], *call["sizes"]) for call in calls if call.name == "found"]
        return max(founded, default=0)

    def has_payload(self, digest: bytes) -> bool:
        """Whether the node has a payload."""
        return ranges_of(self._web3)(digest, 0, 0) is not None

    def close(self) -> None:
        """A node is asked request by request: nothing stays open."""


def _listed(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise NodeUnreachableError(f"found {found!r:.80} where the node should answer with a list")
    return found


def _read_receipts(packed: bytes, number: int) -> tuple[Receipt, ...]:
    try:
        return unpack_receipts(packed)
    except ProofError as error:
        raise MalformedBlockError(f"the receipts of block {number} do not decode: {error}") from error


def _whole(block: Block) -> Block:
    """A block with a receipt for each transaction."""
    if len(block.transactions) != len(block.receipts):
        raise MalformedBlockError(
            f"block {block.header.block_number} has {len(block.transactions)} transactions "
            f"and {len(block.receipts)} receipts, expected as many"
        )
    return block


def _checked_place(block: Block, position: int, transaction_hash: bytes) -> tuple[Block, int]:
    """The place of a transaction, which the index of a file or the word of a node may have wrong."""
    found = block.transactions[position : position + 1] if position >= 0 else ()
    if not found or found[0].hash != transaction_hash:
        raise StoreError(
            f"transaction 0x{transaction_hash.hex()} is not at position {position} of block "
            f"{block.header.block_number}, where the archive says it is"
        )
    return block, position


def open_archive(run: Path | None, rpc: str = "", token: str = "") -> Archive:
    """The chain of a run folder or database file, or of a node."""
    if (run is None) == (not rpc):
        raise StoreError("name either a run folder (or its chain.db), or --rpc URL")
    if rpc:
        return RemoteArchive.connect(rpc, token)
    if run is None or not run.exists():
        raise StoreError(f"{run} does not exist; expected a run folder with a {DATABASE}, or such a file")
    if run.is_dir() and not (run / DATABASE).exists():
        raise StoreError(f"{run} has no {DATABASE}: expected a run of scheme bfl or bfl-no-consensus")
    return FileArchive(run)
