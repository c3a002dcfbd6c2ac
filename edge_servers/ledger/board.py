"""The board that servers post on and read: what they need of a ledger, and one in memory without a chain (P21)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from chain.protocol.posts import Post
from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.orders import Order
from edge_servers.errors import BoardError, GradientRefusedError
from edge_servers.learning.gradients import Gradient

_KEPT_ROUNDS = 1


class RoundSlot(NamedTuple):
    """Where a post belongs: plan, gradient, roll, close, iterate or model of an attempt at a round. One per slot and
    sender.
    """

    round: int
    kind: str
    step: int = 0
    attempt: int = 0

    def __str__(self) -> str:
        what = f"{self.kind} {self.step}" if self.step else self.kind
        return f"{what} of round {self.round}" + (f", attempt {self.attempt}" if self.attempt else "")


class Board(Protocol):
    """What servers need of a ledger."""

    @property
    def is_signed(self) -> bool:
        """Whether devices sign what they send: they do on a chain."""

    def post(self, slot: RoundSlot, sender: Address, body: Any) -> Any:
        """Publish `body`, once; returns what the sender has now said, which it goes on from."""

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """What is there now, by sender."""

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], until_s: float) -> dict[Address, Any]:
        """What is there once all `senders` have posted, or at the deadline, which is a time of the board's clock."""

    def wait(self, ready: Callable[[], Any], until_s: float) -> Any:
        """What `ready` gives once it gives something, or at the deadline."""

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

    def __init__(self) -> None:
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

    def with_terms(self, orders: list[Order], addresses: Sequence[Address]) -> list[Order]:
        """Orders as they are: nobody signs."""
        return orders

    def read_signed(self, transaction: bytes, payload: bytes, sender: Address, plan: Plan) -> Gradient:
        """Refused: nobody signs here."""
        raise GradientRefusedError("malformed", "found a transaction, but this network has no chain")

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """Posts of the slot by sender, in ascending order of address."""
        return dict(sorted(self._posts.get(slot, {}).items()))

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], until_s: float) -> dict[Address, Any]:
        """Posts of the slot: all servers are of this process, so what is not there will not come."""
        return self.read(slot)

    def wait(self, ready: Callable[[], Any], until_s: float) -> Any:
        """Whatever it gives now."""
        return ready()


def hashes_of(posts: Mapping[bytes, Post], senders: Iterable[bytes]) -> tuple[bytes, ...]:
    """Of what these have posted; `BoardError` where it has gone with its attempt."""
    wanted = list(senders)
    gone = [sender for sender in wanted if sender not in posts]
    if gone:
        raise BoardError(f"what {Address(gone[0])} posted is not here any more")
    return tuple(posts[sender].transaction_hash for sender in wanted)
