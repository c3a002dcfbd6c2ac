"""One SQLite file: all of a transaction or nothing, and no error but ours. Crashes and locks are in test_store.py."""

import sqlite3
from pathlib import Path

import pytest

from chain.errors import StoreError
from chain.store.database import CREATE, IN_MEMORY, READ, WRITE, Database
from tests.chain.store.faults import Faulty, disk_error


def numbers(database: Database) -> list[int]:
    return [row[0] for row in database.rows("SELECT n FROM t ORDER BY n")]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path / "some.db", CREATE)
    made.make_durable()
    made.write("CREATE TABLE t (n UNIQUE)")
    return made


def write_and_fail(database: Database, *values: int) -> None:
    with database.transaction():
        for value in values:
            database.write("INSERT INTO t VALUES (?)", value)
        raise ValueError("stop")


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    with database.transaction():
        database.write_all("INSERT INTO t VALUES (?)", [(1,), (2,)])
    with pytest.raises(ValueError, match="stop"):
        write_and_fail(database, 3, 4)
    assert numbers(database) == [1, 2]


def test_an_inner_transaction_is_part_of_the_outer_one(database: Database) -> None:
    def write_twice_and_fail() -> None:
        with database.transaction():
            with database.transaction():
                database.write("INSERT INTO t VALUES (1)")
            write_and_fail(database, 2)

    with pytest.raises(ValueError, match="stop"):
        write_twice_and_fail()
    assert numbers(database) == []
    with database.transaction(), database.transaction():
        database.write("INSERT INTO t VALUES (3)")
    assert numbers(database) == [3]


def test_a_statement_that_fails_undoes_its_transaction(database: Database) -> None:
    with pytest.raises(StoreError, match=r"some\.db cannot be written: UNIQUE"), database.transaction():
        database.write_all("INSERT INTO t VALUES (?)", [(1,), (1,)])
    assert numbers(database) == []


def test_a_commit_that_fails_is_undone(database: Database) -> None:
    """BEGIN, INSERT, COMMIT: else the next block would be written into a transaction that nobody ends."""
    real = database._connection
    database._connection = Faulty(real, disk_error, at=3)  # type: ignore[assignment]
    with pytest.raises(StoreError, match="disk I/O error"), database.transaction():
        database.write("INSERT INTO t VALUES (1)")
    database._connection = real
    assert not real.in_transaction
    assert numbers(database) == []
    with database.transaction():
        database.write("INSERT INTO t VALUES (2)")
    database.close()
    with sqlite3.connect(str(database._path)) as other:
        assert other.execute("SELECT n FROM t").fetchall() == [(2,)]
    other.close()


def test_after_a_rollback_that_fails_nothing_is_written_as_if_all_were_well(database: Database) -> None:
    real = database._connection
    database._connection = Faulty(real, disk_error, at=3, dead=True)  # type: ignore[assignment]
    with pytest.raises(StoreError, match="disk I/O error"), database.transaction():
        database.write("INSERT INTO t VALUES (1)")
    database._connection = real
    with pytest.raises(StoreError, match="cannot start a transaction within a transaction"), database.transaction():
        database.write("INSERT INTO t VALUES (2)")


def test_what_sqlite_says_leaves_as_our_error(database: Database) -> None:
    with pytest.raises(StoreError, match="no such table: u"):
        database.rows("SELECT * FROM u")
    with pytest.raises(StoreError, match="no such table: u"):
        database.row("SELECT * FROM u")
    with pytest.raises(StoreError, match="cannot be written: near"):
        database.write("NONSENSE")
    with pytest.raises(StoreError, match="cannot be written"):
        database.write_all("INSERT INTO u VALUES (?)", [(1,)])
    database.close()
    database.close()
    with pytest.raises(StoreError, match="closed"):
        database.rows("SELECT 1")


def test_modes_are_kept(database: Database, tmp_path: Path) -> None:
    database.close()
    with pytest.raises(StoreError, match=r"some\.db exists"):
        Database(tmp_path / "some.db", CREATE)
    reading = Database(tmp_path / "some.db", READ)
    with pytest.raises(StoreError, match="readonly"):
        reading.write("INSERT INTO t VALUES (1)")
    with pytest.raises(StoreError, match=r"none\.db cannot be opened"):
        Database(tmp_path / "none.db", WRITE)
    reading.close()


def test_memory_is_nobody_elses() -> None:
    one, other = Database(IN_MEMORY, CREATE), Database(IN_MEMORY, CREATE)
    one.write("CREATE TABLE t (n)")
    with pytest.raises(StoreError, match="no such table"):
        other.rows("SELECT * FROM t")
    one.check_whole()
