"""Where the time of a round goes: every timed function counts its own time, without that of timed functions inside."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


class Stopwatch:
    """Seconds by label; `patched` times functions of other modules while it lasts."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, its time on `label`."""

        @wraps(function)
        def with_time(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._running.append(label)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._running.pop()

        return with_time

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    @contextmanager
    def patched(self, places: dict[tuple[Any, str], str]) -> Iterator[None]:
        """Time (owner, attribute) on a label, for a while."""
        old = {place: getattr(*place) for place in places}
        try:
            for (owner, name), label in places.items():
                setattr(owner, name, self.timed(label, old[owner, name]))
            yield
        finally:
            for (owner, name), function in old.items():
                setattr(owner, name, function)
