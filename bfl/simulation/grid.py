"""A Flower Grid without Flower's engine: devices in this process, answered by the ClientApp's own code.

All orders that are waiting are answered in one go, so that a round's devices are trained as one stacked network.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid
from torch import nn

from clients.device import Device, answer_orders
from clients.flower import Run, empty_run, identify_process, name_message
from clients.orders import INTRODUCE, OFFLOAD, TRAIN
from clients.replies import FAILED
from clients.training import LocalUpdate, Recipe, Trainer, TrainingNode, local_updates

if TYPE_CHECKING:
    from clients.wallet import Wallet

_RUN_ID, _SERVER_NODE_ID, _FIRST_NODE_ID = 1, 1, 1_000

Fault = Callable[[Message], Message | None]
"""What becomes of a device's reply on its way: changed, replaced, or lost (None)."""


Misses = Callable[[int, int], bool]
"""Whether a device, in a round, is away or answers too late"""


class SimulatedClock:
    """Time that passes only when somebody waits: a device that never answers costs no real time."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now(self) -> float:
        """Simulated seconds since the start, or on a chain since 1970."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        self._now_s += seconds


class InProcessGrid(Grid):
    """Devices 0..N-1 as Flower nodes of this process."""

    def __init__(
        self,
        devices: Sequence[Device],
        engine: str = "auto",
        chunk: int = 10,
        faults: Mapping[int, Fault] | None = None,
        train: Trainer = local_updates,
    ) -> None:
        identify_process(_RUN_ID, _SERVER_NODE_ID)
        self._devices = {_FIRST_NODE_ID + device.index: device for device in devices}
        self._engine, self._chunk = engine, chunk
        self._faults, self._train = faults or {}, train
        self.misses: Misses | None = None
        """Who is out of a round, if anybody ever is; what it would have answered is not computed."""
        self._ids = count(1)
        self._run = empty_run(_RUN_ID)
        self._waiting: list[Message] = []
        self._replies: dict[str, Message] = {}

    def equip(self, wallets: "Sequence[Wallet]") -> None:
        """Devices 0..N-1 join a chain: from now on each signs with its wallet's key, and checks what it is told."""
        for node, wallet in zip(sorted(self._devices), wallets, strict=True):
            self._devices[node] = replace(self._devices[node], wallet=wallet)

    @property
    def devices(self) -> list[Device]:
        """As they are now, by number."""
        return [self._devices[node] for node in sorted(self._devices)]

    def set_run(self, run: Run) -> None:
        """Flower's hook; this grid has one run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The one run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Flower's older way to make a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """All devices."""
        return list(self._devices)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages; nothing is answered before somebody pulls."""
        ids = []
        for message in messages:
            name_message(message, f"message-{next(self._ids)}")
            self._waiting.append(message)
            ids.append(message.metadata.message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Answer the messages that are asked for; if any of them is to train, all that wait, of all servers."""
        wanted = list(message_ids)
        asked_for = set(wanted)
        asked = [m for m in self._waiting if m.metadata.message_id in asked_for]
        self._answer_all(self._waiting if any(_is_training(m) for m in asked) else asked, self._train)
        return [self._replies.pop(i) for i in wanted if i in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push and pull; whoever has not answered by then never will."""
        return self.pull_messages(self.push_messages(messages))

    def train(self, nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
        """`local_updates` for the edge servers, together with all devices that have orders to train.

        In the world both happen at the same time; here they share one stacked network.
        """
        updates: list[LocalUpdate] = []
        tried: list[Recipe] = []

        def jointly(others: Sequence[TrainingNode], same: nn.Module, theirs: Recipe) -> list[LocalUpdate]:
            if theirs != recipe or tried:
                return self._train(others, same, theirs)
            tried.append(theirs)
            together = self._train([*others, *nodes], same, recipe)
            updates.extend(together[len(others) :])
            return together[: len(others)]

        self._answer_all([m for m in self._waiting if _is_training(m)], jointly)
        return updates or self._train(nodes, network, recipe)

    def _answer_all(self, messages: Sequence[Message], train: Trainer) -> None:
        answered = {message.metadata.message_id for message in messages}
        self._waiting = [m for m in self._waiting if m.metadata.message_id not in answered]
        orders = [m for m in messages if m.metadata.message_type in (TRAIN, OFFLOAD)]
        if self.misses is not None:
            orders = [m for m in orders if not self.misses(self._device(m), int(m.metadata.group_id))]
        asked = [(self._devices[m.metadata.dst_node_id], m) for m in orders]
        replies = answer_orders(asked, self._engine, self._chunk, train, now=_no_time)
        replies += [self._answer(m) for m in messages if m.metadata.message_type not in (TRAIN, OFFLOAD)]
        for reply in replies:
            device = self._devices[reply.metadata.src_node_id].index
            arrived = self._faults[device](reply) if device in self._faults else reply
            if arrived is not None:
                self._replies[reply.metadata.reply_to_message_id] = arrived

    def _device(self, message: Message) -> int:
        return self._devices[message.metadata.dst_node_id].index

    def _answer(self, message: Message) -> Message:
        device = self._devices[message.metadata.dst_node_id]
        if message.metadata.message_type == INTRODUCE:
            return device.introduce(message)
        if message.metadata.message_type == "evaluate":
            return device.evaluate(message)
        return Message(Error(FAILED, f"no handler for {message.metadata.message_type}"), reply_to=message)


def _no_time() -> float:
    """Simulated time passes while somebody waits: training takes none, however many devices one machine is."""
    return 0.0


def _is_training(message: Message) -> bool:
    return message.metadata.message_type == TRAIN
