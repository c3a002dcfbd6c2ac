"""A device as Flower runs any other (D2, `flower = "stock"`): a process for one order, which opens its own kit.

A stock SuperNode loads what the bundle of its edge names, and that is this file where the edge is honest. Whatever
comes with a message says nothing here of key, data, consent or plug-ins: the kit does, whose folder is in the
configuration of the SuperNode.
"""

import os
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError
from bfl.network.devices.opening import opened_device
from bfl.network.kits import STOCK, DeviceKit, read_device_kit
from bfl.network.own_keys import open_key
from clients.device import answer
from clients.errors import ClientError
from clients.outcome import told_of
from clients.replies import FAILED, error_message

KIT = "kit"
"""In the configuration of its SuperNode: the folder"""
_FREE_S = 30.0
"""For the process of the order before"""
app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """An order in, a signed gradient out."""
    return _answered(message, context)


@app.query("offload")
def offload(message: Message, context: Context) -> Message:
    """An order to offload in, sealed data out, or a signed gradient."""
    return _answered(message, context)


def _answered(message: Message, context: Context) -> Message:
    try:
        kit = _kit(context)
        account = open_key(kit.key_file, os.environ.get(PASSWORD_VARIABLE, ""))
        with opened_device(kit, account, _say, _FREE_S) as (device, training):
            reply = answer(device, message, training)
            _say(told_of(device, message, reply))
    except (BflError, ClientError) as error:
        _say(f"cannot answer: {error}")
        return error_message(ClientError("this device cannot open its kit; its own log says why"), message, FAILED)
    return reply


def _kit(context: Context) -> DeviceKit:
    folder = context.node_config.get(KIT)
    if not isinstance(folder, str):
        raise BflError(f"SuperNode: found {KIT} = {folder!r:.60} in --node-config, expected the folder of a kit")
    kit = read_device_kit(Path(folder))
    if kit.config.flower != STOCK:
        raise BflError(
            f"{folder}: found flower = {kit.config.flower!r}, expected {STOCK!r}: its owner has to choose it"
        )
    return kit


def _say(line: str) -> None:
    print(line, flush=True)
