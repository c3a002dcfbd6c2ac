"""A device's miner: one process that stays over many blocks, hashes at the rate it may, and drops work at a word.

What runs inside that process, and how it is spoken to, is `chain.mining.process`.
"""

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Self, cast

from chain.errors import MiningError
from chain.mining.process import Lines, Search, check_limit, command
from chain.wire.seal import NONCES, check_work

if TYPE_CHECKING:
    from chain.wire.headers import Header

_ANSWER_S = 1.0
_END_S = 5.0
_CLOSED = "this miner is closed"


@dataclass(frozen=True)
class Found:
    """A nonce that seals `mining_hash`, and the hashes it took."""

    mining_hash: bytes
    nonce: bytes
    hashes: int


class Miner:
    """A miner process, for one thread. Its limit, in hashes per second, is the device's share Psi of its power."""

    def __init__(self, hash_rate_limit: float | None = None) -> None:
        self._limit = check_limit(hash_rate_limit)
        self._work: Search | None = None
        self._found: Found | None = None
        self._hashes, self._busy_s = 0, 0.0
        self._last_id = self._answered_id = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._death = ""
        self._spawn()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The miner process; none after it died or was closed."""
        return self._child.pid if self._child else None

    def start(self, mining_hash: bytes, difficulty: int, start_nonce: int = 0) -> None:
        """Mine this from now on, and nothing else; in a new process if the old one died."""
        check_work(mining_hash, difficulty)
        if self._death == _CLOSED:
            raise MiningError(_CLOSED)
        if self._child is None or self._child.poll() is not None:
            self._release()
            self._spawn()
        self._last_id += 1
        self._found = None
        self._work = Search(self._last_id, mining_hash, difficulty, start_nonce % NONCES)
        self._send(f"work {self._last_id} {mining_hash.hex()} {difficulty} {self._work.nonce}")

    def cancel(self) -> None:
        """Stop mining, for example because another device sealed. A nonce found meanwhile is dropped."""
        self._work = self._found = None
        with contextlib.suppress(MiningError):  # a process that died mines nothing, and `poll` says so
            self._send("cancel")

    def set_limit(self, hashes_per_s: float | None) -> None:
        """Change the rate, also for work under way."""
        self._limit = check_limit(hashes_per_s)
        with contextlib.suppress(MiningError):  # the next process is told
            self._send(f"limit {'none' if self._limit is None else repr(float(self._limit))}")

    def poll(self, timeout_s: float) -> Found | None:
        """The nonce for exactly the current work, waited for at most so long; `MiningError` if the process died."""
        deadline_s = time.monotonic() + timeout_s
        while self._found is None:
            left_s = deadline_s - time.monotonic()
            self._read(left_s)
            if not left_s > 0:
                break
        found, self._found = self._found, None
        return found

    @property
    def hashes(self) -> int:
        """All hashes so far. The process is asked; where it does not answer within a second, the last known number."""
        self._last_id += 1
        deadline_s = time.monotonic() + _ANSWER_S
        with contextlib.suppress(MiningError):  # `poll` says so
            self._send(f"report {self._last_id}")
            while self._answered_id < self._last_id and (left_s := deadline_s - time.monotonic()) > 0:
                self._read(left_s)
        return self._hashes

    @property
    def hash_rate(self) -> float:
        """Measured hashes per second of time with work, so far."""
        hashes = self.hashes  # asked first: the answer brings the seconds too
        return hashes / self._busy_s if self._busy_s else 0.0

    def close(self) -> None:
        """End the process. It has nothing to save, so it is killed: that cannot hang."""
        self._death = _CLOSED
        self._release()

    def _spawn(self) -> None:
        pipe = subprocess.PIPE
        try:
            child = subprocess.Popen(command(os.getpid()), bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603
        except OSError as error:
            raise MiningError(f"cannot start a miner process with '{sys.executable}': {error}") from error
        self._stdin, stdout, self._stderr = (cast(IO[bytes], s) for s in (child.stdin, child.stdout, child.stderr))
        for stream in (self._stdin, self._stderr):
            os.set_blocking(stream.fileno(), False)
        self._child, self._lines = child, Lines(stdout.fileno())
        self.set_limit(self._limit)

    def _send(self, order: str) -> None:
        if self._child is None:
            raise MiningError(self._death)
        try:
            os.write(self._stdin.fileno(), order.encode() + b"\n")
        except BlockingIOError:
            raise self._bury(self._child, "takes no orders") from None
        except BrokenPipeError:
            raise self._bury(self._child) from None

    def _read(self, wait_s: float) -> None:
        if self._child is None:
            raise MiningError(self._death)
        lines = self._lines.read(wait_s)
        if lines is None or (not lines and self._child.poll() is not None):
            raise self._bury(self._child)
        for line in lines:
            match line.split():
                case [b"found", id_, nonce, hashes] if self._work and int(id_) == self._work.id:
                    self._found = Found(self._work.mining_hash, bytes.fromhex(nonce.decode()), int(hashes))
                case [b"tally", id_, hashes, busy_s]:
                    self._answered_id = int(id_)
                    self._hashes, self._busy_s = self._hashes + int(hashes), self._busy_s + float(busy_s)

    def _bury(self, child: "subprocess.Popen[bytes]", how: str = "") -> MiningError:
        """Bury the process and tell why it died: its signal or status, and the last thing it said."""
        if not how:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_ANSWER_S)
            status = child.returncode
            killed = status is not None and status < 0
            how = f"was killed by signal {-status}" if killed else f"ended with status {status}"
        said = (self._stderr.read() or b"").decode(errors="replace").strip().rpartition("\n")[2]
        self._death = f"miner process {child.pid} {how}, expected it to run until close() {said}".strip()
        self._release()
        return MiningError(self._death)

    def _release(self) -> None:
        child, self._child, self._work = self._child, None, None
        if child is None:
            return
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)
        for stream in (child.stdin, child.stdout, child.stderr):
            cast(IO[bytes], stream).close()


def mine(header: "Header", miner: Miner, deadline_s: float) -> "Header | None":
    """The header with a seal found by real work, or none within so many seconds."""
    miner.start(header.mining_hash, header.difficulty)
    found = miner.poll(deadline_s)
    if found is None:
        miner.cancel()
        return None
    return header.with_nonce(found.nonce)
