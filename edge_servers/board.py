"""The in-process board on which servers post and read (P21): the ledger's interface without a chain."""

from collections.abc import Iterable
from typing import Any, Protocol

from edge_servers.errors import BoardError

_KEPT_ROUNDS = 1


class Slot(tuple[int, str, int]):
    """(round, kind, step): where a post belongs. One post per slot and sender."""

    __slots__ = ()

    def __new__(cls, round_: int, kind: str, step: int = 0) -> "Slot":
        return super().__new__(cls, (round_, kind, step))

    def __str__(self) -> str:
        return f"{self[1]} {self[2]} of round {self[0]}" if self[2] else f"{self[1]} of round {self[0]}"


class Board(Protocol):
    """What servers need of a ledger."""

    def post(self, slot: Slot, sender: str, body: Any) -> None:
        """Publish `body`, once."""

    def read(self, slot: Slot) -> dict[str, Any]:
        """What is there now, by sender."""

    def wait_for(self, slot: Slot, senders: Iterable[str], deadline_s: float) -> dict[str, Any]:
        """What is there once all `senders` have posted, or at the deadline."""


class Clock(Protocol):
    """Time as an argument: the wall clock on a real machine, a simulated one in tests and simulation."""

    def now(self) -> float:
        """Seconds since some fixed moment."""

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""


class InProcessBoard:
    """A dictionary with the ledger's rules. Only the current round is kept."""

    def __init__(self, clock: Clock, poll_s: float = 0.1) -> None:
        self._clock = clock
        self._poll_s = poll_s
        self._posts: dict[Slot, dict[str, Any]] = {}

    def post(self, slot: Slot, sender: str, body: Any) -> None:
        """Publish `body`; a second post of the same sender in the same slot is refused."""
        posts = self._posts.setdefault(slot, {})
        if sender in posts:
            raise BoardError(f"{sender} has already posted {slot}; expected one post per sender")
        posts[sender] = body
        for old in [s for s in self._posts if s[0] <= slot[0] - _KEPT_ROUNDS]:
            del self._posts[old]

    def read(self, slot: Slot) -> dict[str, Any]:
        """Posts of the slot by sender, in ascending order of address."""
        return dict(sorted(self._posts.get(slot, {}).items()))

    def wait_for(self, slot: Slot, senders: Iterable[str], deadline_s: float) -> dict[str, Any]:
        """Posts of the slot once all `senders` are among them, or what is there after `deadline_s`."""
        wanted, end = set(senders), self._clock.now() + deadline_s
        while not wanted <= self._posts.get(slot, {}).keys() and self._clock.now() < end:
            self._clock.sleep(self._poll_s)
        return self.read(slot)
