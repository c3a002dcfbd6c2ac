"""One edge server's line to its devices: orders out, replies in, over any Flower Grid, with a bounded wait."""

from collections.abc import Container, Mapping

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
        self._end_s = 0.0

    def messages(self, orders: list[Order]) -> list[Message]:
        """The orders as Flower messages to the right nodes."""
        return order_messages((order, self.nodes[order.device]) for order in orders)

    def send(self, orders: list[Order], deadline_s: float) -> None:
        """Hand the orders to Flower; the deadline runs from here. What is still owed from last round is forgotten."""
        ids = self._grid.push_messages(self.messages(orders))
        self._asked = dict(zip(ids, (order.device for order in orders), strict=True))
        self._end_s = self._clock.now() + deadline_s

    def collect(self, devices: Container[int]) -> dict[int, Message]:
        """Replies of `devices`, until all of them have come or the deadline has passed.

        Mapped by the message they answer: a dead node's error reply comes from the SuperLink, not from the node.
        """
        replies: dict[int, Message] = {}
        while waiting := [i for i, device in self._asked.items() if device in devices]:
            for reply in self._grid.pull_messages(waiting):
                device = self._asked.pop(reply.metadata.reply_to_message_id, None)
                if device is not None:
                    replies[device] = reply
            if self._clock.now() >= self._end_s:
                break
            if any(i in self._asked for i in waiting):
                self._clock.sleep(self._poll_s)
        return replies
