"""A process on a machine of the test network: it can be killed, stopped, and started again."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bfl.network.lan.commands import LanError
from bfl.network.lan.leftovers import MARK, end_processes

_ENDS_S = 10.0
_LOOK_S = 0.02
_TAIL_LINES = 15


class MachineProcess:
    """One command in a session of its own; what it says goes to its log, one start after the other."""

    def __init__(
        self,
        mark: str,
        command: Sequence[str],
        environment: Callable[[], Mapping[str, str]],
        folder: Path,
        log: Path,
    ) -> None:
        self._mark, self._command, self._environment, self._folder = mark, list(command), environment, folder
        self.log = log
        self._start()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._since = log.tell()
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**self._environment(), MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Also the id of its session and group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """A stopped one lives."""
        return self._process.poll() is None

    def _signal(self, number: signal.Signals) -> None:
        """To the whole group, as long as its leader lives: afterwards its id may be somebody else's."""
        if not self.is_alive:
            raise LanError(f"{self._mark} has ended with {self._process.returncode}; it said:\n{self.tail}")
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """kill -9, with everything it started; without a complaint if it has ended."""
        if self.is_alive:
            self._signal(signal.SIGKILL)
        self.wait(_ENDS_S)
        end_processes(self._mark)

    def terminate(self, timeout_s: float = _ENDS_S) -> int:
        """SIGTERM, as systemd ends a service; its exit code."""
        self._signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def stop(self) -> None:
        """SIGSTOP: a machine that hangs; its connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT: hangs no longer."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> int:
        """Its exit code, minus the signal's number if one ended it."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise LanError(f"{self._mark} did not end within {timeout_s:g} s; it said:\n{self.tail}") from error

    def restart(self) -> None:
        """Start the same command again, killed first if it lives; with the clock that its machine has now."""
        self.kill()
        self._start()

    @property
    def said(self) -> str:
        """What it has said since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._since)
            return log.read().decode(errors="replace")

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.said.splitlines()[-_TAIL_LINES:])

    def wait_for(self, text: str, timeout_s: float) -> str:
        """The first whole line with this text since its last start."""
        end = time.monotonic() + timeout_s
        while True:
            has_ended = not self.is_alive  # asked first: what it said before it ended counts
            for line in self.said.splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line.rstrip("\n")
            if has_ended or time.monotonic() > end:
                why = f"ended with {self._process.returncode}" if has_ended else f"waited for {timeout_s:g} s"
                raise LanError(f"{self._mark}: no line with {text!r} ({why}); it said:\n{self.tail}")
            time.sleep(_LOOK_S)
