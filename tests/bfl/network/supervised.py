"""Parts under a supervisor, for tests."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bfl.network.supervision import Part, Supervisor

SLEEPS = "import time; print('here', flush=True); time.sleep(60)"


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def happens(look: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


@contextmanager
def supervised(folder: Path, *parts: Part) -> Iterator[list[str]]:
    told: list[str] = []
    with supervising(Supervisor(parts, folder, told.append)):
        yield told


@contextmanager
def supervising(supervisor: Supervisor) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=supervisor.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def pids(folder: Path) -> dict[str, int]:
    state = json.loads((folder / "state.json").read_text())
    return {name: part["pid"] for name, part in state["parts"].items()}
