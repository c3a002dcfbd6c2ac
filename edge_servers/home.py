"""A server and its devices: orders out, replies in, data on to where the plan wants them, and what it trains itself."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from flwr.app import Message

from chain.wire.address import Address
from clients.batches import NodeKey
from clients.orders import Order
from clients.replies import DataReply, SealedReply
from clients.training import LocalUpdate, Recipe, TrainingNode
from edge_servers.devices.admission import Expected, admit_reply
from edge_servers.devices.link import DeviceLink
from edge_servers.devices.offloading import DataPaths, Hosted, InThisProcess, union_of
from edge_servers.errors import BoardError, GradientRefusedError
from edge_servers.founding.network import DeviceRecord, LearningTask, Network
from edge_servers.founding.standing import Standing
from edge_servers.leading import LedgerAccess, RankedServer
from edge_servers.learning.bounds import check_gradient
from edge_servers.learning.gradients import LATE, Attendance, Gradient, Refusal
from edge_servers.ledger.running_round import RunningRound
from edge_servers.parameters import Settings
from edge_servers.planning.proposal import LOCAL, planned_orders

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerParts:
    """What a server is put together from."""

    index: int
    network: Network
    settings: Settings
    task: LearningTask
    access: LedgerAccess
    link: DeviceLink
    standing: Standing
    data_paths: DataPaths = InThisProcess()


class HomeServer(RankedServer):
    """Server m as the home of its cluster."""

    def __init__(self, parts: ServerParts) -> None:
        super().__init__(parts.index, parts.network, parts.settings, parts.access, parts.standing)
        self.task, self.link, self.data_paths = parts.task, parts.link, parts.data_paths
        self._running = RunningRound.before(parts.standing)

    @property
    def current(self) -> RunningRound:
        """The round in hand; until the next plan is read, the one that has just ended."""
        if self._running.plan.round < self.standing.round:
            raise BoardError(f"server {self.index} has read no plan for round {self.round}")
        return self._running

    def orders(self) -> list[Order]:
        """One order per device that this server orders in this round (P25, D6)."""
        served = self.served
        guests = [str(device.index) for device in served if device.home != self.index]
        if guests:
            _LOG.info("round %d: home is dormant, and this is the standby of device %s", self.round, ", ".join(guests))
        devices = [device.index for device in served]
        orders = planned_orders(self.current.plan, devices, self.standing.model, self.current.model_digest, self.recipe)
        return self.board.with_terms(orders, [device.address for device in served])

    def prepare_orders(self) -> list[Message]:
        """The orders as Flower messages."""
        orders = self.orders()
        self.current.orders = {order.device: order for order in orders}
        return self.link.prepare(orders)

    def send_orders(self) -> None:
        """Hand every device of this server its order, unless Flower's own loop has."""
        if not self.current.orders:
            self.prepare_orders()
        self.link.send(self.current.plan.deadline_s)

    def collect_data(self) -> None:
        """Wait for the devices that offload, at most a third of the time: they answer first, the others still train.
        Servers that wait for data of others do so for half of it.
        """
        offloaders = {device.index: device for device in self.served if self._offloads(device)}
        replies = self._collect(offloaders, self.current.plan.deadline_s / 3)
        self._admit([offloaders[n] for n in sorted(replies)], replies)

    def collect_gradients(self) -> None:
        """Wait for everybody who has not answered, at most until the deadline. Data that come now are too late."""
        left = [device for device in self.served if device.index not in self.current.heard]
        self._admit(left, self._collect({device.index for device in left}))
        for device in self.current.outgoing:
            detail = "its data came when there was no time left to train on them"
            self.current.refusals.append(Refusal(f"device {device}", LATE, detail))
        self.current.outgoing.clear()

    def _collect(self, devices: Collection[int], within_s: float | None = None) -> dict[int, Message]:
        """Replies, for which nobody waits where a device of a dormant home has not answered the order before: what is
        off may be its whole site. An answer that is there counts.
        """
        away = {n for n in self.link.silent.intersection(devices) if self.network.devices[n].home != self.index}
        return self.link.collect(set(devices) - away, within_s) | self.link.collect(away, 0.0)

    def _offloads(self, device: DeviceRecord) -> bool:
        return self.current.plan.assignment[device.index] != LOCAL

    def pass_on_data(self, hosted: Hosted) -> None:
        """Collected data, to where the plan wants them. A device whose data did not arrive there trains after all."""
        work = self.current
        offloaders = [device.index for device in self.served if self._offloads(device)]
        for device in offloaders:
            target, data = work.plan.assignment[device], work.outgoing.pop(device, None)
            if data is None:
                self.data_paths.decline(device, target)
                continue
            why = self.data_paths.hand_over(device, target, data, hosted)
            if why and self.data_paths.asks_again:
                _LOG.warning("round %d: device %d trains after all: %s", self.round, device, why)
                work.heard.discard(device)
                self.link.ask_again(replace(work.orders[device], train_anyway=True))
            elif why:
                work.refusals.append(Refusal(f"device {device}", "unreachable", why))

    def fetch_data(self) -> None:
        """What devices that other servers order have offloaded to this one."""
        plan = self.current.plan
        expected = [n for n, m in enumerate(self.serving) if m != self.index and plan.assignment[n] == self.index]
        if expected:
            self.current.data |= self.data_paths.fetch(expected)

    def _admit(self, devices: list[DeviceRecord], replies: Mapping[int, Message]) -> None:
        """Keep gradients to post and data for the server that the plan names; everyone else is out, with a reason."""
        work = self.current
        for device in devices:
            work.heard.add(device.index)
            expected = Expected(work.plan, device, work.model_digest, self.task, self.settings.rounds)
            try:
                admitted = admit_reply(replies.get(device.index), expected, self.board)
            except GradientRefusedError as refused:
                work.refusals.append(Refusal(f"device {device.index}", refused.reason, str(refused)))
                continue
            if isinstance(admitted, (DataReply, SealedReply)):
                work.outgoing[device.index] = admitted
            else:
                work.collected[admitted.sender] = admitted

    def post_gradient(self, sender: Address) -> None:
        """Post what a training node of this cluster made."""
        gradient = self.current.collected[sender]
        try:
            self.board.post(self._slot("gradient"), sender, gradient)
        except BoardError as error:
            self.current.refusals.append(Refusal(gradient.node, "refused-by-ledger", str(error)))

    def training_node(self) -> TrainingNode | None:
        """This server as a training node: the union of what was offloaded to it; None without offloaders (L3)."""
        if not self.current.data or self.address in self.standing.excluded:
            return None
        iterations = self.current.plan.server_iterations[self.index]
        key, union = NodeKey("server", self.index), union_of(self.current.data, self.task.like)
        return TrainingNode(key, union, None, iterations, self.standing.model)

    @property
    def recipe(self) -> Recipe:
        """How this server trains."""
        training, data = self.settings.training, self.settings.data
        return Recipe(
            data.seed, self.round, training.optimizer, training.learning_rate, training.batch,
            training.engine, training.chunk,
        )  # fmt: skip

    def add_own_gradient(self, update: LocalUpdate) -> None:
        """The server's own cumulative gradient (eq. 6), checked like a device's (P7)."""
        work = self.current
        gradient = Gradient(
            self.address, f"server {self.index}", self.index, update.samples, update.iterations,
            work.model_digest, work.plan.digest, update.values,
        )  # fmt: skip
        try:
            check_gradient(gradient, len(self.standing.model), self.settings.rounds)
        except GradientRefusedError as refused:
            work.refusals.append(Refusal(gradient.node, refused.reason, str(refused)))
        else:
            work.collected[gradient.sender] = gradient
        _LOG.info(
            "round %d: trained %d iterations on %d samples, offloaded by device %s",
            self.round, update.iterations, update.samples, ", ".join(map(str, sorted(work.data))),
        )  # fmt: skip

    def post_roll(self) -> None:
        """Tell everybody whose gradients this server holds, and who of its devices is out and why (D3.6)."""
        if self.address in self.standing.excluded:
            return
        held = tuple(sorted(self.board.read(self._slot("gradient")).keys() & self.current.collected.keys()))
        try:
            self._publish("roll", Attendance(held, tuple(self.current.refusals)))
        except BoardError as error:  # whoever cannot post is missed like one who did not
            _LOG.warning("%s", error)
