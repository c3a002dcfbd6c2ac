"""What a chain remembers, in one SQLite file (C9): headers, bodies, receipts, state nodes, payloads (B5). Readable
without py-evm.

Everything of a block goes in with ONE transaction of the database, head and payloads included: killed at any write, the
file opens with the old head or the new one. Bodies are one blob per block, so that pages are full.
"""

import contextlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from chain.errors import StoreError
from chain.protocol.endorsements import Domain
from chain.protocol.genesis import Genesis
from chain.store import endorsements, passes, payloads
from chain.store.database import CREATE, IN_MEMORY, READ, WRITE, Database
from chain.store.endorsements import Endorsements
from chain.store.passes import Passes
from chain.store.payloads import KeptPayload, Payloads
from chain.store.rows import FORMAT, genesis_in, read_row, receipts_in, transactions_in
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.lists import encode_rlp
from chain.wire.receipts import Receipt
from chain.wire.transactions import Transaction

_KEPT_NODES = 4_000  # of about 500 bytes: those of the last hundred rounds or so
_MAX_NUMBER = 2**63 - 1  # that SQLite holds
T = TypeVar("T")
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
_EVERY_MODEL = 10
"""Of the models before the payloads that are kept, each of these stays (B6)"""


class Store:
    """One chain database. Not locked against threads: its owner serialises access."""

    def __init__(self, database: Database, genesis: Genesis) -> None:
        self._db = database
        self.genesis = genesis
        self.payloads = Payloads(database)
        self.endorsements, self.passes = Endorsements(database, domain := Domain.of(genesis)), Passes(database, domain)
        self._kept: dict[bytes, bytes] = {}

    # --- opening

    @classmethod
    def create(cls, path: Path | str, genesis: Genesis) -> Self:
        """A new database with block 0; the file must not exist."""
        with contextlib.ExitStack() as undo:
            database = Database(path, CREATE)
            if path != IN_MEMORY:
                undo.callback(Path(path).unlink)
            undo.callback(database.close)
            store = cls(database, genesis)
            database.make_durable()
            store._write_genesis()
            undo.pop_all()
        return store

    def _write_genesis(self) -> None:
        with self.transaction():
            for statement in (_SCHEMA + payloads.SCHEMA + endorsements.SCHEMA + passes.SCHEMA).split(";")[:-1]:
                self._db.write(statement)
            self._db.write("INSERT INTO meta VALUES ('format', ?)", FORMAT)
            self._db.write("INSERT INTO meta VALUES ('genesis', ?)", self.genesis.canonical_json())
            self.add_block(Block(self.genesis.header, (), (), self.genesis.difficulty))
            self.make_canonical(self.genesis.header)

    @classmethod
    def open(cls, path: Path | str, read_only: bool = False) -> Self:
        """An existing database; for writing by one process at a time."""
        if not Path(path).is_file():
            raise StoreError(f"{path} is no chain database; expected a file made by a run or by `bfl network node`")
        with contextlib.ExitStack() as undo:
            database = Database(path, READ if read_only else WRITE)
            undo.callback(database.close)
            database.check_plain()
            store = cls(database, genesis_in(database, path))
            store.head()  # a database without one is damaged
            database.check_whole()
            if not read_only:
                database.make_durable()
            undo.pop_all()
        return store

    def close(self) -> None:
        """Give the file back; what was committed is there."""
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside, or none. Inside another one it is part of that."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._kept.clear)  # some of it may have been read from what is undone now
            with self._db.transaction():
                yield
            undo.pop_all()

    # --- state nodes

    def node(self, key: bytes) -> bytes | None:
        """A node of a state trie, or code. Those at the top are read for every transaction: the last ones are kept."""
        value = self._kept.get(key)
        if value is None:
            row = self._db.row("SELECT value FROM node WHERE key = ?", key)
            if row is None:
                return None
            if len(self._kept) >= _KEPT_NODES:
                self._kept.clear()
            value = self._kept[key] = row[0]
        return value

    def put_nodes(self, nodes: Sequence[tuple[bytes, bytes]]) -> None:
        """Nodes are named by their hash: one that is there stays."""
        self._db.write_all("INSERT OR IGNORE INTO node VALUES (?, ?)", nodes)

    # --- blocks

    def add_block(
        self, block: Block, kept: Iterable[KeptPayload] = (), beside: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Remember a block with its payloads; which chain is canonical is decided by `make_canonical`."""
        body = encode_rlp([transaction.raw for transaction in block.transactions])
        receipts = zlib.compress(encode_rlp([r.encoded for r in block.receipts]))
        header = block.header
        row = (header.hash, header.block_number, str(block.total_difficulty), header.to_bytes(), receipts, body)
        with self._db.writing() as connection:
            connection.execute(
                "INSERT INTO block (hash, number, total_difficulty, canonical, header, receipts, body) "
                "VALUES (?, ?, ?, 0, ?, ?, ?)",
                row,
            )
        self.payloads.keep(self._block_id(header.hash), kept, beside or {})

    def _block_id(self, block_hash: bytes) -> int:
        row = self._db.row("SELECT id FROM block WHERE hash = ?", block_hash)
        if row is None:
            raise StoreError(f"block 0x{block_hash.hex()} is not in the database")
        return int(row[0])

    def kept_by(self, block_hash: bytes) -> list[KeptPayload]:
        """The payloads that a block keeps, also those that were pruned."""
        return self.payloads.kept_by(self._block_id(block_hash))

    def missing(self, number: int) -> list[KeptPayload]:
        """What a canonical block keeps and is not here any more."""
        block_hash = self.canonical_hash(number)
        return [] if block_hash is None else self.payloads.missing(self._block_id(block_hash))

    def prune(self, first_kept: int, shrinks: bool = False) -> int:
        """Delete payloads of blocks before `first_kept`: gradients and evidence, and models but for the one that the
        first kept round starts from and every tenth. Returns how many bytes; the file gets smaller if it `shrinks`.
        """
        first_kept = min(first_kept, self.head().block_number + 1)  # the next round starts from the head's model
        rows = self._db.rows("SELECT id, number FROM block WHERE number > 1 AND number < ?", first_kept)
        unwanted = {(id_, kind) for id_, _ in rows for kind in ("gradient", payloads.EVIDENCE)}
        unwanted |= {(id_, "model") for id_, n in rows if n != first_kept - 1 and n % _EVERY_MODEL}
        with self.transaction():
            dropped = self.payloads.drop(unwanted)
            self.payloads.sweep()
        if shrinks:
            self._db.write("VACUUM")
        return dropped

    def pruned(self) -> list[int]:
        """Numbers of the canonical blocks whose payloads are not all here."""
        found = (
            "SELECT DISTINCT number FROM block JOIN kept ON kept.block = block.id WHERE canonical = 1 AND NOT EXISTS "
            "(SELECT 1 FROM part WHERE part.digest = kept.digest) ORDER BY number"
        )
        return [int(row[0]) for row in self._db.rows(found)]

    def headers_after(self, number: int) -> list[Header]:
        """Of all blocks with a higher number, canonical or not, by number."""
        rows = self._db.rows("SELECT header FROM block WHERE number > ? ORDER BY number", number)
        return [read_row(Header.from_bytes, row[0], "a header") for row in rows]

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
        self._db.write("INSERT OR REPLACE INTO meta VALUES ('head', ?)", head.hash)
        return left

    def _join_branch(self, header: Header, hashes: Sequence[bytes]) -> None:
        self._db.write("UPDATE block SET canonical = 1 WHERE hash = ?", header.hash)
        self._db.write_all(
            "INSERT OR REPLACE INTO place VALUES (?, ?, ?)",
            [(hash_, header.block_number, position) for position, hash_ in enumerate(hashes)],
        )

    def _leave_branch(self, head: Header) -> list[Header]:
        ancestor = head
        while ancestor.block_number > 0 and not self._is_canonical(ancestor.hash):
            ancestor = self.header_by_hash(ancestor.parent_hash)
        above = reversed(self.headers_after(ancestor.block_number))
        left = [header for header in above if self._is_canonical(header.hash)]
        for header in left:
            self._db.write("UPDATE block SET canonical = 0 WHERE hash = ?", header.hash)
            self._db.write("DELETE FROM place WHERE block = ?", header.block_number)
        return left

    def _is_canonical(self, block_hash: bytes) -> bool:
        row = self._db.row("SELECT canonical FROM block WHERE hash = ?", block_hash)
        return bool(row and row[0])

    # --- reading

    def head(self) -> Header:
        """Header of the last canonical block."""
        row = self._db.row("SELECT header FROM block WHERE hash = (SELECT value FROM meta WHERE name = 'head')")
        if row is None:
            raise StoreError("the chain database has no head; it is damaged")
        return read_row(Header.from_bytes, row[0], "the head")

    def find_header(self, block_hash: bytes) -> Header | None:
        """The header with this hash, canonical or not."""
        row = self._db.row("SELECT header FROM block WHERE hash = ?", block_hash)
        return read_row(Header.from_bytes, row[0], f"header 0x{block_hash.hex()}") if row else None

    def header_by_hash(self, block_hash: bytes) -> Header:
        """As `find_header`, for a header that must be there."""
        header = self.find_header(block_hash)
        if header is None:
            raise StoreError(f"block 0x{block_hash.hex()} is not in the database")
        return header

    def canonical_hash(self, number: int) -> bytes | None:
        """Hash of the canonical block with this number."""
        if number > _MAX_NUMBER:
            return None
        row = self._db.row("SELECT hash FROM block WHERE number = ? AND canonical = 1", number)
        return row[0] if row else None

    def total_difficulty(self, block_hash: bytes) -> int:
        """Work of the chain up to and including this block."""
        row = self._db.row("SELECT total_difficulty FROM block WHERE hash = ?", block_hash)
        if row is None:
            raise StoreError(f"block 0x{block_hash.hex()} is not in the database")
        return int(row[0])

    def transactions(self, block_hash: bytes) -> tuple[Transaction, ...]:
        """The transactions of the block with this hash; none if it is unknown."""
        row = self._db.row("SELECT body FROM block WHERE hash = ?", block_hash)
        return read_row(transactions_in, row[0], f"the body of block 0x{block_hash.hex()}") if row else ()

    def receipts(self, block_hash: bytes) -> tuple[Receipt, ...]:
        """The receipts of the block with this hash; none if it is unknown."""
        row = self._db.row("SELECT receipts FROM block WHERE hash = ?", block_hash)
        return read_row(receipts_in, row[0], f"the receipts of block 0x{block_hash.hex()}") if row else ()

    def block(self, block_hash: bytes) -> Block:
        """Header, transactions, receipts and total difficulty of the block with this hash."""
        return Block(
            self.header_by_hash(block_hash),
            self.transactions(block_hash),
            self.receipts(block_hash),
            self.total_difficulty(block_hash),
        )

    def block_bytes(self, block_hash: bytes) -> int:
        """What a block takes on disk: header, transactions, receipts, and the payloads that it keeps."""
        found = "SELECT id, length(header) + length(body) + length(receipts) FROM block WHERE hash = ?"
        row = self._db.row(found, block_hash)
        return int(row[1]) + sum(each.size for each in self.payloads.kept_by(row[0])) if row else 0

    def place(self, transaction_hash: bytes) -> tuple[int, int] | None:
        """(block number, position) of a transaction of the canonical chain."""
        row = self._db.row("SELECT block, position FROM place WHERE hash = ?", transaction_hash)
        return (row[0], row[1]) if row else None
