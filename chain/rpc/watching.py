"""GET /changes: who waits for something at a node is told when it has changed, instead of asking again and again.

An answer is a mark of each kind of change (`chain.node.reading.Changes`). Whoever shows the marks he has seen is
answered when one of them is another, or after a few seconds. It costs a connection, no thread: those who would hold too
many are answered at once.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

from chain.node.reading import KINDS, Changes

HOLD_S = 5.0
"""The longest that an answer is held"""
MOST, MOST_PER_VISITOR = 256, 32


class Watchers:
    """Everybody who waits at one server; all but `_hear` is for its event loop."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._held: Counter[str] = Counter()
        self._is_closed = False

    async def wait(self, visitor: str, seen: Mapping[str, str], hold_s: float) -> dict[str, str]:
        """The marks, once one of those that were seen is another one."""
        self._listen()
        has_room = self._held.total() < MOST and self._held[visitor] < MOST_PER_VISITOR
        end = asyncio.get_running_loop().time() + (min(hold_s, HOLD_S) if has_room else 0.0)
        self._held[visitor] += 1
        try:
            while not self._is_closed and not self._has_changed(seen):
                await asyncio.wait_for(self._changed.wait(), end - asyncio.get_running_loop().time())
        except TimeoutError:
            pass
        finally:
            self._held[visitor] -= 1
            self._held += Counter()  # forgets who is gone
        return self._changes.now()

    def _has_changed(self, seen: Mapping[str, str]) -> bool:
        now = self._changes.now()
        return not seen or any(now[kind] != mark for kind, mark in seen.items())

    def _listen(self) -> None:
        if self._loop is None and not self._is_closed:
            self._loop = asyncio.get_running_loop()
            self._changes.listeners.append(self._hear)

    def _hear(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        before, self._changed = self._changed, asyncio.Event()
        before.set()

    def close(self) -> None:
        """The server stops: nobody waits any longer."""
        self._is_closed = True
        if self._loop is not None:
            self._changes.listeners.remove(self._hear)
            self._wake()


def seen_in(query: Mapping[str, str]) -> dict[str, str]:
    """The marks that a visitor shows; what else is in the address counts for nothing."""
    return {kind: query[kind] for kind in KINDS if kind in query}


def hold_in(query: Mapping[str, str]) -> float:
    """How long he would wait, as far as it is a number."""
    try:
        return max(0.0, min(HOLD_S, float(query.get("hold", HOLD_S))))
    except ValueError:
        return 0.0
