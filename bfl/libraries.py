"""What libraries are told before they are first imported, and what Ctrl-C does while they are."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def settle_libraries() -> None:
    """Torch reads this when it is loaded. Threads that wait for each other spin for milliseconds by default, which on a
    busy machine makes a round ten times slower; this is microseconds. Flower shall call nobody.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")


@contextmanager
def leaving_at_once(told: str) -> Iterator[None]:
    """While libraries are loaded Ctrl-C and SIGTERM end this process with a word and exit code 130: there is nothing to
    save, and an exception in the middle of torch helps nobody.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        os.write(sys.__stdout__.fileno() if sys.__stdout__ else 1, f"\n{told}\n".encode())
        os._exit(130)

    signals = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, leave) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, old, strict=True):
            signal.signal(number, handler)
