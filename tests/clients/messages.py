"""Orders and messages for tests, and the wire between a server and a device."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import Array, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto

from clients.models import Vector
from clients.orders import Order, order_messages, vector_digest

NODE_ID = 1_000


def _npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def _npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, model=np.zeros(3, np.float32))
    return buffer.getvalue()


EVIL_BYTES = {
    "nothing": b"",
    "zip": b"PK\x03\x04garbage",
    "npz": _npz(),
    "no numpy": b"bytes",
    "huge shape": _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,), }\n"),
    "overflowing shape": _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000000000000000,), }\n"),
    "unclosed bracket": _npy(b"{'descr': '<f4', (\n"),
    "nested signs": _npy(b"-" * 9_000 + b"1\n"),
}
"""What `numpy.load` stumbles over, with errors of many kinds."""


def evil_array(name: str) -> Array:
    """One of `EVIL_BYTES` that says it is a vector of three floats."""
    return Array("float32", (3,), "numpy.ndarray", EVIL_BYTES[name])


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
