"""Who is let into a round's closed list (P4, P6): every gradient and every hand-over of data is checked here."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import Message

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.errors import ReplyError
from clients.replies import DataReply, GradientReply, SealedReply, SignedReply, read_reply
from clients.root_set import VERDICTS
from edge_servers.errors import GradientRefusedError
from edge_servers.founding.network import DeviceRecord, LearningTask, Network
from edge_servers.learning.bounds import check_gradient
from edge_servers.learning.filters import make_filters
from edge_servers.learning.gradients import LATE, Attendance, Gradient, Refusal
from edge_servers.ledger.board import Board
from edge_servers.parameters import RoundParams
from edge_servers.planning.proposal import LOCAL
from edge_servers.replay.record import UNAVAILABLE

_REASON = re.compile(r"[a-z][a-z-]{0,31}")


@dataclass(frozen=True)
class Expected:
    """What a device's reply is measured against."""

    plan: Plan
    device: DeviceRecord
    model_digest: str
    task: LearningTask
    bounds: RoundParams

    @property
    def samples(self) -> int:
        """D_n of the plan."""
        return self.plan.samples[self.device.index]

    @property
    def iterations(self) -> int:
        """e_n of the plan."""
        return self.plan.iterations[self.device.index]


def admit_reply(message: Message | None, expected: Expected, board: Board) -> Gradient | DataReply | SealedReply:
    """A device's reply as a gradient or as data, or a `GradientRefusedError` with the reason it is not in the list.

    On a chain the gradient is in a transaction that the device has signed, and the board reads it.
    """
    device, plan = expected.device, expected.plan
    if message is None:
        raise GradientRefusedError(LATE, f"no answer within {plan.deadline_s:g} s")
    if message.has_error():
        raise GradientRefusedError("failed", message.error.reason or f"error code {message.error.code}")
    try:
        reply = read_reply(message)
    except ReplyError as error:
        raise GradientRefusedError("malformed", str(error)) from error
    if (reply.device, reply.round) != (device.index, plan.round):
        raise GradientRefusedError(
            "stale",
            f"found an answer of device {reply.device} for round {reply.round}, "
            f"expected device {device.index}, round {plan.round}",
        )
    if isinstance(reply, SignedReply):
        return board.read_signed(reply.transaction, reply.payload, device.address, plan)
    if isinstance(reply, GradientReply):
        if board.is_signed:
            raise GradientRefusedError("unsigned", "found a gradient without a signature; this network has a chain")
        return _unsigned_gradient(reply, expected)
    if plan.assignment[device.index] == LOCAL:
        raise GradientRefusedError("malformed", "found data, expected a gradient: the plan says train")
    if isinstance(reply, SealedReply):  # their target opens and checks them
        return reply
    check_data(reply, expected.task, expected.samples)
    return reply


def _unsigned_gradient(reply: GradientReply, expected: Expected) -> Gradient:
    check_origin(reply, expected)
    device = expected.device
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
    size = sum(p.numel() for p in expected.task.architecture.parameters())
    check_gradient(gradient, size, expected.bounds)
    return gradient


def check_origin(reply: GradientReply, expected: Expected) -> None:
    """Raise `GradientRefusedError` unless it was made from this round's model and plan, with the planned weight."""
    wanted = (expected.model_digest, expected.plan.digest)
    for what, found, right in zip(("base model", "plan"), (reply.model_digest, reply.plan_digest), wanted, strict=True):
        if found != right:
            raise GradientRefusedError("stale", f"found {what} {found[:12]}, expected {right[:12]}")
    if (reply.samples, reply.iterations) != (expected.samples, expected.iterations):
        raise GradientRefusedError(
            "wrong-weight",
            f"found {reply.samples} samples and {reply.iterations} iterations, "
            f"expected {expected.samples} and {expected.iterations}",
        )


def check_data(reply: DataReply, task: LearningTask, samples: int) -> None:
    """Raise `GradientRefusedError` unless handed-over data is what the plan and the task say."""
    inputs, labels = reply.inputs, reply.labels
    like = task.like.inputs.numpy()
    shape = (samples, *like.shape[1:])
    if inputs.shape != shape or inputs.dtype != like.dtype:
        raise GradientRefusedError(
            "malformed", f"found inputs {inputs.dtype} of shape {inputs.shape}, expected {like.dtype} of {shape}"
        )
    if labels.shape != (samples,) or labels.dtype != np.int64:
        raise GradientRefusedError(
            "malformed", f"found labels {labels.dtype} of shape {labels.shape}, expected int64 of ({samples},)"
        )
    if labels.min() < 0 or labels.max() >= task.classes:
        raise GradientRefusedError(
            "malformed", f"found labels {labels.min()} to {labels.max()}, expected 0 to {task.classes - 1}"
        )
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        raise GradientRefusedError("not-finite", "found NaN or infinity in the inputs, expected finite numbers")
    if inputs.dtype == np.int64 and not 0 <= inputs.min() <= inputs.max() < task.like.vocabulary:
        raise GradientRefusedError(
            "malformed", f"found inputs {inputs.min()} to {inputs.max()}, expected 0 to {task.like.vocabulary - 1}"
        )


def heard_refusals(
    rolls: Mapping[Address, Attendance], network: Network, filter_text: str, serving: Sequence[int]
) -> list[Refusal]:
    """Who is out by the rolls of the servers that order them, as far as those are believed."""
    told = [(network.server_index(server), roll.refused) for server, roll in rolls.items()]
    return [each for m, refused in told for each in believed_refusals(m, refused, filter_text, serving)]


def believed_refusals(
    server: int, refusals: Iterable[Refusal], filter_text: str, serving: Sequence[int]
) -> list[Refusal]:
    """What may be believed of a server's word: who of those that it orders (`serving`: by device, the server that does)
    is out, for reasons that are not the leader's.

    One short code each: the closed list has a size (B2), and no server's word makes an honest leader's too large.
    """
    own = {f"server {server}", *(f"device {n}" for n, m in enumerate(serving) if m == server)}
    reserved = {UNAVAILABLE, *VERDICTS, *make_filters(filter_text).reasons}
    believed: dict[str, Refusal] = {}
    for refusal in refusals:
        is_code = _REASON.fullmatch(refusal.reason) is not None and refusal.reason not in reserved
        if refusal.node in own and is_code:
            believed.setdefault(refusal.node, refusal)
    return list(believed.values())
