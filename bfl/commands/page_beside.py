"""`bfl simulate --dashboard`: the page of a run in a process of its own, which the run does not wait for."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

PORT = 8765
_START_S, _STOP_S = 30.0, 5.0


@contextmanager
def page_beside(folder: Path, wanted: bool) -> Iterator[Callable[[], None]]:
    """The page of a run folder, if it is wanted; what is yielded waits until Ctrl-C. The page ends with the block."""
    if not wanted:
        yield lambda: None
        return
    options = ["--port", str(_free_port()), "--beside", str(os.getpid())]
    command = [sys.executable, "-m", "bfl", "dashboard", str(folder), *options]
    with subprocess.Popen(  # noqa: S603 - ourselves
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            url = _first_line(child)
            print(url or "page: it has not started, see above; the run goes on without it", flush=True)
            yield lambda: _stay(child, url)
        finally:
            _end(child)


def _free_port() -> int:
    """The usual one; any other (0) where somebody has it."""
    with closing(socket.socket()) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT


def _first_line(child: "subprocess.Popen[str]") -> str:
    """What it says first, which is its URL; empty where it ends or takes too long."""
    end = time.monotonic() + _START_S
    while child.stdout is not None and child.poll() is None and time.monotonic() < end:
        if select.select([child.stdout], [], [], 0.1)[0]:
            return child.stdout.readline().strip()
    return ""


def _stay(child: "subprocess.Popen[str]", url: str) -> None:
    if not url or child.poll() is not None:
        return
    print(f"The run is finished; {url} stays until Ctrl-C. Later: bfl dashboard", flush=True)
    with suppress(KeyboardInterrupt):
        child.wait()


def _end(child: "subprocess.Popen[str]") -> None:
    if child.poll() is None:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_STOP_S)
    if child.poll() is None:
        child.kill()
