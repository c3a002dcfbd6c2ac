"""Replies on their way out of a SuperLink (D2): a device announces one, and brings its pieces, or some, or none.

Flower's own Grid waits for the pieces of all replies together, up to two hours, and one reply that cannot be read takes
with it those that came beside it. Here each comes by itself, nobody is waited for, and none is larger than it may be.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from flwr.app import Message

from clients.errors import BadReplyError
from clients.flower_replies import Arrival, put_together
from clients.flower_tasks import ServerTask
from edge_servers.remote.owed import MOST_PIECES

Refused = Callable[[BadReplyError, str], Message]
"""The reply to an order whose own cannot be read"""


@dataclass
class _Reply:
    """What is here of one."""

    arrival: Arrival
    pieces: dict[str, bytes] = field(default_factory=dict)

    def fetch(self, task: ServerTask, most_bytes: int) -> Message | None:
        """What has come by now; the reply once it is whole, `BadReplyError` where it will be none."""
        if len(self.arrival.pieces) > MOST_PIECES:
            raise BadReplyError(f"found a reply in {len(self.arrival.pieces)} pieces, expected at most {MOST_PIECES}")
        for name in self.arrival.pieces:
            if name not in self.pieces:
                piece = task.piece(name)
                if piece is None:
                    return None
                self.pieces[name] = piece
                if (size := sum(map(len, self.pieces.values()))) > most_bytes:
                    raise BadReplyError(f"found {size} bytes of a reply, expected at most {most_bytes}")
        return put_together(self.arrival, self.pieces)


class Arriving:
    """Those that have been announced, by their orders."""

    def __init__(self, refused: Refused) -> None:
        self._refused, self._open = refused, dict[str, _Reply]()
        self.done = set[str]()
        """Replies that the SuperLink need not keep."""

    def without(self, orders: Iterable[str]) -> list[str]:
        """Of these the ones whose replies are not announced yet."""
        return [each for each in orders if each not in self._open]

    def add(self, arrivals: Iterable[Arrival], orders: Collection[str]) -> None:
        """Replies to these orders were announced; a second one to the same is none."""
        for each in arrivals:
            if each.answers in orders:
                self._open.setdefault(each.answers, _Reply(each))

    def fetch(self, task: ServerTask, order: str, most_bytes: int) -> list[Message]:
        """The reply to an order, if it is here by now."""
        if order not in self._open:
            return []
        try:
            found = self._open[order].fetch(task, most_bytes)
        except BadReplyError as error:
            found = self._refused(error, order)
        if found is None:
            return []
        self.done.add(self._open.pop(order).arrival.name)
        return [found]

    def forget(self, orders: Iterable[str]) -> None:
        """Nobody waits for the replies to these any longer."""
        for order in orders:
            if order in self._open:
                self.done.add(self._open.pop(order).arrival.name)
