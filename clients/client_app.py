"""The Flower ClientApp of a device: train, hand over data, evaluate, introduce itself."""

from functools import lru_cache

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import nn

from clients.consent import Consent
from clients.data import Samples, dataset_of
from clients.device import Device, answer_orders
from clients.errors import ClientError
from clients.memory import keep_freed_memory
from clients.models import network_for
from clients.parameters import DataParams, TrainingParams, read_params
from clients.partition import Share, shares_of
from clients.plugins import OPEN_POINTS, foreign_plugins, permit
from clients.replies import MALFORMED, error_message
from clients.root_set import held_back

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """An order in, the cumulative gradient with its weight out."""
    return _answer(message, context)


@app.query("offload")
def offload(message: Message, context: Context) -> Message:
    """An order to offload in, the round's data out (or the gradient, where the device does not consent)."""
    return _answer(message, context)


@app.query("introduce")
def introduce(message: Message, context: Context) -> Message:
    """Who this device is, what it holds and what it allows."""
    try:
        device, _ = device_of(context)
        return device.introduce(message)
    except ClientError as error:
        return error_message(error, message, MALFORMED)


@app.query("join")
def join(message: Message, context: Context) -> Message:
    """A simulated device learns which chain it is on."""
    from clients.chain_state import join_chain  # the libraries of the chain are an extra

    return join_chain(message, context)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Accuracy and loss of a model on this device's own share."""
    try:
        device, _ = device_of(context)
    except ClientError as error:
        return error_message(error, message, MALFORMED)
    return device.evaluate(message)


def _answer(message: Message, context: Context) -> Message:
    try:
        device, training = device_of(context)
    except ClientError as error:
        return error_message(error, message, MALFORMED)
    if not len(context.state):
        return answer_orders([(device, message)], training.engine, training.chunk)[0]
    from clients.chain_state import equipped, remember

    own = equipped(device, context)
    reply = answer_orders([(own, message)], training.engine, training.chunk)[0]
    remember(own, context)
    return reply


def device_of(context: Context) -> tuple[Device, TrainingParams]:
    """The device that this Flower node is: `device-id` on a real one, `partition-id` in Flower's simulation."""
    keep_freed_memory()
    number = context.node_config.get("device-id", context.node_config.get("partition-id"))
    if not isinstance(number, int):
        raise ClientError(f"node configuration: found device-id {number!r}, expected a whole number")
    _check_plugins(context)
    data = read_params(DataParams, context.run_config)
    training = read_params(TrainingParams, context.run_config)
    if not 0 <= number < data.devices:
        raise ClientError(f"node configuration: found device-id {number}, expected 0 to {data.devices - 1}")
    if training.threads:
        torch.set_num_threads(training.threads)
    consent = Consent(str(context.node_config.get("offload", "any")))
    own_data = str(context.node_config.get("data-dir", ""))
    return _device(number, consent, own_data, data, training, held_back(context.run_config)), training


def _check_plugins(context: Context) -> None:
    """Raise where the run names code of others, and this is a real device whose owner has not allowed that (Q4)."""
    named = foreign_plugins(context.run_config)
    if named and "device-id" in context.node_config and context.node_config.get("allow-plugins") is not True:
        key, name = next(iter(named.items()))
        raise ClientError(
            f"run configuration: found {key} = {name!r:.200}, code to run on this device; expected "
            f"{', '.join(OPEN_POINTS[key].names)}. Its owner may allow that with --node-config allow-plugins=true"
        )
    permit(context.run_config)


@lru_cache(maxsize=256)
def _device(
    number: int, consent: Consent, own_data: str, data: DataParams, training: TrainingParams, root_set: int
) -> Device:
    """With a data folder of its own (a real device) all of it is its share; otherwise its part of the partition."""
    if own_data:
        dataset = dataset_of(data, own_data)
        network = network_for(dataset, training, data.seed)
        return Device(number, dataset.train, np.arange(len(dataset.train)), network, consent)
    table, shares, network = _load_shared(data, training, root_set)
    return Device(number, table, shares[number], network, consent)


@lru_cache(maxsize=2)
def _load_shared(data: DataParams, training: TrainingParams, root_set: int) -> tuple[Samples, list[Share], nn.Module]:
    """What all devices of one process have in common."""
    dataset = dataset_of(data)
    shares = shares_of(dataset, data, root_set)
    return dataset.train, shares, network_for(dataset, training, data.seed)
