"""Two ways to wait, until it is there or the time is up: look again, and try again. Standard library only."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.05
_SLOWEST_POLL_S = 1.0
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
    while not (found := ready()) and (left_s := end - now()) > 0:
        sleep(min(poll_s, left_s))
    return found


def retry_until(
    attempt: Callable[[], T],
    passing: type[Exception],
    deadline_s: float,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """What `attempt` returns once it does not raise `passing`, tried ever more slowly; at the deadline it is raised.

    It is made at least once; what else it raises is raised at once.
    """
    end, pause_s = now() + deadline_s, POLL_S
    while True:
        try:
            return attempt()
        except passing:
            if now() + pause_s > end:
                raise
        sleep(pause_s)
        pause_s = min(2 * pause_s, _SLOWEST_POLL_S)
