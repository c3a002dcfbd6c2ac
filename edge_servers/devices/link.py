"""One edge server's line to its devices: orders out, replies in, over any Flower Grid, with a bounded wait."""

from collections.abc import Container, Iterable, Mapping

from flwr.app import Message
from flwr.serverapp import Grid

from clients.orders import Order, order_messages
from edge_servers.ledger.board import Clock


class DeviceLink:
    """The sub-grid of one server: the Flower nodes that are its devices."""

    def __init__(self, grid: Grid, nodes: Mapping[int, int], clock: Clock, poll_s: float = 0.1) -> None:
        self._grid = grid
        self.nodes = nodes  # device -> Flower node
        self._clock = clock
        self._poll_s = poll_s
        self._asked: dict[str, int] = {}  # message -> device
        self.silent: set[int] = set()
        """Devices that have not answered their last order, not even late."""
        self._began_s, self._end_s = 0.0, 0.0
        self._prepared: list[tuple[int, Message]] | None = None
        self._delivered: list[Message] | None = None

    def prepare(self, orders: list[Order]) -> list[Message]:
        """The orders as Flower messages to the right nodes; whoever sends them may be another (`deliver`)."""
        known = [order for order in orders if order.device in self.nodes]  # the others are out, as late
        messages = order_messages((order, self.nodes[order.device]) for order in known)
        self._prepared = [(order.device, message) for order, message in zip(known, messages, strict=True)]
        return messages

    def deliver(self, replies: Iterable[Message]) -> None:
        """Flower has sent what was prepared, and these are the replies; no others will come."""
        self._asked = {message.metadata.message_id: device for device, message in self._prepared or []}
        self._delivered, self._prepared, self._end_s = list(replies), None, self._clock.now()

    def send(self, deadline_s: float) -> None:
        """Hand what was prepared to Flower, if nobody has; the deadline runs from here. What is still owed from last
        round is forgotten.
        """
        if self._prepared is None:
            return
        sent, self._prepared, self._delivered = self._prepared, None, None
        self.silent = set(self._asked.values()) - self._late()
        ids = self._grid.push_messages([message for _, message in sent])
        self._asked = dict(zip(ids, (device for device, _ in sent), strict=True))
        self._began_s = self._clock.now()
        self._end_s = self._began_s + deadline_s

    def _late(self) -> set[int | None]:
        """Devices that have answered when nobody waited any more."""
        replies = self._grid.pull_messages(list(self._asked)) if self._asked else ()
        return {self._asked.get(each.metadata.reply_to_message_id) for each in replies}

    def ask_again(self, order: Order) -> None:
        """One more message to a device that has answered; what it says counts as its reply."""
        (message,) = order_messages([(order, self.nodes[order.device])])
        (name,) = self._grid.push_messages([message])
        self._asked[name] = order.device

    def collect(self, devices: Container[int], within_s: float | None = None) -> dict[int, Message]:
        """Replies of `devices`, until all of them have come or the deadline has passed, or so much of its time.

        Mapped by the message they answer: a dead node's error reply comes from the SuperLink, not from the node.
        """
        replies: dict[int, Message] = {}
        end_s = self._end_s if within_s is None else min(self._end_s, self._began_s + within_s)
        while waiting := [i for i, device in self._asked.items() if device in devices]:
            for reply in self._pull(waiting):
                device = self._asked.pop(reply.metadata.reply_to_message_id, None)
                if device is not None:
                    replies[device] = reply
            if self._clock.now() >= end_s:
                break
            if any(i in self._asked for i in waiting):
                self._clock.sleep(self._poll_s)
        return replies

    def _pull(self, waiting: list[str]) -> Iterable[Message]:
        if self._delivered is None:
            return self._grid.pull_messages(waiting)
        return [reply for reply in self._delivered if reply.metadata.reply_to_message_id in waiting]
