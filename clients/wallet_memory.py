"""What a device remembers of its chain, in a file where it has a disk: after a restart it answers nothing anew (Q5)."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from filelock import FileLock, Timeout
from pydantic import Field

from chain.errors import CodecError
from chain.protocol.turns import MOST_SERVERS
from chain.wire.documents import canonical_json, read_record
from clients.errors import OrderError, WalletError
from policy.files import replacing

_MOST_BYTES = 8192
_OTHERS = 0o077
_LONGEST_WAIT_S = 10.0
Count = Annotated[int, Field(ge=0, lt=2**63)]
Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""32 bytes in hex, or nothing yet"""


@dataclass(frozen=True)
class Remembered:
    """One device's knowledge of one network; it only ever grows."""

    network: Digest
    """Hash of the founding block."""
    device: Annotated[str, Field(pattern=r"^0x[0-9a-f]{40}$")]
    """Address of its key."""
    proven_hash: Digest
    proven_round: Count = 0
    """The last block that was proven to it; its number is one more than its round (P1)."""
    joined: Annotated[tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")], ...], Field(max_length=MOST_SERVERS)] = ()
    """Servers that are known to have joined after the founding: a majority of long ago proves nothing (Q2)."""
    answered_round: Count = 0
    order: Digest = ""
    """The order that it answered in that round, at attempt 0."""
    answers: Count = 0
    """How often."""
    signed_round: Count = 0
    signed: Digest = ""
    """sha256 of the transaction that it signed in that round."""

    def answering(self, round_: int, order: str, most: int) -> "Remembered":
        """One more answer to this order of a round; `OrderError` where there was another, or there were too many."""
        if round_ < self.answered_round:
            raise OrderError(f"order: found round {round_}, this device has answered in round {self.answered_round}")
        if round_ > self.answered_round:
            return replace(self, answered_round=round_, order=order, answers=1)
        if order != self.order:
            raise OrderError(f"order: this device has answered another order of round {round_} already")
        if self.answers >= most:
            raise OrderError(f"order: this device has answered it {self.answers} times, at most {most} are allowed")
        return replace(self, answers=self.answers + 1)

    def knowing(self, round_: int, block_hash: str, joined: Iterable[str] = ()) -> "Remembered":
        """A block that was proven to it, and who had joined by then; it goes forward only."""
        if round_ < self.proven_round:
            return self
        members = tuple(sorted({*self.joined, *joined}))
        return replace(self, proven_round=round_, proven_hash=block_hash, joined=members)

    def signing(self, round_: int, signed: str) -> "Remembered":
        """Its one signature of a round (P15); `OrderError` where there is another already."""
        if (round_, signed) != (self.signed_round, self.signed) and round_ <= self.signed_round:
            raise OrderError(f"order: this device has signed another gradient for round {self.signed_round} already")
        return replace(self, signed_round=round_, signed=signed)


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
    try:
        found = read_record(Remembered, content)
    except CodecError as error:
        raise WalletError(f"{path} is no device's memory: {error}") from error
    if canonical_json(asdict(found)) != content:
        raise WalletError(f"{path} is no device's memory: it would be written otherwise")
    return found


def _write(path: Path, known: Remembered) -> None:
    """On the disk before anybody hears of it."""
    try:
        with replacing(path) as part:
            part.unlink(missing_ok=True)  # of a process that was killed
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(canonical_json(asdict(known)))
                file.flush()
                os.fsync(file.fileno())
        _settle(path.parent)
    except OSError as error:
        raise WalletError(f"{path} cannot be written: {error.strerror}") from error


def _settle(folder: Path) -> None:
    """A new name in a folder survives the loss of power once the folder is on the disk too."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
