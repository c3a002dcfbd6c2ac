"""One way to wait: look, sleep, look again, until it is there or the time is up. Standard library only."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.05
T = TypeVar("T")


def wait_until(
    ready: Callable[[], T],
    deadline_s: float,
    poll_s: float = POLL_S,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """What `ready` answers as soon as that is true, or what it answers at the deadline. It is asked at least once."""
    end = now() + deadline_s
    while not (found := ready()) and now() < end:
        sleep(poll_s)
    return found
