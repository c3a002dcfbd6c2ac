"""A device over plain HTTP: it asks its home server for orders, one at a time, and answers them."""

import threading
from collections.abc import Callable

import requests

from clients.device import Device, answer_orders
from clients.flower import identify_process, message_bytes, read_message
from clients.parameters import TrainingParams

_RUN_ID, _FIRST_NODE_ID = 1, 100
_TIMEOUT_S = 30.0
_AGAIN_S = 1.0
_NO_ORDER = 204


def serve_orders(
    device: Device,
    where: Callable[[], str],
    training: TrainingParams,
    stop: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Answer orders until it is stopped; a server that is away is asked again. `where`: at which edge it is."""
    identify_process(_RUN_ID, _FIRST_NODE_ID + device.index)
    is_away = False
    with requests.Session() as session:
        session.trust_env = False
        while not stop.is_set():
            edge = where()
            try:
                answered = _answer_one(session, device, edge, training)
            except (requests.RequestException, ValueError) as error:
                if not is_away:
                    say(f"server {edge} is away: {error}")
                is_away = True
                stop.wait(_AGAIN_S)
                continue
            is_away = False
            if answered:
                say(answered)


def _answer_one(session: requests.Session, device: Device, edge: str, training: TrainingParams) -> str:
    """Fetch an order, carry it out, send the answer; what happened, or nothing where there was no order."""
    found = session.post(f"{edge}/orders/{device.index}", timeout=_TIMEOUT_S)
    found.raise_for_status()
    if found.status_code == _NO_ORDER:
        return ""
    order = read_message(found.content)
    reply = answer_orders([(device, order)], training.engine, training.chunk)[0]
    sent = session.post(f"{edge}/replies/{device.index}", data=message_bytes(reply), timeout=_TIMEOUT_S)
    sent.raise_for_status()
    return f"refused: {reply.error.reason}" if reply.has_error() else "answered an order"
