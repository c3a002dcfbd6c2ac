"""What a device answers to an order: the gradient with its weight, or its data, or why not."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from clients.arrays import one_array, read_array
from clients.errors import ClientError, ReplyError
from clients.models import Vector
from clients.orders import Order, record_in

MALFORMED = 400
"""Error code of a reply to an order that cannot be read."""
FAILED = 500
"""Error code of a reply to an order whose training failed."""


@dataclass(frozen=True)
class GradientReply:
    """A trained device's answer: C_n with its weight, and what it was made from."""

    device: int
    round: int
    model_digest: str
    plan_digest: str
    samples: int
    iterations: int
    values: NDArray[Any]


@dataclass(frozen=True)
class SignedReply:
    """A trained device's answer on a chain: the signed transaction that posts its gradient, and the gradient (B8)."""

    device: int
    round: int
    transaction: bytes
    payload: bytes


@dataclass(frozen=True)
class DataReply:
    """An offloading device's answer: the data it would have trained on."""

    device: int
    round: int
    inputs: NDArray[Any]
    labels: NDArray[Any]


@dataclass(frozen=True)
class SealedReply:
    """The same, sealed to the server that the plan names (D7)."""

    device: int
    round: int
    sealed: bytes


def gradient_message(order: Order, samples: int, iterations: int, values: Vector, reply_to: Message) -> Message:
    """The reply of a device that trained."""
    about: dict[str, Any] = {"kind": "gradient", "device": order.device, "round": order.round}
    made_from = {"model-digest": order.model_digest, "plan-digest": order.plan_digest}
    content = RecordDict(
        {
            "about": ConfigRecord({**about, **made_from}),
            "weight": MetricRecord({"samples": samples, "iterations": iterations}),
            "arrays": one_array("gradient", values),
        }
    )
    return Message(content, reply_to=reply_to)


def signed_message(order: Order, signed: tuple[bytes, bytes], reply_to: Message) -> Message:
    """The reply of a device that trained and signed: the transaction and its payload."""
    about: dict[str, Any] = {"kind": "signed", "device": order.device, "round": order.round}
    post = {"transaction": signed[0], "payload": signed[1]}
    return Message(RecordDict({"about": ConfigRecord({**about, **post})}), reply_to=reply_to)


def data_message(order: Order, inputs: NDArray[Any], labels: NDArray[np.int64], reply_to: Message) -> Message:
    """The reply of a device that offloads."""
    about = ConfigRecord({"kind": "data", "device": order.device, "round": order.round})
    arrays = ArrayRecord({"inputs": Array(inputs), "labels": Array(labels)})
    return Message(RecordDict({"about": about, "arrays": arrays}), reply_to=reply_to)


def sealed_message(order: Order, sealed: bytes, reply_to: Message) -> Message:
    """The reply of a device that offloads to a server of another machine."""
    about: dict[str, Any] = {"kind": "sealed", "device": order.device, "round": order.round, "sealed": sealed}
    return Message(RecordDict({"about": ConfigRecord(about)}), reply_to=reply_to)


def data_bytes(inputs: NDArray[Any], labels: NDArray[np.int64]) -> bytes:
    """Inputs, then labels; of what form, whoever opens them knows."""
    return np.ascontiguousarray(inputs).tobytes() + labels.astype("<i8").tobytes()


def read_data(raw: bytes, samples: int, like: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The reverse of `data_bytes`, for so many samples that look like these; `ReplyError` for more bytes or fewer."""
    shape = (samples, *like.shape[1:])
    split = int(np.prod(shape)) * like.dtype.itemsize
    if len(raw) != split + 8 * samples:
        raise ReplyError(f"found {len(raw)} bytes of data, expected {split + 8 * samples} for {samples} samples")
    inputs = np.frombuffer(raw[:split], like.dtype).reshape(shape)
    return inputs.copy(), np.frombuffer(raw[split:], "<i8").astype(np.int64)


def error_message(error: ClientError, reply_to: Message, code: int) -> Message:
    """The reply of a device that cannot or will not: Flower's own error form, with a reason for people."""
    return Message(Error(code, f"{type(error).__name__}: {error}"), reply_to=reply_to)


Reply = GradientReply | SignedReply | DataReply | SealedReply


def read_reply(message: Message) -> Reply:
    """The reply in a message, or a `ReplyError`: its form is checked here, its meaning by the edge server."""
    try:
        about = record_in(message, "about")
        device, round_ = _whole(about, "device"), _whole(about, "round")
        if about["kind"] == "signed":
            for name in ("transaction", "payload"):
                if type(about[name]) is not bytes:
                    raise ValueError(f"{name} is no bytes")
            return SignedReply(device, round_, about["transaction"], about["payload"])
        if about["kind"] == "sealed":
            if type(about["sealed"]) is not bytes:
                raise ValueError("sealed is no bytes")
            return SealedReply(device, round_, about["sealed"])
        arrays = record_in(message, "arrays")
        if about["kind"] == "data":
            return DataReply(device, round_, read_array(arrays, "inputs"), read_array(arrays, "labels"))
        weight = record_in(message, "weight")
        return GradientReply(
            device=device,
            round=round_,
            model_digest=str(about["model-digest"]),
            plan_digest=str(about["plan-digest"]),
            samples=_whole(weight, "samples"),
            iterations=_whole(weight, "iterations"),
            values=read_array(arrays, "gradient"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReplyError(f"expected a gradient with its weight, or data: {error}") from error


def _whole(record: Any, key: str) -> int:
    """A whole number as it is: neither 2.7 nor "8" nor True is one."""
    value = record[key]
    if type(value) is not int:
        raise ValueError(f"{key} is {value!r}, expected a whole number")
    return value
