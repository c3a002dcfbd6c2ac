"""metrics.jsonl as it grows: only what is new is read; a file that was cut, replaced or deleted is noticed."""

import os
import time
from pathlib import Path
from typing import BinaryIO

from bfl.dashboard.facts import RoundFact
from bfl.dashboard.reading.round_lines import read_round

MOST_LINE_BYTES, MOST_LINES = 1 << 20, 1_000_000
"""As a run folder has them (Q4)"""
_MARK_BYTES = 256
_Stamp = tuple[int, int, int]


class MetricsTail:
    """Rounds 1, 2, ... of a file that somebody may be writing."""

    def __init__(self, path: Path, exclusion_rounds: int = 0, is_real: bool = False) -> None:
        """`is_real`: its seconds are those of a network of machines."""
        self._path, self._exclusion_rounds, self._is_real = path, exclusion_rounds, is_real
        self.rounds: dict[int, RoundFact] = {}
        """By number; a kit may lack some."""
        self.trouble = ""
        """What is wrong with the file, for people."""
        self._forget()

    def _forget(self) -> None:
        self.rounds, self._last, self._read_bytes, self._lines, self._mark = {}, 0, 0, 0, b""
        self._stamp: _Stamp | None = None

    def poll(self, until_s: float) -> bool:
        """Read what is new, until this time of the monotonic clock; whether there is more to read."""
        try:
            with self._path.open("rb") as file:
                found = os.fstat(file.fileno())
                stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
                if stamp == self._stamp:
                    return False
                if not self._goes_on(file, found.st_ino, found.st_size):
                    self._forget()
                self.trouble = ""
                if self._read(file, until_s):
                    return True
                self._stamp = stamp
        except FileNotFoundError:
            self.trouble = f"{self._path} is not there (any more)"
            self._stamp = None
        except OSError as error:
            self.trouble = f"{self._path} cannot be read: {error.strerror}"
        return False

    def _goes_on(self, file: BinaryIO, inode: int, size: int) -> bool:
        """Whether what was read is still the beginning of the file."""
        if size < self._read_bytes or (self._stamp is not None and self._stamp[0] != inode):
            return False
        file.seek(self._read_bytes - len(self._mark))
        return file.read(len(self._mark)) == self._mark

    def _read(self, file: BinaryIO, until_s: float) -> bool:
        file.seek(self._read_bytes)
        while self._lines < MOST_LINES:
            if time.monotonic() > until_s:
                return True
            line = file.readline(MOST_LINE_BYTES + 1)
            if len(line) > MOST_LINE_BYTES:
                self.trouble = f"{self._path}: found a line of more than {MOST_LINE_BYTES:,} bytes"
                return False
            if not line.endswith(b"\n"):  # it is being written
                return False
            self._take(line)
        self.trouble = f"{self._path}: found more than {MOST_LINES:,} lines"
        return False

    def _take(self, line: bytes) -> None:
        """A whole line; one that is of no round we can tell is passed over."""
        self._read_bytes += len(line)
        self._lines += 1
        self._mark = line[-_MARK_BYTES:]
        round_ = _number_in(line, self._last + 1)
        fact = read_round(line, round_, self._exclusion_rounds, self._is_real)
        if fact is not None:
            self.rounds[round_], self._last = fact, round_


def _number_in(line: bytes, otherwise: int) -> int:
    """The round a line says it is of, from its beginning; a kit that was away begins where the network is."""
    head, _, rest = line[:40].partition(b'{"round": ')
    digits = rest.partition(b",")[0]
    return int(digits) if not head and digits.isdigit() and 0 < int(digits) < 1 << 31 else otherwise
