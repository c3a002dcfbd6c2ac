"""Orders and messages for tests, and the wire between a server and a device."""

from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto

from clients.models import Vector
from clients.orders import Order, order_messages, vector_digest

NODE_ID = 1_000


def an_order(model: Vector | None = None, **changes: Any) -> Order:
    """An order to train, sound unless `changes` spoil it."""
    vector = np.array([1.0, -2.0, 0.5], np.float32) if model is None else model
    order = Order(
        round=4,
        device=2,
        model=vector,
        model_digest=vector_digest(vector),
        plan_digest="plan-digest",
        samples=8,
        iterations=3,
        batch=5,
        learning_rate=0.1,
        optimizer="sgd",
        seed=7,
        deadline_s=60.0,
    )
    return replace(order, **changes)


def sent(order: Order) -> Message:
    """The order as one message to one node."""
    return order_messages([(order, NODE_ID)])[0]


def over_the_wire(message: Message) -> Message:
    """What arrives at the other end: the message through Flower's own serialisation."""
    return message_from_proto(message_to_proto(message))


def message_with(content: RecordDict, message_type: str = "train") -> Message:
    """A message with any content."""
    return Message(content, NODE_ID, message_type)
