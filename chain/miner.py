"""A device's miner: one process that stays over many blocks, hashes at the rate it may, and drops work at a word.

The process imports the standard library only and can find nothing else (`-I -S`): it starts in well under 0.2 s. Orders
reach its standard input as lines: `work <id> <mining hash> <difficulty> <nonce>`, `cancel`, `limit <hashes per s>` (or
`none`), `report <id>`. It answers `found <id> <nonce> <hashes>`, and `tally <id> <hashes> <busy s>` since the last one.
It ends with its parent: at the end of its input or, where a fork of the parent still holds that pipe, within a second.
POSIX only (`select.poll` on pipes).
"""

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, cast

from chain.errors import MiningError
from chain.seal import NONCES, check_work, find_nonce

if TYPE_CHECKING:
    from chain.headers import Header

_BOOT = "import sys; sys.path.append(sys.argv[1]); from chain.miner import serve; serve(int(sys.argv[2]))"
_SLICE_S = 0.01  # between two looks at the orders
_BURST_S = 0.25  # how much of a stall a limited miner makes up for
_LOOK_S = 1.0  # between two looks at whether the other side lives
_ANSWER_S = 1.0
_END_S = 5.0
_LONGEST_LINE = 4096
_CLOSED = "this miner is closed"


def check_limit(hashes_per_s: float | None) -> float | None:
    """Raise `MiningError` unless it is a rate; `None` is as fast as it goes, 0 is not at all."""
    if hashes_per_s is not None and not (math.isfinite(hashes_per_s) and hashes_per_s >= 0):
        raise MiningError(f"found a limit of {hashes_per_s} hashes per second, expected a finite number >= 0 or None")
    return hashes_per_s


class Pace:
    """How many hashes are due. They are earned by time with work, never by idling: a limit holds over many blocks."""

    def __init__(self, limit: float | None = None) -> None:
        self._earned = 0.0
        self.set_limit(limit)

    def set_limit(self, limit: float | None) -> None:
        """From now on; what the old limit earned counts at most as a stall under the new one."""
        self._limit = limit
        self._batch = max(1.0, (limit or 0.0) * _SLICE_S)
        self.earn(0.0)

    def earn(self, working_s: float) -> None:
        """Credit for time with work, at most `_BURST_S` of it: a suspended device must not race afterwards."""
        limit = self._limit or 0.0
        self._earned = min(self._earned + limit * working_s, max(1.0 if limit else 0.0, limit * _BURST_S))

    def take(self, most: int) -> int:
        """The hashes to do now; 0 until a whole slice is due, so that a miner sleeps in between."""
        if self._limit is None:
            return most
        count = 0 if self._earned < self._batch else min(int(self._earned), most)
        self._earned -= count
        return count

    @property
    def wait_s(self) -> float:
        """Until `take` gives something, or longer than anybody waits."""
        return (self._batch - self._earned) / self._limit if self._limit else _LOOK_S


class _Lines:
    """Whole lines from a pipe. Garbage without an end does not fill the memory."""

    def __init__(self, fd: int) -> None:
        self._fd, self._rest = fd, b""
        self._poller = select.poll()
        self._poller.register(fd, select.POLLIN)

    def read(self, wait_s: float) -> list[bytes] | None:
        """What is there, waited for at most so long and at most `_LOOK_S`; `None` once the other side is gone."""
        if not self._poller.poll(1000 * min(max(0.0, wait_s), _LOOK_S)):
            return []
        data = os.read(self._fd, 65536)
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        return lines if data else None


@dataclass
class _Work:
    id: int
    mining_hash: bytes
    difficulty: int
    nonce: int
    hashes: int = 0


# --- inside the miner process


class _Worker:
    """The state of a miner process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._now = clock, clock()
        self._work: _Work | None = None
        self._pace = Pace()
        self._slice_hashes = 1000
        self._hashes, self._busy_s = 0, 0.0

    def elapse(self) -> float:
        """Account for the time since the last call, which was work if there was work."""
        before_s, self._now = self._now, self._clock()
        elapsed_s = self._now - before_s
        if self._work is not None:
            self._busy_s += elapsed_s
            self._pace.earn(elapsed_s)
        return elapsed_s

    def obey(self, order: bytes) -> bytes:
        """The answer to an order, if it has one. What is no order is ignored: no miner dies of a garbled line."""
        with contextlib.suppress(ValueError, MiningError):
            match order.split():
                case [b"work", id_, mining_hash, difficulty, nonce]:
                    work = _Work(int(id_), bytes.fromhex(mining_hash.decode()), int(difficulty), int(nonce) % NONCES)
                    check_work(work.mining_hash, work.difficulty)
                    self._work = work
                case [b"cancel"]:
                    self._work = None
                case [b"limit", rate]:
                    self._pace.set_limit(None if rate == b"none" else check_limit(float(rate)))
                case [b"report", id_]:
                    answer = b"tally %d %d %a\n" % (int(id_), self._hashes, self._busy_s)
                    self._hashes, self._busy_s = 0, 0.0
                    return answer
        return b""

    def step(self) -> tuple[bytes, float]:
        """Hash for a slice, if that is due; what to say, and how long there is nothing to do."""
        if self._work is None:
            return b"", _LOOK_S
        count = self._pace.take(self._slice_hashes)
        if count == 0:
            return b"", self._pace.wait_s
        return self._search(self._work, count), 0.0

    def _search(self, work: _Work, count: int) -> bytes:
        nonce = find_nonce(work.mining_hash, work.difficulty, work.nonce, count)
        done = count if nonce is None else (int.from_bytes(nonce, "big") - work.nonce) % NONCES + 1
        work.nonce, work.hashes, self._hashes = (work.nonce + done) % NONCES, work.hashes + done, self._hashes + done
        took_s = self.elapse()
        if nonce is not None:
            self._work = None
            return b"found %d %s %d\n" % (work.id, nonce.hex().encode(), work.hashes)
        if count == self._slice_hashes:
            self._slice_hashes = max(100, min(2 * count, int(count * _SLICE_S / max(took_s, 1e-6))))
        return b""


def serve(parent: int) -> None:
    """Be the miner process of process `parent`, until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes this
    worker, orders, wait_s = _Worker(time.monotonic), _Lines(0), 0.0
    with contextlib.suppress(BrokenPipeError):
        while os.getppid() == parent and (lines := orders.read(wait_s)) is not None:
            worker.elapse()
            os.write(1, b"".join([worker.obey(line) for line in lines]))
            found, wait_s = worker.step()
            os.write(1, found)


def command(parent: int) -> list[str]:
    """How the miner process of process `parent` is started."""
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).resolve().parents[1]), str(parent)]


# --- in the device's own process


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
        self._work: _Work | None = None
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
        self._work = _Work(self._last_id, mining_hash, difficulty, start_nonce % NONCES)
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
        self._child, self._lines = child, _Lines(stdout.fileno())
        self.set_limit(self._limit)

    def _send(self, order: str) -> None:
        if self._child is None:
            raise MiningError(self._death)
        try:
            os.write(self._stdin.fileno(), order.encode() + b"\n")
        except BlockingIOError:
            raise self._died(self._child, "takes no orders") from None
        except BrokenPipeError:
            raise self._died(self._child) from None

    def _read(self, wait_s: float) -> None:
        if self._child is None:
            raise MiningError(self._death)
        lines = self._lines.read(wait_s)
        if lines is None or (not lines and self._child.poll() is not None):
            raise self._died(self._child)
        for line in lines:
            match line.split():
                case [b"found", id_, nonce, hashes] if self._work and int(id_) == self._work.id:
                    self._found = Found(self._work.mining_hash, bytes.fromhex(nonce.decode()), int(hashes))
                case [b"tally", id_, hashes, busy_s]:
                    self._answered_id = int(id_)
                    self._hashes, self._busy_s = self._hashes + int(hashes), self._busy_s + float(busy_s)

    def _died(self, child: "subprocess.Popen[bytes]", how: str = "") -> MiningError:
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
    return header.sealed(found.nonce)
