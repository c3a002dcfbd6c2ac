"""How often what a node shows has changed, by kind: whoever waits for something asks again only then."""

import secrets
import threading
from collections.abc import Callable

KINDS = ("posts", "votes", "blocks", "work")
"""Posts and payloads in the pool; signatures beside the chain; sealed blocks; candidates to mine"""


class Changes:
    """Counters that only rise, of one life of a node; for any thread."""

    def __init__(self) -> None:
        self._life = secrets.token_hex(4)
        self._counts = dict.fromkeys(KINDS, 0)
        self._lock = threading.Lock()
        self.listeners: list[Callable[[], None]] = []
        """Told, on the thread that changed something; they are quick and ask nothing of the node."""

    def note(self, kind: str) -> None:
        """Something of this kind has changed, and can be seen now."""
        with self._lock:
            self._counts[kind] += 1
            listeners = list(self.listeners)
        for tell in listeners:
            tell()

    def now(self) -> dict[str, str]:
        """A mark of each kind: it is another one after every change, and after a restart."""
        with self._lock:
            return {kind: f"{self._life}-{count}" for kind, count in self._counts.items()}
