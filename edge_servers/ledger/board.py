"""The in-process board on which servers post and read (P21): the ledger's interface without a chain."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from clients.orders import Order
from edge_servers.errors import BoardError
from edge_servers.learning.gradients import Gradient
from edge_servers.planning.plan import Plan

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

    def drop(self, slot: Slot, sender: str) -> None:
        """Go on without a leader's post: the next in rank posts another."""

    def post_twice(self, slot: Slot, sender: str, first: Any, second: Any) -> None:
        """What an equivocator does: two posts for one slot; one of them counts."""

    def endorse(self, round_: int, sender: str) -> None:
        """Say that the block before this round was checked, where there are several nodes (P17)."""

    def wait_turn(self, rank: int) -> None:
        """Wait until whoever has this rank may lead the round (P12)."""

    def with_terms(self, orders: list[Order], addresses: Sequence[str]) -> list[Order]:
        """Orders to devices, with what each needs to post its gradient here."""

    def opener(self, plan: Plan) -> Callable[[bytes, str], Gradient] | None:
        """How a signed gradient is read; None where nobody signs."""


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

    def drop(self, slot: Slot, sender: str) -> None:
        """Forget a post."""
        self._posts.get(slot, {}).pop(sender, None)

    def post_twice(self, slot: Slot, sender: str, first: Any, second: Any) -> None:
        """The first counts, and nobody notices the second."""
        self.post(slot, sender, first)

    def endorse(self, round_: int, sender: str) -> None:
        """There are no blocks."""

    def wait_turn(self, rank: int) -> None:
        """Nobody waits: a leader that fails here fails at once."""

    def with_terms(self, orders: list[Order], addresses: Sequence[str]) -> list[Order]:
        """Orders as they are."""
        return orders

    def opener(self, plan: Plan) -> None:
        """Nobody signs."""

    def read(self, slot: Slot) -> dict[str, Any]:
        """Posts of the slot by sender, in ascending order of address."""
        return dict(sorted(self._posts.get(slot, {}).items()))

    def wait_for(self, slot: Slot, senders: Iterable[str], deadline_s: float) -> dict[str, Any]:
        """Posts of the slot once all `senders` are among them, or what is there after `deadline_s`."""
        wanted, end = set(senders), self._clock.now() + deadline_s
        while not wanted <= self._posts.get(slot, {}).keys() and self._clock.now() < end:
            self._clock.sleep(self._poll_s)
        return self.read(slot)
