"""How the rounds of a run end, and what must not be cut in two."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from bfl.errors import CallbackError, StopRun


class Ending:
    """How the rounds ended, as a context manager: the endings that leave a run in order end with a summary."""

    def __init__(self) -> None:
        self.status, self.stopped_by = "finished", ""
        self.failure: CallbackError | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, KeyboardInterrupt):
            self.status = "interrupted"
        elif isinstance(error, StopRun):
            self.status, self.stopped_by = "stopped", error.why
        elif isinstance(error, CallbackError):
            self.status, self.failure = "failed", error
        else:
            return False
        return True


@contextmanager
def undisturbed() -> Iterator[list[int]]:
    """A Ctrl-C or SIGTERM that comes while something is being written waits; what is yielded says whether one came."""
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, lambda caught, _: pending.append(caught)) for number in signals]
    try:
        yield pending
    finally:
        for number, handler in zip(signals, old, strict=True):
            signal.signal(number, handler)
