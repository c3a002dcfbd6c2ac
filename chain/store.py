"""What a chain remembers, in one SQLite file (C9): headers, bodies, receipts, state nodes. Readable without py-evm.

Everything of a block goes in with ONE transaction of the database, head included: killed at any write, the file opens
with the old head or the new one. Bodies are one blob per block, so that pages are full.
"""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import rlp

from chain.errors import StoreError
from chain.genesis import Genesis, read_genesis
from chain.headers import Header
from chain.receipts import Receipt, decode_receipt
from chain.transactions import Transaction, decode_transaction

IN_MEMORY = ":memory:"
FORMAT = 1
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE node (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    number INTEGER NOT NULL,
    total_difficulty TEXT NOT NULL,
    canonical INTEGER NOT NULL,
    header BLOB NOT NULL,
    receipts BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX block_number ON block (number);
CREATE TABLE place (hash BLOB PRIMARY KEY, block INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Block:
    """A block with its receipts."""

    header: Header
    transactions: tuple[Transaction, ...]
    receipts: tuple[Receipt, ...]
    total_difficulty: int


class Store:
    """One chain database. Not locked: its owner serialises access."""

    def __init__(self, connection: sqlite3.Connection, genesis: Genesis) -> None:
        self._db = connection
        self.genesis = genesis

    # --- opening

    @classmethod
    def create(cls, path: Path | str, genesis: Genesis) -> "Store":
        """A new database with block 0; the file must not exist."""
        if path != IN_MEMORY and Path(path).exists():
            raise StoreError(f"{path} exists; open it, or choose another place for a new chain")
        connection = _connect(path, "rwc")
        store = cls(connection, genesis)
        with store.transaction():
            for statement in _SCHEMA.split(";")[:-1]:
                connection.execute(statement)
            connection.execute("INSERT INTO meta VALUES ('format', ?)", (FORMAT,))
            connection.execute("INSERT INTO meta VALUES ('genesis', ?)", (genesis.canonical_json(),))
            store.add_block(Block(genesis.header, (), (), genesis.difficulty))
            store.make_canonical(genesis.header)
        return store

    @classmethod
    def open(cls, path: Path | str, read_only: bool = False) -> "Store":
        """An existing database."""
        if not Path(path).is_file():
            raise StoreError(f"{path} is no chain database; expected a file made by a run or by `bfl network node`")
        connection = _connect(path, "ro" if read_only else "rw")
        try:
            meta = dict(connection.execute("SELECT name, value FROM meta"))
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreError(f"{path} is no chain database, or is damaged: {error}") from error
        if meta.get("format") != FORMAT:
            connection.close()
            raise StoreError(f"{path} has format {meta.get('format')!r}, expected {FORMAT}")
        store = cls(connection, read_genesis(meta.get("genesis", "")))
        store.head()  # a database without one is damaged
        return store

    def close(self) -> None:
        """Give the file back; what was committed is there."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside, or none. Inside another one it is part of that."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # --- state nodes

    def node(self, key: bytes) -> bytes | None:
        """A node of a state trie, or code."""
        row = self._db.execute("SELECT value FROM node WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def put_nodes(self, nodes: Sequence[tuple[bytes, bytes]]) -> None:
        """Nodes are named by their hash: one that is there stays."""
        self._db.executemany("INSERT OR IGNORE INTO node VALUES (?, ?)", nodes)

    # --- blocks

    def add_block(self, block: Block) -> None:
        """Remember a block; which chain is canonical is decided by `make_canonical`."""
        body = rlp.encode([transaction.raw for transaction in block.transactions], infer_serializer=False)
        receipts = zlib.compress(rlp.encode([r.encoded for r in block.receipts], infer_serializer=False))
        self._db.execute(
            "INSERT INTO block (hash, number, total_difficulty, canonical, header, receipts, body) "
            "VALUES (?, ?, ?, 0, ?, ?, ?)",
            (
                block.header.hash,
                block.header.block_number,
                str(block.total_difficulty),
                block.header.to_bytes(),
                receipts,
                body,
            ),
        )

    def make_canonical(self, head: Header, hashes: Sequence[bytes] | None = None) -> list[Header]:
        """Make `head` the head; `hashes` are those of its transactions, where the caller has them.

        Blocks of the old branch leave, with the places of their transactions; they are returned.
        """
        left = self._leave_branch(head)
        header, joining = head, []
        while not self._is_canonical(header.hash):
            joining.append(header)
            if header.block_number == 0:
                break
            header = self.header_by_hash(header.parent_hash)
        for header in joining:
            known = hashes if header is head else None
            self._join_branch(header, [t.hash for t in self.transactions(header.hash)] if known is None else known)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (head.hash,))
        return left

    def _join_branch(self, header: Header, hashes: Sequence[bytes]) -> None:
        self._db.execute("UPDATE block SET canonical = 1 WHERE hash = ?", (header.hash,))
        self._db.executemany(
            "INSERT OR REPLACE INTO place VALUES (?, ?, ?)",
            [(hash_, header.block_number, position) for position, hash_ in enumerate(hashes)],
        )

    def _leave_branch(self, head: Header) -> list[Header]:
        ancestor = head
        while ancestor.block_number > 0 and not self._is_canonical(ancestor.hash):
            ancestor = self.header_by_hash(ancestor.parent_hash)
        rows = self._db.execute(
            "SELECT header FROM block WHERE canonical = 1 AND number > ? ORDER BY number DESC", (ancestor.block_number,)
        ).fetchall()
        left = [Header.from_bytes(row[0]) for row in rows]
        for header in left:
            self._db.execute("UPDATE block SET canonical = 0 WHERE hash = ?", (header.hash,))
            self._db.execute("DELETE FROM place WHERE block = ?", (header.block_number,))
        return left

    def _is_canonical(self, block_hash: bytes) -> bool:
        row = self._db.execute("SELECT canonical FROM block WHERE hash = ?", (block_hash,)).fetchone()
        return bool(row and row[0])

    # --- reading

    def head(self) -> Header:
        """Header of the last canonical block."""
        row = self._db.execute(
            "SELECT header FROM block WHERE hash = (SELECT value FROM meta WHERE name = 'head')"
        ).fetchone()
        if row is None:
            raise StoreError("the database has no head; it is damaged")
        return Header.from_bytes(row[0])

    def find_header(self, block_hash: bytes) -> Header | None:
        """The header with this hash, canonical or not."""
        row = self._db.execute("SELECT header FROM block WHERE hash = ?", (block_hash,)).fetchone()
        return Header.from_bytes(row[0]) if row else None

    def header_by_hash(self, block_hash: bytes) -> Header:
        """As `find_header`, for a header that must be there."""
        header = self.find_header(block_hash)
        if header is None:
            raise StoreError(f"block 0x{block_hash.hex()} is not in the database")
        return header

    def canonical_hash(self, number: int) -> bytes | None:
        """Hash of the canonical block with this number."""
        row = self._db.execute("SELECT hash FROM block WHERE number = ? AND canonical = 1", (number,)).fetchone()
        return row[0] if row else None

    def total_difficulty(self, block_hash: bytes) -> int:
        """Work of the chain up to and including this block."""
        row = self._db.execute("SELECT total_difficulty FROM block WHERE hash = ?", (block_hash,)).fetchone()
        if row is None:
            raise StoreError(f"block 0x{block_hash.hex()} is not in the database")
        return int(row[0])

    def transactions(self, block_hash: bytes) -> tuple[Transaction, ...]:
        """A block's transactions."""
        row = self._db.execute("SELECT body FROM block WHERE hash = ?", (block_hash,)).fetchone()
        return tuple(decode_transaction(raw) for raw in rlp.decode(row[0])) if row else ()

    def receipts(self, block_hash: bytes) -> tuple[Receipt, ...]:
        """A block's receipts."""
        row = self._db.execute("SELECT receipts FROM block WHERE hash = ?", (block_hash,)).fetchone()
        return tuple(decode_receipt(each) for each in rlp.decode(zlib.decompress(row[0]))) if row else ()

    def block(self, block_hash: bytes) -> Block:
        """A whole block."""
        return Block(
            self.header_by_hash(block_hash),
            self.transactions(block_hash),
            self.receipts(block_hash),
            self.total_difficulty(block_hash),
        )

    def place(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """(block number, position) of a transaction of the canonical chain."""
        row = self._db.execute("SELECT block, position FROM place WHERE hash = ?", (transaction_hash,)).fetchone()
        return (row[0], row[1]) if row else None


def _connect(path: Path | str, mode: str) -> sqlite3.Connection:
    target = "file::memory:" if path == IN_MEMORY else f"{Path(path).absolute().as_uri()}?mode={mode}"
    try:
        connection = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
        if mode != "ro":
            # A sealed block survives a power cut too, not only a killed process.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be opened: {error}") from error
    return connection
