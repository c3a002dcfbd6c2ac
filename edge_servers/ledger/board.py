"""The board that servers post on and read: what they need of a ledger, and one in memory without a chain (P21)."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from chain.client.waiting import wait_until
from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.orders import Order
from edge_servers.errors import BoardError, GradientRefusedError
from edge_servers.learning.gradients import Gradient

_KEPT_ROUNDS = 1


class RoundSlot(NamedTuple):
    """Where a post belongs: plan, gradient, refusals, close, iterate or model of a round. One per slot and sender."""

    round: int
    kind: str
    step: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.step} of round {self.round}" if self.step else f"{self.kind} of round {self.round}"


class Board(Protocol):
    """What servers need of a ledger."""

    @property
    def is_signed(self) -> bool:
        """Whether devices sign what they send: they do on a chain."""

    def post(self, slot: RoundSlot, sender: Address, body: Any) -> Any:
        """Publish `body`, once; returns what the sender has now said, which it goes on from."""

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """What is there now, by sender."""

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], deadline_s: float) -> dict[Address, Any]:
        """What is there once all `senders` have posted, or at the deadline."""

    def drop(self, slot: RoundSlot, sender: Address) -> None:
        """Go on without a leader's post: the next in rank posts another."""

    def endorse(self, round_: int, sender: Address) -> None:
        """Sign the sealed block of a round (Q1), once."""

    def post_endorsements(self, round_: int, sender: Address) -> None:
        """Post all signatures under the block of a round that are here."""

    def wait_turn(self, rank: int) -> None:
        """Wait until whoever has this rank may lead the round (P12)."""

    def with_terms(self, orders: list[Order], addresses: Sequence[Address]) -> list[Order]:
        """Orders to devices, with what each needs to post its gradient here."""

    def read_signed(self, transaction: bytes, payload: bytes, sender: Address, plan: Plan) -> Gradient:
        """The gradient that a device has signed, checked (P6) before it is posted; `GradientRefusedError`."""


class Clock(Protocol):
    """Time as an argument: the wall clock on a real machine, a simulated one in tests and simulation."""

    def now(self) -> float:
        """Seconds since some fixed moment."""

    def sleep(self, seconds: float) -> None:
        """Let that much time pass."""


class InProcessBoard:
    """A dictionary with the ledger's rules. Only the current round is kept."""

    is_signed = False

    def __init__(self, clock: Clock, poll_s: float = 0.1) -> None:
        self._clock = clock
        self._poll_s = poll_s
        self._posts: dict[RoundSlot, dict[Address, Any]] = {}

    def post(self, slot: RoundSlot, sender: Address, body: Any) -> Any:
        """Publish `body`; a second post of the same sender in the same slot is refused."""
        posts = self._posts.setdefault(slot, {})
        if sender in posts:
            raise BoardError(f"{sender} has already posted {slot}; expected one post per sender")
        posts[sender] = body
        for old in [s for s in self._posts if s.round <= slot.round - _KEPT_ROUNDS]:
            del self._posts[old]
        return body

    def drop(self, slot: RoundSlot, sender: Address) -> None:
        """Forget a post."""
        self._posts.get(slot, {}).pop(sender, None)

    def endorse(self, round_: int, sender: Address) -> None:
        """There are no blocks to endorse."""

    def post_endorsements(self, round_: int, sender: Address) -> None:
        """Nobody signs here."""

    def wait_turn(self, rank: int) -> None:
        """Nobody waits: a leader that fails here fails at once."""

    def with_terms(self, orders: list[Order], addresses: Sequence[Address]) -> list[Order]:
        """Orders as they are: nobody signs."""
        return orders

    def read_signed(self, transaction: bytes, payload: bytes, sender: Address, plan: Plan) -> Gradient:
        """Refused: nobody signs here."""
        raise GradientRefusedError("malformed", "found a transaction, but this network has no chain")

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """Posts of the slot by sender, in ascending order of address."""
        return dict(sorted(self._posts.get(slot, {}).items()))

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], deadline_s: float) -> dict[Address, Any]:
        """Posts of the slot once all `senders` are among them, or what is there after `deadline_s`."""
        wanted = set(senders)
        clock = self._clock
        wait_until(lambda: wanted <= self._posts.get(slot, {}).keys(), deadline_s, self._poll_s, clock.now, clock.sleep)
        return self.read(slot)
