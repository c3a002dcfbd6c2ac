"""A device on a small chain, and what it answers."""

from dataclasses import replace
from typing import Any

from flwr.app import Message

from clients.device import Device, answer_orders
from clients.orders import Order
from clients.wallet import Wallet
from tests.clients.messages import sent
from tests.edge_servers.small_network import SmallChain


def order_to(chain: SmallChain, device: int) -> Order:
    """What a device is told in the running round."""
    orders = [order for server in chain.federation.servers for order in server.orders()]
    return next(order for order in orders if order.device == device)


def joined(chain: SmallChain, device: int, **options: Any) -> Device:
    """A device that has answered nothing yet."""
    wallet = Wallet(chain.hosting.account("device", device), chain.hosted.known_chain(), **options)
    return replace(chain.devices[device], wallet=wallet)


def answer(device: Device, order: Order, **options: Any) -> Message:
    """The device's reply; `options` are those of `answer_orders`."""
    return answer_orders([(device, sent(order))], "auto", 10, **options)[0]


def refusal(chain: SmallChain, order: Order) -> str:
    """Why a device that has answered nothing yet refuses an order; the leader's it answers all the same."""
    device = joined(chain, order.device)
    refused = answer(device, order)
    assert refused.has_error()
    assert not answer(device, order_to(chain, order.device)).has_error()
    return str(refused.error.reason).removeprefix("OrderError: order: ")
