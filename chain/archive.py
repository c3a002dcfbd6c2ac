"""A chain to read, whole blocks with receipts: from a database file, or from a node over JSON-RPC. No py-evm."""

import zlib
from pathlib import Path
from typing import Any, Protocol

import rlp
from rlp.exceptions import RLPException
from web3 import Web3

from chain.blocks import decode_block
from chain.connection import translated, web3_over_http
from chain.errors import LedgerError, NodeUnreachableError, StoreError
from chain.genesis import Genesis, read_genesis
from chain.headers import Header
from chain.receipts import decode_receipt
from chain.store import Block, Store

DATABASE = "chain.db"


class Archive(Protocol):
    """The canonical chain, block by block."""

    genesis: Genesis

    def head(self) -> Header:
        """The last sealed block."""

    def block(self, number: int) -> Block:
        """A block by number."""

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """A sealed transaction's block and position."""

    def close(self) -> None:
        """Give back what is open."""


class FileArchive:
    """A database file, opened for reading; a running node may go on writing it."""

    def __init__(self, path: Path) -> None:
        self._store = Store.open(path / DATABASE if path.is_dir() else path, read_only=True)
        self.genesis = self._store.genesis

    def head(self) -> Header:
        """The last sealed block."""
        return self._store.head()

    def block(self, number: int) -> Block:
        """A block by number."""
        block_hash = self._store.canonical_hash(number)
        if block_hash is None:
            raise StoreError(f"there is no block {number}; the head is {self.head().block_number}")
        return self._store.block(block_hash)

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """A sealed transaction's block and position."""
        place = self._store.place(transaction_hash)
        return None if place is None else (self.block(place[0]), place[1])

    def close(self) -> None:
        """Close the file."""
        self._store.close()


class RemoteArchive:
    """A node of ours over JSON-RPC. Nothing it says is believed: whoever inspects checks every byte."""

    def __init__(self, web3: Web3) -> None:
        self._web3 = web3
        self.genesis = read_genesis(str(self._ask("bfl_genesis")))

    @classmethod
    def connect(cls, url: str, token: str = "") -> "RemoteArchive":
        """The chain of the node at `url`."""
        return cls(web3_over_http(url, token))

    def _ask(self, method: str, *params: Any) -> Any:
        with translated():
            return self._web3.manager.request_blocking(method, params)  # type: ignore[arg-type]

    def head(self) -> Header:
        """The last sealed block."""
        return Header.from_bytes(_data(self._ask("bfl_getRawHeader", "latest")))

    def block(self, number: int) -> Block:
        """A block by number."""
        raw = self._ask("bfl_getRawBlock", hex(number))
        if raw is None:
            raise LedgerError(f"the node has no block {number}")
        header, transactions = decode_block(_data(raw))
        try:
            encoded = rlp.decode(zlib.decompress(_data(self._ask("bfl_getRawReceipts", hex(number)))))
        except (RLPException, RecursionError, zlib.error) as error:
            raise NodeUnreachableError(f"the receipts of block {number} do not decode: {error}") from error
        receipts = tuple(decode_receipt(each) for each in encoded)
        return Block(header, transactions, receipts, 0)

    def find_transaction(self, transaction_hash: bytes) -> tuple[Block, int] | None:
        """A sealed transaction's block and position."""
        receipt = self._ask("eth_getTransactionReceipt", "0x" + transaction_hash.hex())
        if receipt is None:
            return None
        return self.block(int(receipt["blockNumber"], 16)), int(receipt["transactionIndex"], 16)

    def close(self) -> None:
        """Nothing stays open."""


def _data(found: Any) -> bytes:
    if not isinstance(found, str):
        raise NodeUnreachableError(f"found {found!r} where the node should answer with bytes; is it one of ours?")
    return bytes.fromhex(found.removeprefix("0x"))


def open_archive(run: Path | None, rpc: str = "", token: str = "") -> Archive:
    """The chain of a run folder or database file, or of a node."""
    if (run is None) == (not rpc):
        raise StoreError("name either a run folder (or its chain.db), or --rpc URL")
    if rpc:
        return RemoteArchive.connect(rpc, token)
    if run is None or not run.exists():
        raise StoreError(f"{run} does not exist; expected a run folder with a {DATABASE}, or such a file")
    if run.is_dir() and not (run / DATABASE).exists():
        raise StoreError(f"{run} has no {DATABASE}: that run was made without a chain")
    return FileArchive(run)
