"""The parts of one machine as child processes: started in their order, watched, started again, ended together.

One log for all of them, each line with the name of its part. What ends by itself is started again after a pause that
doubles while it keeps ending.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from filelock import FileLock, Timeout

from bfl.errors import BflError
from bfl.network.status import LOCK, LOG, STATE

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
_WELL_S = 60.0
"""Who has run for so long is well, and its next pause a short one"""
_CHILD_S, _CHILD_AGAIN_S = 60.0, 5.0
"""After so long a part has started its child; and between two looks at it"""
_END_S = 15.0
_LOOK_S = 0.2
_LOCK_S = 1.0
_MOST_LOG_BYTES, _KEPT_LOGS = 10 << 20, 3
_OWN_ALONE = 0o077
"""A SuperLink's database has the tokens of its tasks in it, and whatever devices have sent"""
_PR_SET_PDEATHSIG = 1
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """A program of this machine."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    may_end: bool = False
    """Whether it has done its work when it ends without an error; else it is started again whatever it says."""
    hides: str = ""
    """Lines of it that nobody reads: a regular expression."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Lines with the first are told as the second, and not again while nothing else is said."""
    restarts_with: str = ""
    """Another part; when that one ends, this one has work in hand that nobody will finish."""
    told: str = ""
    """What `status` says of it while it runs."""
    needs_child: str = ""
    """A program that it starts once and does not watch; without that one it waits for ever (seen on Linux only)."""
    most_pause_s: float = LONGEST_PAUSE_S
    """Before it is started again, however often it has ended."""


class LogFile:
    """Lines of all parts, in a file that does not grow for ever."""

    def __init__(self, path: Path, say: Say) -> None:
        self._path, self._say, self._lock = path, say, threading.Lock()

    def write(self, part: str, line: str) -> None:
        """One line of a part."""
        told = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {part:<12} {line}"
        with self._lock:
            with contextlib.suppress(OSError):  # a full disk stops no machine
                if self._path.exists() and self._path.stat().st_size > _MOST_LOG_BYTES:
                    self._rotate()
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(told + "\n")
            with contextlib.suppress(OSError, ValueError):  # nor does a terminal that is gone
                self._say(told)

    def _rotate(self) -> None:
        names = [self._path, *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, _KEPT_LOGS + 1))]
        for older, newer in reversed(list(zip(names[1:], names[:-1], strict=True))):
            if newer.exists():
                newer.replace(older)


class _Running:
    """A part that is running, or waits to be started again."""

    def __init__(self, part: Part, folder: Path, log: LogFile) -> None:
        self.part, self._folder, self._log = part, folder, log
        self._process: subprocess.Popen[bytes] | None = None
        self._pause_s, self._since_s, self._again_s, self._child_s = FIRST_PAUSE_S, 0.0, 0.0, 0.0
        self._told = ""
        self.starts, self.is_done = 0, False
        self._exchanged_s: float | None = None

    @property
    def pid(self) -> int | None:
        """None while it is not running."""
        return None if self._process is None else self._process.pid

    def look(self) -> bool:
        """Start it where it is due; whether it has just ended."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._again_s and not self.is_done:
                self._start(now)
        elif (code := self._process.poll()) is not None:
            self._ended(code, now)
            return True
        elif self._exchanged_s is not None and now > self._exchanged_s + _END_S:
            self.tell(signal.SIGKILL)
        elif self.part.needs_child and now >= self._child_s:
            self._child_s = now + _CHILD_AGAIN_S
            if not has_child(self._process.pid, self.part.needs_child):
                self._log.write(self.part.name, f"its {self.part.needs_child} is gone; both are started again")
                self.tell(signal.SIGTERM)  # killed, Flower would refuse it for half a minute
        return False

    def exchange(self, part: Part) -> None:
        """Go on as another program: what runs ends first, and the next one need not wait."""
        self.part, self._again_s, self._pause_s = part, 0.0, FIRST_PAUSE_S
        if self._process is not None:
            self._exchanged_s = time.monotonic()
            self.tell(signal.SIGTERM)

    def _start(self, now: float) -> None:
        self._since_s, self._child_s, self.starts = now, now + _CHILD_S, self.starts + 1
        try:
            process = subprocess.Popen(  # noqa: S603 - commands of ours
                list(self.part.command),
                cwd=self._folder,
                env={**os.environ, **self.part.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=_OWN_ALONE,
                preexec_fn=_end_with_parent,
            )
        except OSError as error:
            self._log.write(self.part.name, f"cannot be started: {error}")
            self._wait(now)
            return
        self._process = process
        if process.stdout is not None:
            threading.Thread(target=self._read, args=(process.stdout,), daemon=True, name=self.part.name).start()

    def _read(self, said: IO[bytes]) -> None:
        for raw in iter(lambda: said.readline(1 << 16), b""):
            plain = _COLOURS.sub("", raw.decode(errors="replace")).rstrip()
            line = next((told for word, told in self.part.words.items() if word in plain), plain)
            if not line or (self.part.hides and re.search(self.part.hides, line)):
                continue
            if line == plain or line != self._told:
                self._log.write(self.part.name, line)
            self._told = line

    def _ended(self, code: int, now: float) -> None:
        self._process, self.is_done = None, code == 0 and self.part.may_end
        if self._exchanged_s is not None:
            self._exchanged_s = None
            return
        if self.is_done:
            self._log.write(self.part.name, "has done its work")
            return
        if now - self._since_s > _WELL_S:
            self._pause_s = FIRST_PAUSE_S
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._log.write(self.part.name, f"has ended ({how}); it is started again in {self._pause_s:g} s")
        self._wait(now)

    def _wait(self, now: float) -> None:
        self._again_s = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, self.part.most_pause_s)

    def tell(self, number: signal.Signals) -> None:
        """A signal for it and what it has started."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended in this time."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True


class Supervisor:
    """The parts of a kit; one at a time for each kit."""

    def __init__(self, parts: Sequence[Part], folder: Path, say: Say) -> None:
        self._folder, self._log = folder, LogFile(folder / LOG, say)
        self._running = [_Running(part, folder, self._log) for part in parts]
        self._exchanges: SimpleQueue[Part] = SimpleQueue()

    def exchange(self, part: Part) -> None:
        """In place of the part with its name; from any thread."""
        self._exchanges.put(part)

    def say(self, name: str, line: str) -> None:
        """A line in the log, of a part or of this machine."""
        self._log.write(name, line)

    def run(self, stop: threading.Event) -> None:
        """Until it is told to stop; `BflError` where another one runs this kit."""
        with self._alone():
            (self._folder / STATE).unlink(missing_ok=True)  # of one that was killed
            try:
                while not stop.is_set():
                    self._exchange()
                    ended = {each.part.name for each in self._running if each.look()}
                    for each in self._running:
                        if each.part.restarts_with in ended:
                            each.tell(signal.SIGTERM)
                    self._note()
                    stop.wait(_LOOK_S)
            finally:
                self._end()

    def _exchange(self) -> None:
        while not self._exchanges.empty():
            part = self._exchanges.get()
            for each in self._running:
                if each.part.name == part.name:
                    each.exchange(part)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = FileLock(self._folder / LOCK)
        try:
            lock.acquire(timeout=_LOCK_S)  # `status` takes it for a moment
        except Timeout as error:
            raise BflError(f"{self._folder} runs already; stop it first: bfl network stop {self._folder}") from error
        except OSError as error:
            raise BflError(f"{error.filename}: {error.strerror}; the kit must belong to whom it runs as") from error
        try:
            yield
        finally:
            lock.release()

    def _note(self) -> None:
        """For `status` and `stop`."""
        parts = {
            each.part.name: {"pid": each.pid, "starts": each.starts, "done": each.is_done, "told": each.part.told}
            for each in self._running
        }
        state = json.dumps({"pid": os.getpid(), "parts": parts})
        path = self._folder / STATE
        with contextlib.suppress(OSError):
            if not path.exists() or path.read_text(encoding="utf-8") != state:
                path.with_suffix(".new").write_text(state, encoding="utf-8")
                path.with_suffix(".new").replace(path)

    def _end(self) -> None:
        """In the reverse order: who depends on others goes first."""
        for each in reversed(self._running):
            each.tell(signal.SIGTERM)
        end = time.monotonic() + _END_S
        for each in reversed(self._running):
            if not each.wait(end - time.monotonic()):
                self._log.write(each.part.name, f"does not end in {_END_S:g} s; it is killed")
                each.tell(signal.SIGKILL)
                each.wait(_END_S)
        with contextlib.suppress(OSError):
            (self._folder / STATE).unlink(missing_ok=True)


def has_child(pid: int, name: str) -> bool:
    """Whether a process has a child whose command line has this name. Where nobody can tell it counts as there."""
    if sys.platform != "linux":
        return True
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile; the command line of a dead one is empty
            parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[1]
            if int(parent) == pid and name.encode() in (folder / "cmdline").read_bytes():
                return True
    return False


def _end_with_parent() -> None:
    """In the child: whoever kills the supervisor with -9 leaves nothing behind (Linux)."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
