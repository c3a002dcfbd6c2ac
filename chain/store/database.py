"""One SQLite file with real transactions (C9), for one writing process at a time; its errors leave as `StoreError`."""

import contextlib
import errno
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from chain.errors import StoreError

IN_MEMORY = ":memory:"
CREATE, WRITE, READ = "rwc", "rw", "ro"
Value = bytes | int | str
_MOST_ROW_BYTES = 256 << 20
_MOST_TABLES = 100
_FREE_BYTES = 1 << 20
"""Of an answer; a longer one has no more bytes than the file"""
_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")
_MADE_WHEN_READ = re.compile(r"\b(AS|GENERATED|VIRTUAL|DEFAULT)\b", re.IGNORECASE)


class Database:
    """An open file. Not locked against threads: its owner serialises access."""

    def __init__(self, path: Path | str, mode: str) -> None:
        """Open the file. Nothing is written yet: it may be somebody else's."""
        self._path, self._is_writing = path, False
        with contextlib.ExitStack() as opened:
            if path != IN_MEMORY and mode != READ:
                opened.enter_context(_reserve(Path(path)))
            if path != IN_MEMORY:
                _check_journal(Path(path).resolve())
            if mode == CREATE and path != IN_MEMORY and Path(path).exists():
                raise StoreError(f"{path} exists; open it, or choose another place for a new chain")
            self._connection = opened.enter_context(contextlib.closing(_connect(path, mode)))
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Give the file back; what was committed is there."""
        self._opened.close()

    def check_whole(self) -> None:
        """Raise `StoreError` for a file cut within a page: SQLite would read zeros there."""
        if self._path == IN_MEMORY or _size(Path(f"{self._path}-wal")):  # a page may be under way from there
            return
        page_bytes = int(self.rows("PRAGMA page_size")[0][0])
        if last := _size(Path(self._path)) % page_bytes:
            raise StoreError(f"{self._path} is damaged: found {last} bytes of its last page, expected {page_bytes}")

    def check_plain(self) -> None:
        """Raise `StoreError` unless the file has tables and indices alone: in others a row may be made when it is read,
        by a view that never ends, or by a column that says a gigabyte of zeros (Q4).
        """
        found = self.rows("SELECT type, name, sql FROM sqlite_master LIMIT ?", _MOST_TABLES + 1)
        if len(found) > _MOST_TABLES:
            raise StoreError(f"{self._path} is no chain database: found more than {_MOST_TABLES} tables and indices")
        for kind, name, sql in found:
            is_text = sql is None or isinstance(sql, str)  # SQLite obeys bytes as well
            if kind not in ("table", "index") or not is_text or _MADE_WHEN_READ.search(sql or ""):
                raise StoreError(f"{self._path} is no chain database: found the {kind} {name!r:.80} that computes rows")

    def make_durable(self) -> None:
        """From now on what is committed survives a power cut too, not only a killed process."""
        self.write("PRAGMA journal_mode = WAL")
        self.write("PRAGMA synchronous = FULL")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside, or none. Inside another one it is part of that."""
        if self._is_writing:
            yield
            return
        self.write("BEGIN IMMEDIATE")
        self._is_writing = True
        try:
            yield
            self.write("COMMIT")
        finally:
            self._is_writing = False
            if self._connection.in_transaction:  # something failed; a full disk may have ended it already
                self.write("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection to execute statements on that have no answer; what fails leaves as `StoreError`."""
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from error

    def write(self, statement: str, *values: Value) -> None:
        """Execute one statement that has no answer."""
        with self.writing() as connection:
            connection.execute(statement, values)

    def write_all(self, statement: str, rows: Sequence[Sequence[Value]]) -> None:
        """Execute a statement once per row."""
        with self.writing() as connection:
            connection.executemany(statement, rows)

    def rows(self, query: str, *values: Value) -> list[tuple[Any, ...]]:
        """What a query finds."""
        found, size = [], 0
        try:
            for row in self._connection.execute(query, values):
                found.append(row)
                size += sum(len(each) if isinstance(each, bytes | str) else 1 for each in row)
                if size > _FREE_BYTES:
                    self._check_answer(size)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} is no chain database, or is damaged: {error}") from error
        return found

    def _check_answer(self, size: int) -> None:
        """Raise `StoreError` where rows have more bytes than the file: pages that several of them share, say (Q4)."""
        if self._path == IN_MEMORY:
            return
        most = _size(Path(self._path)) + _size(Path(f"{self._path}-wal"))
        if size > max(most, _FREE_BYTES):
            raise StoreError(f"{self._path} is damaged: found {size:,} bytes in an answer, expected at most {most:,}")

    def row(self, query: str, *values: Value) -> tuple[Any, ...] | None:
        """The first row a query finds."""
        found = self.rows(query, *values)
        return found[0] if found else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check_journal(path: Path) -> None:
    """Raise `StoreError` where a journal beside the database names another file: SQLite would delete that (Q4).

    Only a transaction over several databases ends its journals so, and we have none.
    """
    beside = path.with_name(f"{path.name}-journal")
    if beside.is_file():
        with beside.open("rb") as file:
            file.seek(-min(_size(beside), len(_JOURNAL_END)), os.SEEK_END)
            if file.read() == _JOURNAL_END:
                raise StoreError(f"{beside} is no journal of a chain: found the name of another file in it; remove it")


def _connect(path: Path | str, mode: str) -> sqlite3.Connection:
    target = "file::memory:" if path == IN_MEMORY else f"{Path(path).absolute().as_uri()}?mode={mode}"
    if mode == READ and not os.access(Path(path).absolute().parent, os.W_OK):
        target += "&immutable=1"  # SQLite could not make its own files beside it; nobody else can write there either
    try:
        found = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
        found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_ROW_BYTES)
        return found
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be opened: {error}") from error


@contextlib.contextmanager
def _reserve(path: Path) -> Iterator[None]:
    """Keep other processes from writing to the file; ends with this process at the latest.

    The lock is on a file beside it, which stays: SQLite locks the database in its own way, and a lock file that is
    removed can be locked by two. Where the file system has no locks there is no second best: it is refused.
    """
    beside = path.resolve().with_name(f"{path.resolve().name}.lock")
    if not beside.parent.is_dir():  # filelock would make it
        raise StoreError(f"{path} cannot be opened: {beside}: {os.strerror(errno.ENOENT)}")
    lock = FileLock(beside, blocking=False, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"{path} is in use by another process: stop that one, or open it for reading") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {beside}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
