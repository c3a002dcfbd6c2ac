"""One thread that reads a source once a second, for everybody who looks at it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.sources import Source

EVERY_S = 1.0
_WORK_S, _BREATH_S = 0.25, 0.02
"""While a large run is read for the first time: for so long, then so long nothing, so that requests are answered"""
_KEPT_CHANGES = 4096
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Change:
    """What is new since a cursor: rounds and blocks from these numbers on (None: none); whether anything else is."""

    cursor: int
    first_round: int | None
    first_block: int | None
    is_about: bool
    """Status, machines, what is wrong."""


class Tailer:
    """`snapshot` is the newest, for any thread: it is never changed, another one takes its place."""

    def __init__(self, source: Source, every_s: float = EVERY_S) -> None:
        self._source, self._every_s = source, every_s
        self._changed, self._stop = threading.Condition(), threading.Event()
        self._changes: deque[Change] = deque(maxlen=_KEPT_CHANGES)
        self.listeners: list[Callable[[], None]] = []
        """Told after each change, on the tailer's thread; they are quick."""
        self._first_cursor = int(time.time() * 1000)  # later than all of a server that ran before
        self.snapshot = replace(source.snapshot(), cursor=self._first_cursor, status="waiting", told="")
        self._thread = threading.Thread(target=self._run, name=f"tailer of {source.name}", daemon=True)

    def start(self) -> None:
        """Read from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more, and give back what is open."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._every_s + 5.0)
        else:
            self._source.close()

    def wait(self, cursor: int, timeout_s: float) -> Snapshot:
        """The newest snapshot, once its cursor is another than this one."""
        with self._changed:
            self._changed.wait_for(lambda: self.snapshot.cursor != cursor, timeout_s)
            return self.snapshot

    def change_since(self, cursor: int) -> Change:
        """What is new for somebody who knows a cursor; everything for a cursor that nobody here remembers."""
        with self._changed:
            now, changes = self.snapshot.cursor, list(self._changes)
        oldest = changes[0].cursor - 1 if changes else now
        if not oldest <= cursor <= now:
            return Change(now, 1, 0, True)
        new = [each for each in changes if each.cursor > cursor]
        return Change(
            now,
            min((each.first_round for each in new if each.first_round is not None), default=None),
            min((each.first_block for each in new if each.first_block is not None), default=None),
            any(each.is_about for each in new),
        )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._stop.wait(_BREATH_S if self.look() else self._every_s)
        self._source.close()  # on the thread that has read from it

    def look(self) -> bool:
        """Read once; whether there is more to read."""
        has_more = self._source.poll(time.monotonic() + _WORK_S)
        self._publish(self._source.snapshot())
        return has_more

    def _publish(self, found: Snapshot) -> None:
        before = self.snapshot
        first_round = first_difference(before.rounds, found.rounds)
        first_block = first_difference(before.blocks, found.blocks)
        is_about = _about(before) != _about(found)
        if first_round is None and first_block is None and not is_about:
            return
        with self._changed:
            cursor = before.cursor + 1
            round_ = None if first_round is None else first_round + 1
            self._changes.append(Change(cursor, round_, first_block, is_about))
            self.snapshot = replace(found, cursor=cursor)
            self._changed.notify_all()
        for tell in list(self.listeners):
            tell()


def _about(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.about, snapshot.status, snapshot.told, snapshot.machines, snapshot.reorganised,
        len(snapshot.participants),
    )  # fmt: skip


def first_difference(before: Sequence[object], after: Sequence[object]) -> int | None:
    """Index of the first entry that is another object, or is there no more; None where all are the same."""
    pairs = enumerate(zip_longest(before, after))
    return next((i for i, (old, new) in pairs if old is not new), None)
