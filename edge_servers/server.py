"""One edge server through the phases of a round. `round.py` says in which order; here is what each step does."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from flwr.app import Message

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.batches import NodeKey
from clients.orders import DataReply, Order, vector_digest
from clients.training import LocalUpdate, Recipe, Trainer, TrainingNode, local_updates
from edge_servers.devices.admission import Expected, admit_reply, heard_refusals
from edge_servers.devices.link import DeviceLink
from edge_servers.devices.offloading import union_of
from edge_servers.errors import BoardError, GradientRefusedError
from edge_servers.founding.network import DeviceRecord, LearningTask, Network
from edge_servers.founding.standing import Standing
from edge_servers.leading import LedgerAccess, RankedServer
from edge_servers.learning.aggregation import (
    central_update,
    divergence,
    partial_aggregate,
    to_fixed_point,
    total_samples,
)
from edge_servers.learning.bounds import check_gradient
from edge_servers.learning.filters import close_list
from edge_servers.learning.gossip import next_iterate
from edge_servers.learning.gradients import Attendance, Close, Gradient, Refusal
from edge_servers.learning.schemes import SCHEMES, ClosedRound
from edge_servers.ledger.running_round import RunningRound
from edge_servers.parameters import Settings
from edge_servers.planning.drafting import draft_plan
from edge_servers.planning.proposal import LOCAL, Draft, Planner, planned_orders

_LOG = logging.getLogger(__name__)


class EdgeServer(RankedServer):
    """Edge server m. Its access to the ledger connects it with the other servers, its link with its own devices."""

    def __init__(
        self,
        index: int,
        network: Network,
        settings: Settings,
        task: LearningTask,
        access: LedgerAccess,
        link: DeviceLink,
        planner: Planner,
        standing: Standing,
        trainer: Trainer = local_updates,
    ) -> None:
        super().__init__(index, network, settings, access, standing)
        self.task, self.link, self.planner, self.trainer = task, link, planner, trainer
        self.scheme = SCHEMES[settings.rounds.scheme]
        self._running = RunningRound.before(standing)
        self.draft: Draft | None = None
        """What it planned with, in a round that it leads."""

    # --- plan ---------------------------------------------------------------------------------------------------

    def post_plan(self) -> None:
        """The leader decides who offloads, how much each device works on and how long servers gossip; or it adopts the
        block of an earlier attempt, and plans nothing.
        """
        self.draft = None
        if not self.leads or not self.attempts.begin(self.address, self.round, self.attempt):
            return
        if self.standing.round > 0:
            self.attempts.post_endorsements(self.address, self.standing.round)
        self.draft, plan = draft_plan(
            self.standing, self.network, self.settings, self.planner, self.task.like.sample_bytes,
            self.schedule.start_s,
        )  # fmt: skip
        self._publish("plan", plan)

    def read_plan(self) -> None:
        """Take over the leader's plan, if it is one that the network allows; or sign the block that it adopts."""
        if self._waits_for_adoption():
            self.sign_block(self.schedule.plan)
            return
        plan: Plan = self._leaders_post("plan", self.schedule.plan)
        self.oversight.check_plan(plan, self.leader)
        self.schedule = self.schedule.of_plan(plan.start_ms / 1000, plan.phi)
        self._running = RunningRound(plan, vector_digest(self.standing.model))

    # --- train --------------------------------------------------------------------------------------------------

    def orders(self) -> list[Order]:
        """One order per device of this cluster (P25)."""
        devices = [device.index for device in self.cluster]
        orders = planned_orders(self.current.plan, devices, self.standing.model, self.current.model_digest, self.recipe)
        return self.board.with_terms(orders, [device.address for device in self.cluster])

    def prepare_orders(self) -> list[Message]:
        """The orders as Flower messages."""
        self.current.is_ordered = True
        return self.link.prepare(self.orders())

    def send_orders(self) -> None:
        """Hand every device of this cluster its order, unless Flower's own loop has."""
        if not self.current.is_ordered:
            self.prepare_orders()
        self.link.send(self.current.plan.deadline_s)

    def collect_data(self) -> None:
        """Wait for the devices that offload, at most until the deadline: they answer first, the others still train."""
        self._collect([device for device in self.cluster if self._offloads(device)])

    def collect_gradients(self) -> None:
        """Wait for the devices that train, at most until the same deadline."""
        self._collect([device for device in self.cluster if not self._offloads(device)])

    def _collect(self, devices: list[DeviceRecord]) -> None:
        self.admit_replies(devices, self.link.collect({device.index for device in devices}))

    def _offloads(self, device: DeviceRecord) -> bool:
        return self.current.plan.assignment[device.index] != LOCAL

    def admit_replies(self, devices: list[DeviceRecord], replies: Mapping[int, Message]) -> None:
        """Keep gradients to post and data for the server that the plan names; everyone else is out, with a reason."""
        work = self.current
        for device in devices:
            expected = Expected(work.plan, device, work.model_digest, self.task, self.settings.rounds)
            try:
                admitted = admit_reply(replies.get(device.index), expected, self.board)
            except GradientRefusedError as refused:
                work.refusals.append(Refusal(f"device {device.index}", refused.reason, str(refused)))
                continue
            if isinstance(admitted, DataReply):
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

    def post_roll(self) -> None:
        """Tell everybody whose gradients of this cluster are here, and who is out and why (D3.6)."""
        if self.address in self.standing.excluded:
            return
        held = tuple(sorted(self.board.read(self._slot("gradient")).keys() & self.current.collected.keys()))
        try:
            self._publish("roll", Attendance(held, tuple(self.current.refusals)))
        except BoardError as error:  # whoever cannot post is missed like one who did not
            _LOG.warning("%s", error)

    # --- close --------------------------------------------------------------------------------------------------

    def post_close(self) -> None:
        """The leader closes the list: D, b, eqs. 8 and 11 are computed from it alone (P4)."""
        if not self.leads:
            return
        # A server posts its roll after its last gradient: only then is everything here that will be.
        told = self.board.wait_for(self._slot("roll"), self.oversight.expected(), self.schedule.rolls)
        good, unfit = self.oversight.gradients()
        refused = [*heard_refusals(told, self.network, self.settings.rounds.filter), *unfit]
        close = close_list(good, refused, self.standing.model, self.settings, self.task.validation_loss)
        close = replace(close, rolls=tuple(told))
        self.current.refusals = list(close.refused)  # the ledger carries reasons without details
        self._publish("close", close)

    def read_close(self) -> None:
        """Take over the closed list, as far as it is right."""
        close: Close = self._leaders_post("close", self.schedule.close)
        self.current.closed = self.oversight.counted(close, self.leader, self.schedule.close)
        self.current.refused = close.refused

    # --- gossip -------------------------------------------------------------------------------------------------

    def post_aggregate(self) -> None:
        """Iterate 0: this cluster's aggregated gradient (eq. 8)."""
        work = self.current
        mine = [gradient for gradient in work.closed if gradient.server == self.index]
        x = partial_aggregate(mine, total_samples(work.weights), len(self.standing.model))
        work.iterates = [to_fixed_point(x, f"server {self.index}")]
        self.post_iterate()

    def mix(self) -> None:
        """The next iterate from the neighbours' last ones (eq. 9), repaired where one of them is wrong (P14)."""
        step = len(self.current.iterates) - 1
        neighbours = self.network.graph.neighbours(self.index)
        x = {j: self.oversight.iterate(j, step, self.schedule.gossip(step)) for j in neighbours}
        x[self.index] = self.current.iterates[-1]
        self.current.iterates.append(next_iterate(self.index, x, neighbours, self.network.weight))

    def post_iterate(self) -> None:
        """Publish the newest iterate; apart from `mix`, so that all servers mix the same step."""
        if self.address in self.standing.excluded:
            return
        step = len(self.current.iterates) - 1
        try:
            self.current.iterates[-1] = self._publish("iterate", self.current.iterates[-1], step)
        except BoardError as error:  # whoever cannot post is missed like one who did not
            _LOG.warning("%s", error)

    # --- verify -------------------------------------------------------------------------------------------------

    def replay_others(self) -> None:
        """Every iterate of everybody against its replay."""
        self.oversight.check_all_iterates(self.schedule.gossip(self.current.plan.phi))

    def accuse(self) -> None:
        """Flag whoever was found out, under this server's own signature (P15)."""
        if self.address not in self.oversight.excluded():
            self.oversight.accuse(self.address)

    # --- model, seal --------------------------------------------------------------------------------------------

    def post_model(self) -> None:
        """The leader's model for everyone, or every server's own (eqs. 11, 12)."""
        if self.scheme.one_model and not self.leads:
            return
        work, eta = self.current, self.settings.training.learning_rate
        closed_round = ClosedRound(
            self.index, len(self.network.servers), self.standing.model, work.weights, work.iterates[-1], eta,
            central=partial(central_update, self.standing.model, work.closed, eta),
        )  # fmt: skip
        self._publish("model", self.scheme.model_after(closed_round))

    def read_model(self) -> None:
        """The model this server goes on with, if it follows from the round."""
        if not self.scheme.one_model:
            self.current.model = self.board.read(self._slot("model"))[self.address]
            return
        self.current.model = self._leaders_post("model", self.schedule.model)
        self.oversight.check_model(self.current.model, self.leader)

    def seal_round(self) -> None:
        """The leader hands its block to the devices, which mine it."""
        if self.leads:
            models = self.board.read(self._slot("model"))
            self.sealer.seal(self.standing.block_hash, self.address, self.current.plan, models, self.schedule.seal)

    def read_seal(self) -> None:
        """Sign the sealed block, the leader first."""
        self.sign_block(self.schedule.seal)

    def finish_round(self) -> None:
        """Go on with what the final block says, whatever this server had worked out itself (D3.5)."""
        standing, seal = self.sealer.standing(self.round), self.sealer.find(self.round)
        if seal is None:
            raise BoardError(f"round {self.round} is not sealed")
        self.standing = standing or Standing(
            round=self.round,
            model=self.current.model,
            block_hash=seal.block_hash,
            winner=seal.winner,
            tenure=self.standing.tenure.after(seal.leader),
            divergence=divergence(self.oversight.iterates(0)),
            excluded=seal.excluded_next,
        )

    # --- what the steps share -----------------------------------------------------------------------------------

    @property
    def current(self) -> RunningRound:
        """The round in hand; until the next plan is read, the one that has just ended."""
        if self._running.plan.round < self.standing.round:
            raise BoardError(f"server {self.index} has read no plan for round {self.round}")
        return self._running
