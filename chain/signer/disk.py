"""The file of a key's memory: one process at a time, whole after a power cut, and a mark beside it that tells copies.

A copy of the file that is put back later has forgotten signatures. The mark (`signed.db.id`) counts with the file how
often it was opened: where the two disagree, or the file is another one than it was, it is not the last that was used.
Who puts an image of the whole disk back is not found out.
"""

import contextlib
import json
import os
import secrets
import sqlite3
import stat
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from chain.errors import CodecError, SignedMemoryError
from chain.wire.documents import read_record

_OTHERS = 0o077
_MOST_MARK_BYTES = 1024
_SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",  # a second lock, should somebody remove the first one's file
    "PRAGMA journal_mode = DELETE",  # one file, whole in itself once it is closed
    "PRAGMA synchronous = EXTRA",  # FULL, and where a journal is removed its folder too: a power cut brings none back
    "PRAGMA fullfsync = ON",
)


@dataclass(frozen=True)
class Mark:
    """Which life of a memory this is; in the database and beside it."""

    instance: str
    opens: int
    is_opening: bool = False
    """Beside the database only: it may be one behind. Nothing is signed until both are equal again."""

    @classmethod
    def new(cls) -> "Mark":
        """One that no copy has."""
        return cls(secrets.token_hex(16), 0)

    def is_of(self, kept: "Mark") -> bool:
        """Whether this, found beside a database, belongs to the one in it."""
        behind = (self.opens, self.opens - 1) if self.is_opening else (self.opens,)
        return self.instance == kept.instance and kept.opens in behind


class Disk:
    """An open file. Everything it is asked for after a failed write, other than for want of space, is refused."""

    def __init__(self, path: Path, only_new: str = "") -> None:
        """Lock and open the file; where there is none it is made. What is no plain file of its owner is refused.

        `only_new`: why no memory may be there yet; empty where one may.
        """
        self.path, self.mark_path = path, path.with_name(f"{path.name}.id")
        self._pid, self._thread, self._broken = os.getpid(), threading.RLock(), ""
        with contextlib.ExitStack() as opened:
            opened.enter_context(_alone(path))
            for beside in (path, self.mark_path, path.with_name(f"{path.name}-journal")):
                check_plain(beside)
            if only_new and (path.exists() or self.mark_path.exists()):
                raise SignedMemoryError(f"{path} or its mark exists, expected neither: {only_new}")
            if not path.exists():
                write_new(path, b"")
            self._connection = opened.enter_context(contextlib.closing(_connect(path)))
            self.inode = path.stat().st_ino
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Give the file back."""
        self._broken = "it was closed"
        self._opened.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Read and write; when it is left all of it is on the disk, or nothing and an error says why."""
        with self._thread:
            self._check_usable()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                finally:
                    if self._connection.in_transaction:  # a full disk may have ended it
                        self._connection.execute("ROLLBACK")
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                    self._broken = str(error)  # what the disk has now is known to whoever opens it anew
                raise SignedMemoryError(
                    f"{self.path} cannot be written: {error}. Nothing was signed: make room, or mend the disk"
                ) from error

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise SignedMemoryError(f"{self.path} was opened by process {self._pid}: a child of it does not sign")
        if self._broken:
            raise SignedMemoryError(f"{self.path} is not used any more ({self._broken}): start this process again")
        if self._connection.in_transaction:
            raise SignedMemoryError(f"{self.path} is in use: found a call of the memory in what it calls to sign")

    def found_mark(self) -> Mark | None:
        """What is beside the database; None where nothing is, or nothing that can be read."""
        try:
            with self.mark_path.open("rb") as file:
                return read_record(Mark, file.read(_MOST_MARK_BYTES))
        except (OSError, CodecError):
            return None

    def count_opening(self, kept: Mark) -> None:
        """One more in the database and beside it; a crash in between leaves a pair that still belongs together."""
        counted = replace(kept, opens=kept.opens + 1)
        self._write_mark(replace(counted, is_opening=True))
        with self.transaction() as connection:
            connection.execute("UPDATE kept SET value = ? WHERE name = 'opens'", (str(counted.opens),))
        self._write_mark(counted)

    def _write_mark(self, mark: Mark) -> None:
        part = self.mark_path.with_name(f"{self.mark_path.name}.part")
        try:
            part.unlink(missing_ok=True)  # of a process that was killed
            write_new(part, json.dumps(asdict(mark)).encode())
            part.replace(self.mark_path)
            settle_folder(part.parent)
        except OSError as error:
            raise SignedMemoryError(f"{self.mark_path} cannot be written: {error.strerror}") from error


def write_new(path: Path, content: bytes) -> None:
    """A file that only its owner reads, on the disk with its name; `SignedMemoryError` where there is one."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        settle_folder(path.parent)
    except FileExistsError as error:
        raise SignedMemoryError(f"{path} exists, expected no file there; choose another place") from error
    except OSError as error:
        raise SignedMemoryError(f"{path} cannot be written: {error.strerror}") from error


def check_plain(path: Path) -> None:
    """Raise `SignedMemoryError` unless the path is free, or a file with one name that only its owner reads.

    By a second name another process would lock another file.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise SignedMemoryError(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise SignedMemoryError(
            f"{path}: found a link, pipe, folder or a file of several names, expected a plain file; remove it"
        )
    if os.name == "posix" and found.st_mode & _OTHERS:
        raise SignedMemoryError(f"{path} is open to others (mode {found.st_mode & 0o777:o}); run: chmod 600 {path}")


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else has the key's memory; ends with this process at the latest. The lock's file stays."""
    beside = path.with_name(f"{path.name}.lock")
    if not beside.parent.is_dir():  # filelock would make it
        raise SignedMemoryError(f"{path} cannot be kept: found no folder {beside.parent}; make it, for its owner alone")
    check_plain(beside)
    lock = FileLock(beside, blocking=False, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise _in_use(path) from error
    except OSError as error:
        raise SignedMemoryError(f"{path} cannot be locked: {beside}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _in_use(path: Path) -> SignedMemoryError:
    return SignedMemoryError(
        f"{path} is in use by another process, expected none: two with one key would sign twice; stop the other one"
    )


def _connect(path: Path) -> sqlite3.Connection:
    target = f"{path.absolute().as_uri()}?mode=rw"
    try:
        connection = sqlite3.connect(target, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
        with contextlib.ExitStack() as undo:
            undo.callback(connection.close)
            for setting in _SETTINGS:
                connection.execute(setting)
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            undo.pop_all()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise _in_use(path) from error
        raise SignedMemoryError(
            f"{path} is no memory of a key, or is damaged: {error}. Do not guess what it held: move it away, and the "
            "key waits for a new round"
        ) from error
    return connection


def settle_folder(folder: Path) -> None:
    """A name in a folder survives the loss of power once the folder is on the disk too."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
