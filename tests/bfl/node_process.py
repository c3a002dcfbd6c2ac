"""`bfl network node` as a process of its own."""

import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bfl.runs import environment

_STARTS_S = 60.0
_STOPS_S = 30.0


class NodeProcess:
    """A running node and what it says."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        command = [sys.executable, "-m", "bfl", "network", "node", "--port", "0", *arguments]
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.said: list[str] = []
        self.url = re.sub(r"^node of chain \d+: ", "", self.wait_for("node of chain"))
        self.owner_url = self.wait_for("owner's door: ").removeprefix("owner's door: ")
        self.wait_for("Ctrl-C stops it")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def wait_for(self, start: str) -> str:
        """The next line that starts like this."""
        end = time.monotonic() + _STARTS_S
        while (left_s := end - time.monotonic()) > 0 and self._process.poll() is None:
            try:
                self.said.append(self._lines.get(timeout=min(left_s, 0.2)))
            except queue.Empty:
                continue
            if self.said[-1].startswith(start):
                return self.said[-1]
        raise AssertionError(f"no line {start!r} after {self.said}; it ended with {self._process.poll()}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, list[str], str]:
        """End it by a signal; its exit code, everything it said, and its errors."""
        self._process.send_signal(number)
        code = self._process.wait(_STOPS_S)
        self._reader.join(_STOPS_S)
        while not self._lines.empty():
            self.said.append(self._lines.get())
        assert self._process.stderr is not None
        return code, self.said, self._process.stderr.read()

    def close(self) -> None:
        """Nothing of it stays, whatever happened."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_STOPS_S)
        self._reader.join(_STOPS_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def running_node(folder: Path, *arguments: str, **variables: str) -> Iterator[NodeProcess]:
    """A node that answers."""
    node = NodeProcess(folder, *arguments, **variables)
    try:
        yield node
    finally:
        node.close()
