"""Payloads by their digests, in tables of a chain's database (B5): written in the transaction of the block that keeps
them, so that a crash leaves neither a block without its payload nor a payload without its block.

A payload lies in parts: SQLite holds at most 1 GB in a row, and whoever asks for a range reads that part alone.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from chain.errors import StoreError
from chain.store.database import Database

PART_BYTES = 4 << 20
SCHEMA = """
CREATE TABLE part (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL);
CREATE UNIQUE INDEX part_place ON part (digest, number);
CREATE TABLE kept (
    block INTEGER NOT NULL, digest BLOB NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL,
    PRIMARY KEY (block, digest)
) WITHOUT ROWID;
CREATE INDEX kept_digest ON kept (digest);
"""
EVIDENCE = "evidence"
"""The kind of a payload that is kept because of a flag (B3)"""


class KeptPayload(NamedTuple):
    """A payload that a block keeps."""

    digest: bytes
    kind: str
    """plan, gradient, close, model, found, evidence."""
    size: int


class Payloads:
    """The payloads in one database. Every block keeps its own; one that two blocks keep is there once."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def read(self, digest: bytes) -> bytes | None:
        """A payload; None where it is not, or not any more."""
        rows = self._db.rows("SELECT value FROM part WHERE digest = ? ORDER BY number", digest)
        return b"".join(row[0] for row in rows) if rows else None

    def read_range(self, digest: bytes, start: int, length: int) -> bytes:
        """Some bytes of a payload that is here."""
        first, last = start // PART_BYTES, (start + length) // PART_BYTES
        found = "SELECT value FROM part WHERE digest = ? AND number BETWEEN ? AND ? ORDER BY number"
        rows = self._db.rows(found, digest, first, last)
        return b"".join(row[0] for row in rows)[start - first * PART_BYTES :][:length]

    def size(self, digest: bytes) -> int | None:
        """Bytes of a payload; None where it is not."""
        row = self._db.row("SELECT SUM(length(value)) FROM part WHERE digest = ?", digest)
        return None if row is None or row[0] is None else int(row[0])

    def has(self, digest: bytes) -> bool:
        """Whether a payload is here."""
        return self._db.row("SELECT 1 FROM part WHERE digest = ? AND number = 0", digest) is not None

    def keep(self, block: int, kept: Iterable[KeptPayload], payloads: Mapping[bytes, bytes]) -> None:
        """Keep a block's payloads, those that are not here from `payloads`. Within the block's own transaction."""
        for each in kept:
            self._db.write("INSERT OR IGNORE INTO kept VALUES (?, ?, ?, ?)", block, *each)
            if not self.has(each.digest):
                if each.digest not in payloads:
                    raise StoreError(f"the payload 0x{each.digest.hex()} of a block is not at hand")
                self._write(each.digest, payloads[each.digest])

    def _write(self, digest: bytes, payload: bytes) -> None:
        view = memoryview(payload)
        for number, start in enumerate(range(0, max(1, len(payload)), PART_BYTES)):
            with self._db.writing() as connection:
                connection.execute(
                    "INSERT INTO part (digest, number, value) VALUES (?, ?, ?)",
                    (digest, number, view[start : start + PART_BYTES]),
                )

    def put(self, digest: bytes, payload: bytes) -> None:
        """A payload that came back (B6); some block keeps it."""
        if not self.has(digest):
            self._write(digest, payload)

    def kept_by(self, block: int) -> list[KeptPayload]:
        """What a block keeps, whether it is here or pruned."""
        rows = self._db.rows("SELECT digest, kind, size FROM kept WHERE block = ? ORDER BY digest", block)
        return [KeptPayload(*row) for row in rows]

    def drop(self, unwanted: Iterable[tuple[int, str]]) -> int:
        """Delete payloads by (block, kind), unless another block or kind keeps them; returns how many bytes.

        What was kept stays named: a pruned chain can say what is missing.
        """
        chosen = set(unwanted)
        rows = self._db.rows("SELECT block, kind, digest, size FROM kept")
        wanted = {digest for block, kind, digest, _ in rows if (block, kind) not in chosen}
        dropped = {digest: size for _, _, digest, size in rows if digest not in wanted and self.has(digest)}
        self._db.write_all("DELETE FROM part WHERE digest = ?", [(digest,) for digest in dropped])
        return sum(dropped.values())

    def sweep(self) -> int:
        """Delete what no block keeps; returns how many. A crash leaves none: this is for files that were repaired."""
        stray = "SELECT DISTINCT digest FROM part WHERE digest NOT IN (SELECT digest FROM kept)"
        digests = [row[0] for row in self._db.rows(stray)]
        for digest in digests:
            self._db.write("DELETE FROM part WHERE digest = ?", digest)
        return len(digests)

    def missing(self, block: int) -> list[KeptPayload]:
        """What a block keeps and is not here any more."""
        return [each for each in self.kept_by(block) if not self.has(each.digest)]
