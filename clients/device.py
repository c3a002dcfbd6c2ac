"""A device: its share of the data, its consent, and how it carries out an order."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from torch import nn

from clients.arrays import read_array
from clients.batches import NodeKey, round_subset
from clients.consent import Consent
from clients.data import Samples
from clients.errors import ClientError, LateError, OrderError
from clients.evaluation import evaluate_model
from clients.models import Vector
from clients.orders import OFFLOAD, TRAIN, Order, read_order
from clients.parameters import TrainingParams
from clients.partition import Share
from clients.replies import (
    FAILED,
    MALFORMED,
    data_bytes,
    data_message,
    error_message,
    gradient_message,
    sealed_message,
    signed_message,
)
from clients.training import LocalUpdate, Recipe, Trainer, TrainingNode, local_updates

if TYPE_CHECKING:
    from clients.wallet import Wallet

TROUBLE = (
    ClientError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    OSError,
    MemoryError,
)
"""What a device's data, disk or memory may throw at training; answered with an error reply."""


@dataclass(frozen=True)
class Device:
    """One device: number n, its share of a table of samples, its consent, the network it trains."""

    index: int
    table: Samples
    share: Share
    network: nn.Module
    consent: Consent = Consent()
    wallet: "Wallet | None" = None
    """Its key and what it knows of the chain; None where there is no chain."""

    def introduce(self, message: Message) -> Message:
        """Who it is, what it holds, what it allows: asked once, at founding (P2)."""
        about: dict[str, Any] = {"device": self.index, "samples": len(self.share), "offload": self.consent.text}
        return Message(RecordDict({"about": ConfigRecord(about)}), reply_to=message)

    def evaluate(self, message: Message) -> Message:
        """Accuracy and loss of a model on this device's own share."""
        if self.wallet is not None:  # whoever may ask with any model learns the data, one question at a time (Q5)
            refusal = OrderError("this device has joined a chain: it answers orders of its plans and evaluates nothing")
            return error_message(refusal, message, MALFORMED)
        try:
            vector = read_array(message.content["model"], "model")
            scores = evaluate_model(self.network, vector, self.table.select(torch.from_numpy(self.share)))
        except ClientError as error:
            return error_message(error, message, MALFORMED)
        except (KeyError, ValueError) as error:
            return error_message(OrderError(f"expected a record 'model': {error}"), message, MALFORMED)
        except TROUBLE as error:
            return error_message(_failure("evaluation", error), message, FAILED)
        metrics: dict[str, Any] = {"accuracy": scores.accuracy, "loss": scores.loss, "num-examples": len(self.share)}
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    def subset(self, order: Order) -> Share:
        """D_n^(k): the samples of this round (P22)."""
        positions = round_subset(order.seed, order.round, self.index, len(self.share), order.samples)
        return self.share[positions]

    def training_node(self, order: Order) -> TrainingNode:
        """This device as a training node of the round."""
        chosen = torch.from_numpy(self.subset(order))
        return TrainingNode(NodeKey("device", self.index), self.table, chosen, order.iterations, order.model)

    def accept(self, message: Message) -> Order:
        """The order in `message`, if it is for this device and this network."""
        order = read_order(message)
        if order.device != self.index:
            raise OrderError(f"order: it is for device {order.device}, this is device {self.index}")
        expected = sum(p.numel() for p in self.network.parameters())
        if len(order.model) != expected:
            raise OrderError(f"order: the model has {len(order.model)} values, expected {expected}")
        if self.wallet is not None:
            self.wallet.accept(order)
        elif order.ledger is not None:
            raise OrderError("order: this device has joined no network")
        return order

    def gives_data(self, order: Order) -> bool:
        """Whether it hands over the data of this round; if not, it trains, as the order's other half says."""
        if order.offload_to < 0 or order.train_anyway or not self.consent.allows(order.offload_to):
            return False
        return self.wallet is None or self.wallet.give_data(order)

    def computed(self, order: Order) -> LocalUpdate | None:
        """What an earlier attempt of the round has made it compute already (D3.1)."""
        return None if self.wallet is None else self.wallet.computed(order)

    def keep(self, order: Order, update: LocalUpdate) -> None:
        """Keep what was computed for the next attempt; without a chain there is none."""
        if self.wallet is not None:
            self.wallet.keep(order, update)

    def report(self, order: Order, update: LocalUpdate, message: Message) -> Message:
        """The reply with what was trained: on a chain a transaction under its own signature."""
        if order.ledger is None or self.wallet is None:
            return gradient_message(order, update.samples, update.iterations, update.values, message)
        from clients.signing import signed_gradient

        wallet, terms = self.wallet, order.ledger

        def sign() -> tuple[bytes, bytes]:
            return signed_gradient(
                wallet.account, terms, order.round, update.samples, update.iterations, update.values, self._sizes
            )

        ordered = (order.batch, order.learning_rate, order.optimizer, order.seed, order.model_digest)
        says = (terms, update.samples, update.iterations, ordered)
        return signed_message(order, wallet.signed_once(order.round, terms.attempt, says, sign), message)

    @property
    def _sizes(self) -> list[int]:
        """Values of each tensor of its network, as the ledger writes models and gradients."""
        return [parameter.numel() for parameter in self.network.parameters()]

    def hand_over(self, order: Order, message: Message) -> Message:
        """The data of this round, for the edge server that asked."""
        mine = self.table.select(torch.from_numpy(self.subset(order)))
        inputs, labels = mine.inputs.numpy(), mine.labels.numpy()
        if self.wallet is None or order.ledger is None or not self.wallet.chain.server_keys:
            return data_message(order, inputs, labels, message)
        from clients.sealing import associated, seal

        keys, terms = self.wallet.chain.server_keys, order.ledger
        about = associated(terms.chain_id, order.round, self.index, order.offload_to, terms.plan)
        sealed = seal(data_bytes(inputs, labels), self.wallet.account, keys[order.offload_to], about)
        return sealed_message(order, sealed, message)


def answer(device: Device, message: Message, training: TrainingParams) -> Message:
    """The reply to any message: a device on a chain carries out orders of its plans, and nothing else (Q5)."""
    if message.metadata.message_type not in (TRAIN, OFFLOAD):
        refusal = OrderError(f"found a message {message.metadata.message_type!r:.40}, expected {TRAIN} or {OFFLOAD}")
        return error_message(refusal, message, MALFORMED)
    return answer_orders([(device, message)], training.engine, training.chunk)[0]


def answer_orders(
    asked: Sequence[tuple[Device, Message]],
    engine: str,
    chunk: int,
    train: Trainer = local_updates,
    now: Callable[[], float] = time.monotonic,
) -> list[Message]:
    """The replies of devices to their orders: a ClientApp calls it with one, the simulation with a whole round.

    Whoever has to train is trained in one call. What goes wrong on one device is that device's error reply, never
    an exception and never another device's trouble. The deadline of an order runs from here, on the clock `now`.
    """
    began_s = now()

    def recipe(order: Order) -> Recipe:
        common = (order.seed, order.round, order.optimizer, order.learning_rate, order.batch, engine, chunk)
        return Recipe(*common, ends_s=began_s + order.deadline_s, now=now)

    replies: dict[int, Message] = {}
    trainees: list[tuple[int, Order]] = []
    models: dict[str, Vector] = {}
    for i, (device, message) in enumerate(asked):
        try:
            order = device.accept(message)
            gives = device.gives_data(order)
        except ClientError as error:
            replies[i] = error_message(error, message, MALFORMED)
            continue
        if gives:
            replies[i] = _hand_over(device, order, message)
        else:
            shared = models.setdefault(order.model_digest, order.model)  # a thousand orders keep one model
            trainees.append((i, replace(order, model=shared)))
    for i, order, outcome in _carry_out(asked, trainees, recipe, train):
        device, message = asked[i]
        try:
            if isinstance(outcome, ClientError):
                raise outcome
            device.keep(order, outcome)
            replies[i] = device.report(order, outcome, message)
        except ClientError as error:
            replies[i] = error_message(error, message, FAILED)
    return [replies[i] for i in range(len(asked))]


def _hand_over(device: Device, order: Order, message: Message) -> Message:
    try:
        return device.hand_over(order, message)
    except TROUBLE as error:
        return error_message(_failure("offloading", error), message, FAILED)


def _failure(doing: str, error: BaseException) -> ClientError:
    return ClientError(f"{doing} failed: {type(error).__name__}: {error}")


Outcome = tuple[int, Order, LocalUpdate | ClientError]


def _carry_out(
    asked: Sequence[tuple[Device, Message]],
    trainees: Sequence[tuple[int, Order]],
    recipe_of: Callable[[Order], Recipe],
    train: Trainer,
) -> list[Outcome]:
    """Train those who have nothing to reuse, and each once: two attempts of a round may be asked for at once (D3.1)."""
    made: dict[object, LocalUpdate | ClientError] = {}
    first: dict[object, tuple[int, Order]] = {}
    for i, order in trainees:
        device, work = asked[i][0], _work(asked, i, order)
        update = device.computed(order)
        if update is not None:
            made[work] = update
        else:
            first.setdefault(work, (i, order))
    for i, order, outcome in _train_orders(asked, list(first.values()), recipe_of, train):
        made[_work(asked, i, order)] = outcome
    return [(i, order, made[_work(asked, i, order)]) for i, order in trainees]


def _work(asked: Sequence[tuple[Device, Message]], i: int, order: Order) -> object:
    """Names what is computed once; without a chain that is every order's own."""
    wallet = asked[i][0].wallet
    return i if wallet is None else (id(wallet), order.round)


def _train_orders(
    asked: Sequence[tuple[Device, Message]],
    trainees: Sequence[tuple[int, Order]],
    recipe_of: Callable[[Order], Recipe],
    train: Trainer,
) -> list[Outcome]:
    """Train orders that share a recipe and a deadline together; a device whose data cannot be had fails alone."""
    outcomes: list[Outcome] = []
    groups: dict[tuple[Recipe, float], list[tuple[int, Order, TrainingNode]]] = {}
    for i, order in trainees:
        recipe = recipe_of(order)
        try:
            node = asked[i][0].training_node(order)
        except TROUBLE as error:
            outcomes.append((i, order, _failure("training", error)))
        else:
            groups.setdefault((recipe, recipe.ends_s), []).append((i, order, node))
    for (recipe, _), members in groups.items():
        outcomes += _train_together(members, asked[members[0][0]][0].network, recipe, train)
    return outcomes


def _train_together(
    members: Sequence[tuple[int, Order, TrainingNode]], network: nn.Module, recipe: Recipe, train: Trainer
) -> list[Outcome]:
    """One call for all; where it fails, one by one, so that only the guilty one fails. Time is over for all at once."""
    try:
        updates = train([node for _, _, node in members], network, recipe)
    except LateError as error:
        return [(i, order, _failure("training", error)) for i, order, _ in members]
    except TROUBLE as error:
        if len(members) == 1:
            i, order, _ = members[0]
            return [(i, order, _failure("training", error))]
        return [outcome for member in members for outcome in _train_together([member], network, recipe, train)]
    return [(i, order, update) for (i, order, _), update in zip(members, updates, strict=True)]
