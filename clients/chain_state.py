"""A simulated device on the chain (D10): what it knows of it travels in its Flower state, as Flower's engine moves it.

Its key follows from the network's name, as all keys of a simulation do.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict

from chain.client.keys import simulated_account
from chain.errors import ChainError
from chain.wire.documents import read_record
from clients.device import Device
from clients.errors import ClientError
from clients.joined import Joined
from clients.orders import record_in
from clients.replies import MALFORMED, error_message
from clients.wallet import FinalBlock, KnownChain, Wallet

_CHAIN = "chain"


def join_chain(message: Message, context: Context) -> Message:
    """Learn which chain this device is on. A real one knows that from its kit, and from nobody else."""
    try:
        if "device-id" in context.node_config:
            raise ClientError("found a chain in a message; a real device knows its own from its kit")
        told = record_in(message, _CHAIN)
        joined, keys = bytes(told["joined"]), bytes(told["keys"])
        _known_chain(joined)
        context.state[_CHAIN] = ConfigRecord({"joined": joined, "keys": keys, "number": 0, "hash": b""})
        return Message(RecordDict(), reply_to=message)
    except (ClientError, ChainError, LookupError, TypeError, ValueError) as error:
        return error_message(ClientError(f"cannot join: {error}"), message, MALFORMED)


def equipped(device: Device, context: Context) -> Device:
    """The device with its wallet, where it has joined a chain."""
    if _CHAIN not in context.state:
        return device
    told: Any = context.state[_CHAIN]
    known = FinalBlock(int(told["number"]), bytes(told["hash"])) if told["number"] else None
    account = simulated_account(bytes(told["keys"]), f"device {device.index}")
    return replace(device, wallet=Wallet(account, _known_chain(bytes(told["joined"])), known))


def remember(device: Device, context: Context) -> None:
    """Keep the last block that was proven to it."""
    if device.wallet is not None and _CHAIN in context.state:
        told: Any = context.state[_CHAIN]
        told["number"], told["hash"] = device.wallet.known.number, device.wallet.known.hash


@lru_cache(maxsize=2)
def _known_chain(joined: bytes) -> KnownChain:
    return read_record(Joined, joined).chain
