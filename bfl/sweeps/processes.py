"""Several runs at a time, each in a process: one that is killed is replaced, and its run goes on from its folder."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bfl.config import ENVIRONMENT_PREFIX
from bfl.sweeps.orders import MOST_LINE, Answer, Order

MOST_DEATHS = 3
"""Of the processes of one run without a new round between them"""
STOP_S = 60.0
"""For the round that a process is in when the sweep is ended"""
_MOST_TAIL = 2000


@dataclass(frozen=True)
class Event:
    """What a run has to say: a round, that its process was killed and it goes on, or how it has ended."""

    run: int
    """Its place among the orders"""
    round: int | None = None
    accuracy: float | None = None
    status: str = ""
    """finished, failed, interrupted, or killed: another process goes on"""
    why: str = ""


@dataclass
class _Hands:
    """One process, and the thread that talks to it."""

    thread: threading.Thread
    process: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Processes:
    """As many as are asked for, working through the orders; a context manager that leaves nobody behind."""

    def __init__(self, orders: Sequence[Order], count: int) -> None:
        self.events: queue.Queue[Event] = queue.Queue()
        self._left = queue.SimpleQueue[tuple[int, Order]]()
        for each in enumerate(orders):
            self._left.put(each)
        self._is_stopping = threading.Event()
        self._hands: list[_Hands] = []
        for number in range(min(count, len(orders))):
            hands = _Hands(threading.Thread(target=lambda place=number: self._work(self._hands[place]), daemon=True))
            self._hands.append(hands)

    def __enter__(self) -> "Processes":
        for hands in self._hands:
            hands.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def pids(self) -> list[int]:
        """Of those that run now."""
        return [hands.process.pid for hands in self._hands if hands.process is not None]

    def stop(self) -> None:
        """Let every process end after its round; one that does not is killed."""
        self._is_stopping.set()
        for hands in self._hands:
            with hands.lock:
                _close(hands.process)
        for hands in self._hands:
            hands.thread.join(STOP_S)
            if hands.thread.is_alive() and hands.process is not None:
                hands.process.kill()
                hands.thread.join(STOP_S)

    def _work(self, hands: _Hands) -> None:
        try:
            while not self._is_stopping.is_set():
                run, order = self._left.get_nowait()
                self._carry_out(hands, run, order)
        except queue.Empty:
            pass
        finally:
            _close(hands.process)
            if hands.process is not None:
                hands.process.wait()

    def _carry_out(self, hands: _Hands, run: int, order: Order) -> None:
        """Until the run has ended, whatever becomes of the process."""
        deaths = 0
        while True:
            rounds, last = self._converse(hands, run, order)
            is_over = last is not None and (last.status != "interrupted" or self._is_stopping.is_set())
            if last is not None and is_over:
                self.events.put(Event(run, status=last.status, why=last.why))
                return
            code = _ended(hands) if last is None else -signal.SIGTERM
            deaths = 1 if rounds else deaths + 1
            status = "interrupted" if self._is_stopping.is_set() else "killed"
            if status == "killed" and (code > 0 or deaths >= MOST_DEATHS):
                status = "failed"
            self.events.put(Event(run, status=status, why=_why(code, order)))
            if status != "killed":
                return

    def _converse(self, hands: _Hands, run: int, order: Order) -> tuple[int, Answer | None]:
        """How many rounds were made, and how the run has ended; None where the process did so without a word."""
        rounds = 0
        with hands.lock:
            if self._is_stopping.is_set():
                return 0, Answer(status="interrupted")
            if hands.process is None:
                hands.process = _start(order)
            process = hands.process
        if process.stdin is None or process.stdout is None:
            return 0, None
        try:
            process.stdin.write(order.line())
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # killed between two runs, or closed by `stop`
            return 0, None
        while line := process.stdout.readline(MOST_LINE):
            answer = Answer.read(line)
            if answer.status:
                return rounds, answer
            rounds += 1
            self.events.put(Event(run, answer.round, answer.accuracy))
        return rounds, None


def _ended(hands: _Hands) -> int:
    """The code of a process that said nothing more."""
    code = hands.process.wait() if hands.process is not None else 0
    hands.process = None
    return code


def _start(order: Order) -> "subprocess.Popen[bytes]":
    """In a session of its own: Ctrl-C at the terminal is for the sweep, which tells its processes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    kept.setdefault("OMP_NUM_THREADS", str(order.settings["threads"]))
    with Path(order.log).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "bfl.sweeps.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True, env=kept,
        )  # fmt: skip


def _close(process: "subprocess.Popen[bytes] | None") -> None:
    if process is None or process.stdin is None:
        return
    with suppress(BrokenPipeError):  # it has ended already
        process.stdin.close()


def _why(code: int, order: Order) -> str:
    if code < 0:
        what = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = ", perhaps for want of memory: fewer --jobs take less" * (code == -signal.SIGKILL)
        return f"its process was ended by {what}{memory}"
    return f"its process ended with code {code}: {_tail(Path(order.log))}"


def _tail(log: Path) -> str:
    """The last line that says something."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _MOST_TAIL))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return f"see {log}"
    return f"{lines[-1]:.300} ({log})" if lines else f"see {log}"
