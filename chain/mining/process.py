"""Inside a miner process: work in slices at the rate it may, between two looks at its orders (`chain.mining.miner`).

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
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chain.errors import MiningError
from chain.wire.seal import NONCES, check_work, find_nonce

_BOOT = "import sys; sys.path.append(sys.argv[1]); from chain.mining.process import serve; serve(int(sys.argv[2]))"
_SLICE_S = 0.01  # between two looks at the orders
_BURST_S = 0.25  # how much of a stall a limited miner makes up for
_LOOK_S = 1.0  # between two looks at whether the other side lives
_LONGEST_LINE = 4096


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


class Lines:
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
class Search:
    """What is mined, and how far it has come."""

    id: int
    mining_hash: bytes
    difficulty: int
    nonce: int
    hashes: int = 0


class _Worker:
    """The state of a miner process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._now = clock, clock()
        self._work: Search | None = None
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
                    work = Search(int(id_), bytes.fromhex(mining_hash.decode()), int(difficulty), int(nonce) % NONCES)
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

    def _search(self, work: Search, count: int) -> bytes:
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
    for each in (signal.SIGINT, signal.SIGTERM):  # they are for the parent, which then closes this
        signal.signal(each, signal.SIG_IGN)
    worker, orders, wait_s = _Worker(time.monotonic), Lines(0), 0.0
    with contextlib.suppress(BrokenPipeError):
        while os.getppid() == parent and (lines := orders.read(wait_s)) is not None:
            worker.elapse()
            os.write(1, b"".join([worker.obey(line) for line in lines]))
            found, wait_s = worker.step()
            os.write(1, found)


def command(parent: int) -> list[str]:
    """How the miner process of process `parent` is started."""
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).resolve().parents[2]), str(parent)]
