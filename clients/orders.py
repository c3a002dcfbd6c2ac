"""What an edge server and a device say to each other: one order per device and round (P25), one reply.

An order is "offload your data to server m, else train by the deadline", or plainly "train". A reply carries the
gradient with its weight, or the data. Everything from outside is checked here, once.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from numpy.typing import NDArray

from clients.arrays import one_array, read_array
from clients.errors import OrderError
from clients.models import Vector
from clients.plugins import is_allowed

TRAIN = "train"
OFFLOAD = "query.offload"
INTRODUCE = "query.introduce"
JOIN = "query.join"
_SHORTEST_LIFETIME_S = 60.0

try:
    SOFTWARE = version("bfl")
except PackageNotFoundError:  # run from a bundle of Flower's
    SOFTWARE = "0"
"""Of whoever makes an order, and of whoever carries it out: they must be the same (D2)"""


def vector_digest(vector: Vector) -> str:
    """The name of a model: sha256 of its little-endian float32 bytes."""
    return hashlib.sha256(np.ascontiguousarray(vector, "<f4").tobytes()).hexdigest()


@dataclass(frozen=True)
class LedgerTerms:
    """What a device needs to post its gradient on a chain."""

    chain_id: int
    registry: str
    nonce: int
    codec: str
    base_model: str
    plan: str
    """Digests on the ledger, in hex."""
    attempt: int = 0
    """Of the round, that of the plan (D3.1)."""


@dataclass(frozen=True)
class Order:
    """One device's part of one round."""

    round: int
    device: int
    model: Vector
    model_digest: str
    plan_digest: str
    samples: int
    iterations: int
    batch: int
    learning_rate: float
    optimizer: str
    seed: int
    deadline_s: float
    offload_to: int = -1
    """Server that should get the data; -1: train here."""
    ledger: LedgerTerms | None = None
    """On a chain: the device signs its gradient as a transaction."""
    proof: bytes = b""
    """On a chain: that the model is in a sealed block (P16)."""
    plan_post: bytes = b""
    plan_payload: bytes = b""
    """On a chain: the leader's plan, the signed transaction and what is beside it (Q5)."""
    software: str = SOFTWARE
    train_anyway: bool = False
    """The same order once more: the server that should get the data has not signed that it has them (D7)."""

    @property
    def message_type(self) -> str:
        """How Flower routes it."""
        return TRAIN if self.offload_to < 0 or self.train_anyway else OFFLOAD


_FIELDS: dict[str, type] = {
    "round": int, "device": int, "model-digest": str, "plan-digest": str, "samples": int, "iterations": int,
    "batch": int, "learning-rate": float, "optimizer": str, "seed": int, "deadline-s": float, "offload-to": int,
    "software": str, "train-anyway": bool,
}  # fmt: skip
_POSITIVE = ("round", "samples", "iterations", "batch", "learning-rate", "deadline-s")
_MOST_BYTES = {"proof": 16 << 20, "plan_post": 1 << 10, "plan_payload": 16 << 20}
"""What an order on a chain carries besides its terms, and how much of it at most"""
ATTEMPTS = 2**32
"""Of a round: attempts are 0 and more, and less than this."""


def order_messages(orders: Iterable[tuple[Order, int]]) -> list[Message]:
    """Flower messages for (order, node id). Orders on the same model share its one record."""
    records: dict[str, ArrayRecord] = {}
    messages = []
    for order, node_id in orders:
        if order.model_digest not in records:
            records[order.model_digest] = one_array("model", order.model)
        fields = {key: getattr(order, key.replace("-", "_")) for key in _FIELDS}
        content = RecordDict({"order": ConfigRecord(fields), "model": records[order.model_digest]})
        if order.ledger:
            beside = {name: getattr(order, name) for name in _MOST_BYTES}
            content["ledger"] = ConfigRecord({**asdict(order.ledger), **beside})
        # It lives as long as its deadline: a device that was away must not work through the orders of dead rounds.
        lifetime_s = max(order.deadline_s, _SHORTEST_LIFETIME_S)
        messages.append(Message(content, node_id, order.message_type, group_id=str(order.round), ttl=lifetime_s))
    return messages


def read_order(message: Message) -> Order:
    """The order in a message, or an `OrderError` that says what is wrong with it."""
    try:
        fields = dict(record_in(message, "order"))
        model = read_array(record_in(message, "model"), "model")
    except (KeyError, TypeError, ValueError) as error:
        raise OrderError(f"expected records 'order' and 'model' with a model: {error}") from error
    if fields.get("software", SOFTWARE) != SOFTWARE:
        found = f"found an order of bfl {fields['software']!s:.40}, this device has {SOFTWARE}"
        raise OrderError(f"order: {found}; install the same version on both")
    for key, kind in _FIELDS.items():
        if type(fields.get(key)) is not kind:
            raise OrderError(f"order: {key} is {fields.get(key)!r}, expected {kind.__name__}")
        if key in _POSITIVE and not 0 < fields[key] < float("inf"):
            raise OrderError(f"order: {key} is {fields[key]!r}, expected more than 0")
    if not is_allowed("optimizer", fields["optimizer"]):
        raise OrderError(f"order: optimizer is {fields['optimizer']!r:.100}, expected sgd or adam")
    if fields["seed"] < 0:
        raise OrderError(f"order: seed is {fields['seed']!r}, expected 0 or more")
    _check_model(model, str(fields["model-digest"]))
    values: dict[str, Any] = {key.replace("-", "_"): value for key, value in fields.items() if key in _FIELDS}
    if "ledger" in message.content:
        values |= _read_terms(dict(record_in(message, "ledger")))
    return Order(model=model, **values)


def _read_terms(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of an order that it has on a chain only."""
    kinds: dict[str, Any] = {field.name: field.type for field in dataclass_fields(LedgerTerms)}
    if fields.keys() != kinds.keys() | _MOST_BYTES.keys():
        expected = f"{sorted(kinds)}, a plan and a proof"
        raise OrderError(f"order: found ledger terms {sorted(fields)!s:.200}, expected {expected}")
    for name, most in _MOST_BYTES.items():
        found = fields[name]
        if type(found) is not bytes or len(found) > most:
            size = f"{len(found)} bytes" if type(found) is bytes else type(found).__name__
            raise OrderError(f"order: found {size} of {name}, expected at most {most} bytes")
    for name, kind in kinds.items():
        value = fields[name]
        if type(value) is not kind or (kind is int and value < 0):
            raise OrderError(f"order: ledger {name} is {value!r:.80}, expected {kind.__name__}")
    if fields["attempt"] >= ATTEMPTS:
        raise OrderError(f"order: ledger attempt is {fields['attempt']}, expected less than {ATTEMPTS}")
    ledger = LedgerTerms(**{name: fields[name] for name in kinds})
    return {"ledger": ledger, **{name: fields[name] for name in _MOST_BYTES}}


def _check_model(model: NDArray[Any], digest: str) -> None:
    if model.ndim != 1 or model.dtype != np.float32:
        raise OrderError(f"order: model is {model.dtype} of shape {model.shape}, expected a flat float32 vector")
    found = vector_digest(model)
    if found != digest:
        raise OrderError(f"order: model has digest {found[:12]}, expected {digest[:12]}")


def record_in(message: Message, name: str) -> Any:
    """One of a message's records; `ValueError` where it has none of that name."""
    if not message.has_content() or name not in message.content:
        raise ValueError(f"found no record '{name}'")
    return message.content[name]
