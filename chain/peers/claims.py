"""Who fetches which payload from a peer."""

import threading
import time

_ALIVE_S = 10.0


class Claims:
    """Who fetches which payload: one thread each, until it has not heard from its peer for a while."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def take(self, digest: bytes) -> bool:
        """Whether nobody else is at it."""
        with self._lock:
            now = time.monotonic()
            self._until = {each: until for each, until in self._until.items() if until > now}
            if digest in self._until:
                return False
            self._until[digest] = now + _ALIVE_S
            return True

    def renew(self, digest: bytes) -> None:
        """A range has come."""
        with self._lock:
            self._until[digest] = time.monotonic() + _ALIVE_S

    def give_back(self, digest: bytes) -> None:
        """It has come, or the peer has it not."""
        with self._lock:
            self._until.pop(digest, None)
