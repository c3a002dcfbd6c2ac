"""A device that stays (D2): it takes the orders that its SuperNode has, one after the other, and answers them.

What runs is the installed code: the bundle that comes with an order is not looked at.
"""

import threading
from collections.abc import Callable

from clients.device import Device, answer
from clients.errors import FlowerAwayError
from clients.flower_tasks import DeviceTasks
from clients.outcome import told_of
from clients.parameters import TrainingParams

_LOOK_S = 0.5
"""Between two looks for orders, each of which takes 4 ms of CPU on a PC: three quarters of them the SuperNode's"""
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
