"""The one loop that waits for something to happen, with a bound. Standard library only."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    ready: Callable[[], T],
    deadline_s: float,
    poll_s: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Ask `ready` until its answer is true, or for `deadline_s` at most; returns the last answer, true or not."""
    end = now() + deadline_s
    while not (answer := ready()) and now() < end:
        sleep(poll_s)
    return answer
