"""Where a device keeps what it remembers, a file where it has a disk: after a restart it answers nothing anew (Q5)."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout

from chain.errors import CodecError
from chain.signer.disk import settle_folder
from chain.signer.memory import MOST_AHEAD_S
from chain.wire.documents import canonical_json, read_canonical_json, read_record
from clients.errors import OrderError, WalletError
from clients.remembered import Remembered
from policy.clock import epoch_s
from policy.files import replacing

_MOST_BYTES = 8192
_OTHERS = 0o077
_LONGEST_WAIT_S = 10.0


class Start:
    """When a device started that has lost its memory. Its clock may be put right meanwhile: a small computer begins in
    the past.
    """

    def __init__(
        self,
        clock: Callable[[], float] = epoch_s,
        elapsed: Callable[[], float] = time.monotonic,
        since_s: float | None = None,
    ) -> None:
        """`since_s`: by `elapsed`, where an earlier process of this boot has found the loss; else now."""
        self._clock, self._elapsed = clock, elapsed
        self._since_s = elapsed() if since_s is None else since_s

    def is_before(self, sealed_s: float) -> bool:
        """Whether a block was sealed after it; `OrderError` where the clock cannot tell."""
        now_s = self._clock()
        if sealed_s > now_s + MOST_AHEAD_S:
            raise OrderError(
                f"order: this device has lost its memory, and its clock is {sealed_s - now_s:.0f} s behind a sealed "
                "block: set the clock (install chrony)"
            )
        return sealed_s > now_s - (self._elapsed() - self._since_s)


class WalletMemory:
    """Keeps what a device remembers; with a path in a file that only its owner reads, written before it answers."""

    def __init__(self, fresh: Remembered, path: Path | None = None) -> None:
        """`fresh` is a device that has just joined; a file that is there already must be of the same one."""
        self._path, self.now = path, fresh
        with self._alone():
            self.now = self._load()

    def change(self, step: Callable[[Remembered], Remembered]) -> None:
        """Remember what `step` makes of what is known; what it raises leaves everything as it was."""
        with self._alone():
            known = self._load()
            changed = step(known)
            if self._path is not None and changed != known:
                _write(self._path, changed)
            self.now = changed

    def write(self) -> None:
        """As it is, where there is no file yet."""
        with self._alone():
            if self._path is not None and not self._path.exists():
                _write(self._path, self._load())

    def _alone(self) -> AbstractContextManager[None]:
        """No other process of this device between reading and writing."""
        return nullcontext() if self._path is None else _locked(self._path)

    def _load(self) -> Remembered:
        found = None if self._path is None else _read(self._path)
        if found is None:
            return self.now
        if (found.network, found.device) != (self.now.network, self.now.device):
            raise WalletError(f"{self._path} is the memory of {found.device} on {found.network:.12}: another network")
        return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    if not path.parent.is_dir():  # filelock would make it
        raise WalletError(f"{path} cannot be kept: there is no folder {path.parent}")
    beside = path.with_name(f"{path.name}.lock")
    lock = FileLock(beside, timeout=_LONGEST_WAIT_S, mode=0o600, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise WalletError(f"{path} is in use by another process of this device") from error
    except OSError as error:
        raise WalletError(f"{path} cannot be locked: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _read(path: Path) -> Remembered | None:
    """None where there is no file yet. One that is damaged is not forgotten: whoever forgets signs twice."""
    try:
        with path.open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WalletError(f"{path} cannot be read: {error.strerror}") from error
    if os.name == "posix" and mode & _OTHERS:
        raise WalletError(f"{path} is open to others (mode {mode & 0o777:o}); run: chmod 600 {path}")
    if len(content) > _MOST_BYTES:
        raise WalletError(f"{path} is no device's memory: found more than {_MOST_BYTES} bytes")
    _check_format(path, content)
    try:
        found = read_record(Remembered, content)
    except CodecError as error:
        raise WalletError(f"{path} is no device's memory: {error}") from error
    if canonical_json(asdict(found)) != content:
        raise WalletError(f"{path} is no device's memory: it would be written otherwise")
    return found


def _check_format(path: Path, content: bytes) -> None:
    """Raise where the file is sound, and older than attempts: what it says of orders names none of today's."""
    try:
        found = read_canonical_json(content)
    except CodecError:
        return
    if isinstance(found, dict) and {"order", "answered_round"} <= found.keys():
        raise WalletError(
            f"{path} was written by an earlier version, which knew no attempts: "
            f"when round {found['answered_round']} is over, move it away and start this device again"
        )


def _write(path: Path, known: Remembered) -> None:
    """On the disk before anybody hears of it."""
    try:
        with replacing(path) as part:
            part.unlink(missing_ok=True)  # of a process that was killed
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(canonical_json(asdict(known)))
                file.flush()
                os.fsync(file.fileno())
        settle_folder(path.parent)
    except OSError as error:
        raise WalletError(f"{path} cannot be written: {error.strerror}") from error
