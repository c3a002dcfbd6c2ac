"""Who is let into a round's closed list (P4, P6): every gradient and every hand-over of data is checked here."""

from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Message

from clients.data import Samples
from clients.errors import ReplyError
from clients.orders import DataReply, GradientReply, read_reply
from edge_servers.aggregation import norm
from edge_servers.errors import GradientRefusedError
from edge_servers.network import DeviceRecord, Task
from edge_servers.planning import LOCAL
from edge_servers.posts import Gradient, Plan


@dataclass(frozen=True)
class Expected:
    """What a device's reply is measured against."""

    round: int
    plan: Plan
    model_digest: str
    samples: int
    size: int
    value_bound: float
    norm_bound: float
    task: Task


def admitted_reply(message: Message | None, device: DeviceRecord, expected: Expected) -> Gradient | Samples:
    """A device's reply as a gradient or as data, or a `GradientRefusedError` with the reason it is not in the list."""
    if message is None:
        raise GradientRefusedError("late", f"no answer within {expected.plan.deadline_s:g} s")
    if message.has_error():
        raise GradientRefusedError("failed", message.error.reason or f"error code {message.error.code}")
    try:
        reply = read_reply(message)
    except ReplyError as error:
        raise GradientRefusedError("malformed", str(error)) from error
    if (reply.device, reply.round) != (device.index, expected.round):
        raise GradientRefusedError(
            "stale",
            f"found an answer of device {reply.device} for round {reply.round}, "
            f"expected device {device.index}, round {expected.round}",
        )
    if isinstance(reply, GradientReply):
        return _admitted_gradient(reply, device, expected)
    if expected.plan.assignment[device.index] == LOCAL:
        raise GradientRefusedError("malformed", "found data, expected a gradient: the plan says train")
    return checked_data(reply, expected.task.like, expected.task.classes, expected.samples)


def _admitted_gradient(reply: GradientReply, device: DeviceRecord, expected: Expected) -> Gradient:
    check_origin(reply, expected)
    gradient = Gradient(
        sender=device.address,
        node=f"device {device.index}",
        server=device.home,
        samples=reply.samples,
        iterations=reply.iterations,
        model_digest=reply.model_digest,
        plan_digest=reply.plan_digest,
        values=reply.values,
    )
    check_gradient(gradient, expected.size, expected.value_bound, expected.norm_bound)
    return gradient


def check_gradient(gradient: Gradient, size: int, value_bound: float, norm_bound: float) -> None:
    """Raise `GradientRefusedError` unless the values are well-formed, finite and within bounds (P6).

    Bounds are per iteration: since D_y / (D e_y) sums to at most 1 over all nodes, no honest server's sum can then
    leave the fixed-point range.
    """
    values = gradient.values
    if values.dtype != np.float32 or values.shape != (size,):
        raise GradientRefusedError(
            "malformed", f"found {values.dtype} of shape {values.shape}, expected float32 of ({size},)"
        )
    largest = float(np.abs(values).max())  # NaN and infinity show here too
    if not np.isfinite(largest):
        raise GradientRefusedError("not-finite", f"found {largest} among the values, expected finite numbers")
    if largest > value_bound * gradient.iterations:
        raise GradientRefusedError(
            "out-of-bounds",
            f"found |value| {largest:g}, expected at most {value_bound * gradient.iterations:g}",
        )
    length = norm(values)
    if length > norm_bound * gradient.iterations:
        raise GradientRefusedError(
            "out-of-bounds", f"found norm {length:g}, expected at most {norm_bound * gradient.iterations:g}"
        )


def check_origin(reply: GradientReply, expected: Expected) -> None:
    """Raise `GradientRefusedError` unless it was made from this round's model and plan, with the planned weight."""
    wanted = (expected.model_digest, expected.plan.digest)
    for what, found, right in zip(("base model", "plan"), (reply.model_digest, reply.plan_digest), wanted, strict=True):
        if found != right:
            raise GradientRefusedError("stale", f"found {what} {found[:12]}, expected {right[:12]}")
    if (reply.samples, reply.iterations) != (expected.samples, expected.plan.iterations):
        raise GradientRefusedError(
            "wrong-weight",
            f"found {reply.samples} samples and {reply.iterations} iterations, "
            f"expected {expected.samples} and {expected.plan.iterations}",
        )


def checked_data(reply: DataReply, like: Samples, classes: int, samples: int) -> Samples:
    """Offloaded data as samples, or a `GradientRefusedError` that says what is wrong with it."""
    images, labels = reply.images, reply.labels
    shape = (samples, *like.images.shape[1:])
    if images.shape != shape or images.dtype != like.images.numpy().dtype:
        raise GradientRefusedError(
            "malformed",
            f"found images {images.dtype} of shape {images.shape}, expected {like.images.numpy().dtype} of {shape}",
        )
    if labels.shape != (samples,) or labels.dtype != np.int64:
        raise GradientRefusedError(
            "malformed",
            f"found labels {labels.dtype} of shape {labels.shape}, expected int64 of ({samples},)",
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise GradientRefusedError(
            "malformed", f"found labels {labels.min()} to {labels.max()}, expected 0 to {classes - 1}"
        )
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise GradientRefusedError("not-finite", "found NaN or infinity in the images, expected finite numbers")
    return Samples(torch.from_numpy(images), torch.from_numpy(labels), like.mean, like.std)
