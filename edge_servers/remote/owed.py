"""What devices owe their home (D2): one reply for each order, of so many pieces and bytes as the founding makes it.

A SuperLink stores whatever a registered key sends: messages that answer nothing, of any size, without end. Its door
asks here first, so that all that one device can leave there is its orders' worth.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_PIECES = 64
"""A reply has three: the message, its records, and one of them"""
_BESIDE_BYTES = 64 << 10
"""Of a reply, beside the data or the gradient in it"""
_AGAIN = 3
"""So often may a reply be announced, and be brought: an answer of the SuperLink's may be lost on its way"""


@dataclass
class _Debt:
    """Of one order."""

    node: int
    end_s: float
    announced: int = 0
    """How often."""
    left: int = 0
    """Bytes that its device may still bring for it, once it has announced a reply."""
    is_begun: bool = False


class Owed:
    """Which orders are open, and how much each device may still bring. For any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._lock = now, threading.Lock()
        self._most_bytes = _BESIDE_BYTES
        self._orders: dict[str, _Debt] = {}

    def expect(self, most_bytes: int) -> None:
        """The largest reply of the network; said before there are orders."""
        self._most_bytes = most_bytes + _BESIDE_BYTES

    @property
    def most_bytes(self) -> int:
        """Of one reply."""
        return self._most_bytes

    def ask(self, order: str, node: int, within_s: float) -> None:
        """An order was given to a device."""
        with self._lock:
            now = self._now()
            self._orders = {name: debt for name, debt in self._orders.items() if now < debt.end_s}
            self._orders[order] = _Debt(node, now + within_s)

    def may_announce(self, node: int, sender: int, order: str, pieces: int) -> bool:
        """Whether this device owes this reply; from then on it may bring it."""
        with self._lock:
            debt = self._orders.get(order)
            if debt is None or {node, sender} != {debt.node} or self._now() >= debt.end_s or pieces > MOST_PIECES:
                return False
            if debt.announced >= _AGAIN:
                return False
            if not debt.is_begun:
                debt.left = _AGAIN * self._most_bytes
            debt.announced, debt.is_begun = debt.announced + 1, True
            return True

    def take_back(self, order: str) -> None:
        """The SuperLink has not heard of that reply."""
        with self._lock:
            if order in self._orders:
                self._orders[order].announced -= 1

    def may_bring(self, node: int, size: int) -> bool:
        """Whether so many bytes of a reply are still its to bring; they are no more."""
        with self._lock:
            now = self._now()
            open_ = [debt for debt in self._orders.values() if debt.node == node and now < debt.end_s]
            debt = next((debt for debt in open_ if size <= debt.left), None)
            if debt is None or size > self._most_bytes:
                return False
            debt.left -= size
            return True

    def give_back(self, node: int, size: int) -> None:
        """The SuperLink has not got that piece."""
        with self._lock:
            most = _AGAIN * self._most_bytes - size
            debts = (debt for debt in self._orders.values() if debt.node == node and debt.is_begun)
            debt = next((debt for debt in debts if debt.left <= most), None)
            if debt is not None:
                debt.left += size
