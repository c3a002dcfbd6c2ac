"""A database that somebody has edited: whatever byte is changed, the audit says where, or nothing was changed."""

import contextlib
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chain.audit.archive import FileArchive
from chain.audit.found import Inspection
from chain.audit.inspection import inspect_chain
from chain.errors import ChainError, InspectionError, StoreError
from tests.chain.network import genesis
from tests.chain.small_chain import forged, story

COLUMNS = ("header", "body", "receipts")
FLIPS = 100
_PAYLOAD = "block 1: the payload 0x[0-9a-f]{64} has another digest: 0x[0-9a-f]{64}"
Edit = Callable[[sqlite3.Connection], Any]


def audited(folder: Path, edit: Edit) -> Inspection:
    """What an auditor finds in a copy that was edited."""
    path = story().write(folder)
    connection = sqlite3.connect(path)
    with connection:
        edit(connection)
    connection.close()
    archive = FileArchive(path)
    try:
        return inspect_chain(archive)
    finally:
        archive.close()


def _flip(column: str, number: int, at: int = -1) -> Edit:
    """Flip a bit of a byte of a blob; the last byte is in the middle of a signature, or of a checksum."""

    def edit(connection: sqlite3.Connection) -> None:
        blob = bytearray(_blob(connection, column, number))
        blob[at] ^= 1
        _store(connection, column, number, bytes(blob))

    return edit


def _blob(connection: sqlite3.Connection, column: str, number: int) -> bytes:
    return bytes(connection.execute(f"SELECT {column} FROM block WHERE number = ?", (number,)).fetchone()[0])  # noqa: S608


def _store(connection: sqlite3.Connection, column: str, number: int, blob: bytes) -> None:
    connection.execute(f"UPDATE block SET {column} = ? WHERE number = ?", (blob, number))  # noqa: S608


def _copy(column: str, source: int, number: int) -> Edit:
    return lambda connection: _store(connection, column, number, _blob(connection, column, source))


def _swap(left: int, right: int) -> Edit:
    def edit(connection: sqlite3.Connection) -> None:
        for source, target in ((left, -1), (right, left), (-1, right)):
            connection.execute("UPDATE block SET number = ? WHERE number = ?", (target, source))

    return edit


def _run(statement: str, *values: Any) -> Edit:
    return lambda connection: connection.execute(statement, values)


def test_a_database_that_nobody_edited_fits(tmp_path: Path) -> None:
    assert audited(tmp_path, lambda _: None).blocks == 8


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_flip("body", 3), "block 3: its transactions are not those the header commits to"),
        (_flip("body", 3, 0), "block 3: the body of block 0x[0-9a-f]{64} is damaged in the chain database"),
        (_copy("body", 2, 3), "block 3: "),
        (_flip("receipts", 4), "block 4: the receipts of block 0x[0-9a-f]{64} is damaged in the chain database"),
        (_copy("receipts", 2, 4), "block 4: "),
        (_copy("receipts", 0, 4), "block 4: block 4 has [0-9]+ transactions and 0 receipts"),
        (_flip("header", 5, 100), "block 5: its header has hash 0x[0-9a-f]{64}, the database says 0x[0-9a-f]{64}"),
        (_flip("header", 5, 0), "block 5: header 0x[0-9a-f]{64} is damaged in the chain database"),
        (_copy("header", 4, 5), "block 5: its header has hash"),
        (_swap(3, 4), "block 3: found block 4 in its place"),
        (_swap(0, 4), "block 0: found block 4 in its place"),
        (_run("DELETE FROM block WHERE number = 4"), "block 4: there is no block 4; the head is 7"),
        (_run("UPDATE block SET canonical = 0 WHERE number = 4"), "block 4: there is no block 4; the head is 7"),
        (_run("UPDATE meta SET value = ? WHERE name = 'genesis'", genesis(chain_id=7).canonical_json()), "block 0: "),
        (_run("UPDATE part SET value = zeroblob(52) WHERE length(value) = 52"), _PAYLOAD),
        (_run("UPDATE part SET value = x'' WHERE length(value) = 52"), _PAYLOAD),
        (_run("UPDATE part SET value = 'text' WHERE length(value) = 52"), "block 1: .*chain.db is damaged: "),
        (_flip("header", 7, 200), "the head: the head's header has hash 0x[0-9a-f]{64}, which the database"),
    ],
)
def test_an_edited_database_does_not_fit(tmp_path: Path, edit: Edit, message: str) -> None:
    with pytest.raises(InspectionError, match=f"^{message}"):
        audited(tmp_path, edit)


def test_payloads_that_somebody_deleted_are_said_to_be_missing(tmp_path: Path) -> None:
    """A file cannot tell whether they were pruned or hidden: what it says of those rounds is signed, and no more."""
    assert audited(tmp_path, _run("DELETE FROM part WHERE length(value) = 32")).pruned == [2, 3, 4, 5, 6]
    assert audited(tmp_path, _run("DELETE FROM kept")).pruned == [], "the posts say what belongs to a block"


def test_another_head_than_the_last_block_does_not_fit(tmp_path: Path) -> None:
    """A block beside the canonical one, made the head by hand."""
    other = forged(story().blocks[7], timestamp=story().headers[7].timestamp + 1).header

    def edit(connection: sqlite3.Connection) -> None:
        row = (other.hash, 7, "8", 0, other.to_bytes(), *(_blob(connection, each, 7) for each in ("receipts", "body")))
        columns = "hash, number, total_difficulty, canonical, header, receipts, body"
        connection.execute(f"INSERT INTO block ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608
        connection.execute("UPDATE meta SET value = ? WHERE name = 'head'", (other.hash,))

    with pytest.raises(InspectionError, match=rf"^block 7: 0x[0-9a-f]{{64}} is not the head 0x{other.hash.hex()}$"):
        audited(tmp_path, edit)


def test_an_earlier_head_is_a_shorter_chain_that_fits(tmp_path: Path) -> None:
    """Nobody can see from a copy alone that it is not the latest: compare the head the audit prints."""
    edit = _run("UPDATE meta SET value = ? WHERE name = 'head'", story().headers[5].hash)
    assert audited(tmp_path, edit).hashes[-1] == story().headers[5].hash


def test_no_flipped_byte_is_accepted_unless_it_means_the_same(tmp_path: Path) -> None:
    """A few bits of zlib's framing mean nothing; whatever else is flipped, the chain does not fit."""
    path, rng, harmless = story().write(tmp_path), random.Random(1), 0
    sizes = [(column, number, _size(path, column, number)) for column in COLUMNS for number in range(8)]
    for column, number, size in rng.choices(sizes, [size for *_, size in sizes], k=FLIPS):
        at, bits = rng.randrange(size), rng.randrange(1, 256)
        try:
            _inspect_flipped(path, column, number, at, bits)
        except (InspectionError, StoreError):
            continue
        assert column == "receipts", f"{column} of block {number}: byte {at} ^ {bits} was accepted"
        harmless += 1
    assert harmless < FLIPS // 50


def _size(path: Path, column: str, number: int) -> int:
    connection = sqlite3.connect(path)
    size = len(_blob(connection, column, number))
    connection.close()
    return size


def _inspect_flipped(path: Path, column: str, number: int, at: int, bits: int) -> None:
    """Inspect with one byte changed, then put it back. Raises what the audit raises."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    blob = _blob(connection, column, number)
    try:
        _store(connection, column, number, blob[:at] + bytes([blob[at] ^ bits]) + blob[at + 1 :])
        archive = FileArchive(path)
        try:
            inspect_chain(archive)
            found = archive.block(number)
        finally:
            archive.close()
        assert found == story().blocks[number], "what was accepted reads as something else"
    finally:
        _store(connection, column, number, blob)
        connection.close()


@pytest.mark.parametrize("column", COLUMNS)
def test_no_truncated_blob_is_accepted(tmp_path: Path, column: str) -> None:
    for number in range(1, 8):
        with pytest.raises((InspectionError, StoreError)):
            audited(tmp_path, lambda c, n=number: _store(c, column, n, _blob(c, column, n)[:-1]))  # type: ignore[misc]


def test_a_damaged_file_is_refused_with_an_error_of_ours(tmp_path: Path) -> None:
    rng, refused = random.Random(2), 0
    for _ in range(40):
        content = bytearray(story().database)
        for at in rng.choices(range(len(content)), k=20):
            content[at] ^= 0xFF
        path = tmp_path / "chain.db"
        path.write_bytes(content)
        try:
            with contextlib.closing(FileArchive(path)) as archive:
                inspect_chain(archive)
        except ChainError:
            refused += 1
    assert refused > 20, "the rest hit pages that hold no block"
