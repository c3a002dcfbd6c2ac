"""Ctrl-C while libraries are loaded: nothing is to be saved, and an exception in the middle of torch helps nobody."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def leaving_at_once(told: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end this process with a word and exit code 130."""
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
