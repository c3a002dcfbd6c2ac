"""A chain.db that somebody else made is read, not obeyed: small files do not become gigabytes (Q4)."""

import sqlite3
import struct
import zlib
from pathlib import Path

import pytest

from chain.audit.archive import FileArchive
from chain.errors import StoreError
from chain.protocol.endorsements import ENDORSEMENT_BYTES
from chain.store.store import Store
from tests.chain.small_chain import story


@pytest.fixture
def path(tmp_path: Path) -> Path:
    story().write(tmp_path)
    return tmp_path / "chain.db"


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_receipts_that_unpack_to_anything_are_damage(path: Path) -> None:
    bomb = zlib.compress(bytes(100 << 20), 9)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE block SET receipts = ? WHERE number = 2", (bomb,))
    connection.close()
    archive = FileArchive(path)
    with pytest.raises(StoreError, match="chain database: they are cut off, or too many"):
        archive.block(2)
    archive.close()


@pytest.mark.parametrize(
    "statements",
    [
        (
            "DROP TABLE meta",
            "CREATE VIEW meta AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n",
        ),
        ("ALTER TABLE block ADD COLUMN more BLOB GENERATED ALWAYS AS (zeroblob(1000000000))",),
        ("ALTER TABLE part ADD COLUMN more BLOB as(zeroblob(9))",),
        ("CREATE TRIGGER t AFTER INSERT ON block BEGIN DELETE FROM block; END",),
        ("CREATE VIRTUAL TABLE v USING fts5(x)",),
        ("ALTER TABLE part ADD COLUMN more BLOB DEFAULT x'00'",),
        (
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = CAST(replace(sql, 'body BLOB NOT NULL', 'body\nAS\n(zeroblob(9))') AS BLOB)"
            " WHERE name = 'block'",
        ),
    ],
    ids=[
        "endless view",
        "generated column",
        "generated column in short",
        "trigger",
        "virtual table",
        "default that every row has for nothing",
        "generated column told in bytes",
    ],
)
def test_a_database_that_computes_its_rows_is_refused(path: Path, statements: tuple[str, ...]) -> None:
    change(path, *statements)
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"is no chain database: found the .* that computes rows"):
            Store.open(path, read_only=read_only)


def test_nothing_hides_behind_a_hundred_tables(path: Path) -> None:
    change(path, *(f"CREATE TABLE t{number} (a)" for number in range(100)), "CREATE VIEW v AS SELECT 1")
    with pytest.raises(StoreError, match="is no chain database: found more than 100 tables and indices"):
        Store.open(path, read_only=True)


def test_a_thousand_blocks_that_one_server_signed_are_no_million_pairs(path: Path) -> None:
    connection = sqlite3.connect(path)
    rows = [(bytes(20), number.to_bytes(32, "big"), bytes(ENDORSEMENT_BYTES)) for number in range(1000)]
    with connection:
        connection.executemany("INSERT INTO endorsement VALUES (9, 0, ?, ?, ?)", rows)
    connection.close()
    archive = FileArchive(path)
    assert len(archive.contradictions()) == 999
    archive.close()


def test_rows_that_share_their_pages_do_not_become_more_than_the_file(path: Path) -> None:
    """Where the rest of a long row lies is told by a page number: six rows of 3 MB may name the same pages."""
    digest, rest = bytes(32), 768 * 4092 + 469  # some 500 bytes in the first page, the rest elsewhere
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    with connection:
        connection.execute("CREATE TABLE shared (digest, number, value)")
        connection.executemany("INSERT INTO shared VALUES (?, ?, zeroblob(?))", [(digest, n, rest) for n in range(6)])
        connection.execute("DROP TABLE part")
        connection.execute("ALTER TABLE shared RENAME TO part")
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'part'").fetchone()
    connection.close()
    raw = bytearray(path.read_bytes())
    size = int.from_bytes(raw[16:18], "big")
    leaf = memoryview(raw)[(root - 1) * size : root * size]
    cells = [int.from_bytes(leaf[8 + 2 * n : 10 + 2 * n], "big") for n in range(6)]  # from the end of the page on
    first, second = (bytes(leaf[end - 4 : end]) for end in (size, cells[0]))  # where the rest of a row begins
    for end in cells[:5]:
        leaf[end - 4 : end] = first
    del leaf
    pages = int.from_bytes(second, "big") - 1
    raw[28:32] = pages.to_bytes(4, "big")
    path.write_bytes(raw[: pages * size])
    archive = FileArchive(path)
    with pytest.raises(StoreError, match="bytes in an answer, expected at most"):
        archive.payload(digest)
    archive.close()


def test_a_row_of_more_than_a_quarter_of_a_gigabyte_is_not_read(path: Path) -> None:
    change(path, "UPDATE block SET body = zeroblob(300000000) WHERE number = 2")
    archive = FileArchive(path)
    with pytest.raises(StoreError, match="too big"):
        archive.block(2)
    archive.close()


@pytest.mark.parametrize("read_only", [True, False])
def test_a_journal_that_makes_sqlite_delete_another_file_is_refused(
    path: Path, tmp_path: Path, read_only: bool
) -> None:
    """SQLite takes the name at the end of a journal for that of a transaction over several databases, and tidies up."""
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    for name in ("chain.db-wal", "chain.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    page = int.from_bytes(path.read_bytes()[16:18], "big")
    end, name_bytes = bytes.fromhex("d9d505f920a163d7"), str(precious).encode()
    head = end + struct.pack(">5I", 0, 1, path.stat().st_size // page, 512, page)
    tail = struct.pack(">I", (1 << 30) // page + 1) + name_bytes + struct.pack(">2I", len(name_bytes), sum(name_bytes))
    (tmp_path / "chain.db-journal").write_bytes(head.ljust(512, b"\0") + tail + end)
    with pytest.raises(StoreError, match="is no journal of a chain: found the name of another file in it"):
        Store.open(path, read_only=read_only)
    assert precious.read_text() == "years of work"


def test_a_journal_that_a_crash_left_is_taken_up(path: Path, tmp_path: Path) -> None:
    for content in (b"", b"short", bytes(512)):
        (tmp_path / "chain.db-journal").write_bytes(content)
        Store.open(path).close()
