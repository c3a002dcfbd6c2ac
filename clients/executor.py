"""A device that stays (D2): it takes the orders that its SuperNode has, one after the other, and answers them.

What runs is the installed code: the bundle that comes with an order is not looked at.
"""

import threading
from collections.abc import Callable

from eth_hash.auto import keccak
from flwr.app import Message

from clients.device import Device, answer_orders
from clients.errors import FlowerAwayError, OrderError
from clients.flower_tasks import DeviceTasks
from clients.orders import OFFLOAD, TRAIN, record_in
from clients.parameters import TrainingParams
from clients.replies import MALFORMED, SealedReply, SignedReply, error_message, read_reply

_LOOK_S = 0.3
_AGAIN_S = 1.0


def serve_orders(
    device: Device, tasks: DeviceTasks, training: TrainingParams, stop: threading.Event, say: Callable[[str], None]
) -> None:
    """Answer orders until it is stopped; a SuperNode that is away is asked again."""
    is_away = False
    while not stop.is_set():
        try:
            answered = _answer_one(device, tasks, training)
        except FlowerAwayError as error:
            if not is_away:
                say(f"its SuperNode is away: {error}")
            is_away = True
            stop.wait(_AGAIN_S)
            continue
        if is_away:
            say("its SuperNode answers again")
        is_away = False
        if answered:
            say(answered)
        else:
            stop.wait(_LOOK_S)


def _answer_one(device: Device, tasks: DeviceTasks, training: TrainingParams) -> str:
    """What happened to an order; nothing where there is none."""
    task = tasks.find()
    if task is None:
        return ""
    with task:
        reply = answer(device, task.message, training)
        task.answer(reply)
    return told_of(device, task.message, reply)


def told_of(device: Device, message: Message, reply: Message) -> str:
    """An order and its answer in one line: on what model, proven by which block; what was trained or handed over."""
    round_ = f"round {message.metadata.group_id}" if message.metadata.group_id else "an order"
    if reply.has_error():
        return f"{round_}: refused: {reply.error.reason}"
    order, answered = record_in(message, "order"), read_reply(reply)
    samples, model = f"{order['samples']:,} samples", "the founding's model"
    if device.wallet is not None and order["round"] > 1:
        known = device.wallet.known
        model = f"model {known.round} is proven by block {known.number} 0x{known.hash.hex()}"
    if isinstance(answered, SignedReply):
        done = (
            f"trained on {samples}, {order['iterations']} iterations, gradient 0x{keccak(answered.transaction).hex()}"
        )
    else:
        done = f"handed over {samples} for server {order['offload-to']}"
        done += f", sealed to it, {len(answered.sealed):,} bytes" if isinstance(answered, SealedReply) else ""
    return f"{round_}: {model}; {done}"


def answer(device: Device, message: Message, training: TrainingParams) -> Message:
    """The reply to any message: a device on a chain carries out orders of its plans, and nothing else (Q5)."""
    if message.metadata.message_type not in (TRAIN, OFFLOAD):
        refusal = OrderError(f"found a message {message.metadata.message_type!r:.40}, expected {TRAIN} or {OFFLOAD}")
        return error_message(refusal, message, MALFORMED)
    return answer_orders([(device, message)], training.engine, training.chunk)[0]
