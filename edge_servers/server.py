"""One edge server through the phases of a round. `round.py` says in which order; here is what each step does."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Message

from clients.batches import NodeKey
from clients.models import Vector
from clients.orders import DataReply, Order, vector_digest
from clients.training import LocalUpdate, Recipe, Trainer, TrainingNode, local_updates
from edge_servers import seal
from edge_servers.admission import Expected, admitted_reply, check_gradient
from edge_servers.aggregation import (
    FixedPoint,
    consensus_error,
    divergence,
    partial_aggregate,
    to_fixed_point,
    total_samples,
)
from edge_servers.board import Board, Slot
from edge_servers.errors import BoardError, GradientRefusedError
from edge_servers.gossip import next_iterate
from edge_servers.leader import ranked_leaders
from edge_servers.link import DeviceLink
from edge_servers.network import DeviceRecord, Network, Task
from edge_servers.offloading import union_of
from edge_servers.parameters import Settings
from edge_servers.planning import LOCAL, Planner, planned_orders, planned_phi, project, round_state
from edge_servers.posts import Close, Gradient, Plan, Refusal
from edge_servers.schemes import SCHEMES, ClosedRound
from edge_servers.standing import Standing, Work


class EdgeServer:
    """Edge server m. Its board is shared with the others, its link reaches its own devices."""

    def __init__(
        self,
        index: int,
        network: Network,
        settings: Settings,
        task: Task,
        board: Board,
        link: DeviceLink,
        planner: Planner,
        standing: Standing,
        trainer: Trainer = local_updates,
    ) -> None:
        self.index = index
        self.address = network.servers[index]
        self.network = network
        self.settings = settings
        self.task = task
        self.board = board
        self.link = link
        self.planner = planner
        self.standing = standing
        self.trainer = trainer
        self.scheme = SCHEMES[settings.rounds.scheme]
        self.work: Work | None = None

    # --- plan ---------------------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """The round this server is in or about to start."""
        return self.standing.round + 1

    @property
    def leader(self) -> str:
        """Address of the leader of this round (L14, P12)."""
        standing = self.standing
        home = None if standing.winner is None else self.network.servers[self.network.devices[standing.winner].home]
        cap = self.settings.rounds.term_cap
        return ranked_leaders(self.network.servers, home, standing.block_hash, standing.reign, cap)[0]

    @property
    def leads(self) -> bool:
        """Whether this server leads the round."""
        return self.leader == self.address

    def post_plan(self) -> None:
        """The leader decides who offloads, how much each device works on and how long servers gossip."""
        if not self.leads:
            return
        state = round_state(self.round, self.network, self.settings.data, self.task.like.sample_bytes)
        plan = Plan(
            round=self.round,
            state_digest=state.digest,
            assignment=project(self.planner.offload(state), state, self.network),
            samples=state.samples,
            iterations=(self.settings.training.iterations,) * len(self.network.devices),
            server_iterations=(self.settings.training.iterations,) * len(self.network.servers),
            phi=planned_phi(self.settings.rounds, self.network, self.round, self.standing.divergence),
            deadline_s=self.settings.rounds.deadline_s,
            divergence=self.standing.divergence,
            policy_digest=self.planner.name,
        )
        self.board.post(Slot(self.round, "plan"), self.address, plan)

    def read_plan(self) -> Plan:
        """Take over the leader's plan."""
        plan: Plan = self._wait_for(Slot(self.round, "plan"), self.leader)
        self.work = Work(plan, vector_digest(self.standing.model))
        return plan

    # --- train --------------------------------------------------------------------------------------------------

    def orders(self) -> list[Order]:
        """One order per device of this cluster (P25)."""
        devices = [device.index for device in self.cluster]
        return planned_orders(self.current.plan, devices, self.standing.model, self.current.model_digest, self.recipe)

    def send_orders(self) -> None:
        """Hand every device of this cluster its order."""
        self.link.send(self.orders(), self.current.plan.deadline_s)

    def collect_data(self) -> None:
        """Wait for the devices that offload, at most until the deadline: they answer first, the others still train."""
        self._collect([device for device in self.cluster if self._offloads(device)])

    def collect_gradients(self) -> None:
        """Wait for the devices that train, at most until the same deadline."""
        self._collect([device for device in self.cluster if not self._offloads(device)])

    def _collect(self, devices: list[DeviceRecord]) -> None:
        self.admit_replies(devices, self.link.collect({device.index for device in devices}))

    @property
    def cluster(self) -> list[DeviceRecord]:
        """The devices whose home this server is."""
        return self.network.cluster(self.index)

    def _offloads(self, device: DeviceRecord) -> bool:
        return self.current.plan.assignment[device.index] != LOCAL

    def admit_replies(self, devices: list[DeviceRecord], replies: Mapping[int, Message]) -> None:
        """Post the good gradients, keep the handed-over data, record everyone else with the reason (P4)."""
        for device in devices:
            try:
                self._admit(device, replies.get(device.index))
            except GradientRefusedError as refused:
                self.current.refusals.append(Refusal(f"device {device.index}", refused.reason, str(refused)))

    def _admit(self, device: DeviceRecord, message: Message | None) -> None:
        """One device's reply: its gradient goes to the board, its data to the server that the plan names."""
        work = self.current
        expected = Expected(work.plan, device, work.model_digest, self.task, self.settings.rounds)
        admitted = admitted_reply(message, expected)
        if isinstance(admitted, DataReply):
            work.outgoing[device.index] = admitted
        else:
            self.board.post(Slot(self.round, "gradient"), device.address, admitted)

    def training_node(self) -> TrainingNode | None:
        """This server as a training node: the union of what was offloaded to it; None without offloaders (L3)."""
        if not self.current.data:
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

    def post_own_gradient(self, update: LocalUpdate) -> None:
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
            self.board.post(Slot(self.round, "gradient"), self.address, gradient)

    def post_refusals(self) -> None:
        """Tell the leader who of this cluster is out, and why."""
        self.board.post(Slot(self.round, "refusals"), self.address, tuple(self.current.refusals))

    # --- close --------------------------------------------------------------------------------------------------

    def post_close(self) -> None:
        """The leader closes the list: D, b, eqs. 8 and 11 are computed from it alone (P4)."""
        if not self.leads:
            return
        # A server tells who is out after its last gradient: only then is everything here that will be.
        told = self.board.wait_for(Slot(self.round, "refusals"), self.network.servers, self.current.plan.deadline_s)
        gradients = self.board.read(Slot(self.round, "gradient"))
        refused = sorted((r for refusals in told.values() for r in refusals), key=lambda r: r.node)
        self.board.post(Slot(self.round, "close"), self.address, Close(tuple(gradients), tuple(refused)))

    def read_close(self) -> Close:
        """Take over the closed list."""
        close: Close = self._wait_for(Slot(self.round, "close"), self.leader)
        gradients = self.board.read(Slot(self.round, "gradient"))
        self.current.closed = [gradients[sender] for sender in close.accepted]
        self.current.refused = close.refused
        return close

    # --- gossip -------------------------------------------------------------------------------------------------

    def post_aggregate(self) -> None:
        """Iterate 0: this cluster's aggregated gradient (eq. 8)."""
        work = self.current
        mine = [gradient for gradient in work.closed if gradient.server == self.index]
        x = partial_aggregate(mine, total_samples(work.closed), len(self.standing.model))
        work.iterates = [to_fixed_point(x, f"server {self.index}")]
        self.post_iterate()

    def mix(self) -> None:
        """The next iterate from the neighbours' last ones (eq. 9)."""
        step = len(self.current.iterates) - 1
        neighbours = self.network.graph.neighbours(self.index)
        x = {j: self._iterate_of(j, step) for j in neighbours} | {self.index: self.current.iterates[-1]}
        self.current.iterates.append(next_iterate(self.index, x, neighbours, self.network.weight))

    def post_iterate(self) -> None:
        """Publish the newest iterate; apart from `mix`, so that all servers mix the same step."""
        step = len(self.current.iterates) - 1
        self.board.post(Slot(self.round, "iterate", step), self.address, self.current.iterates[-1])

    def _iterate_of(self, server: int, step: int) -> FixedPoint:
        x: FixedPoint = self._wait_for(Slot(self.round, "iterate", step), self.network.servers[server])
        return x

    # --- model, seal --------------------------------------------------------------------------------------------

    def post_model(self) -> None:
        """The leader's model for everyone, or every server's own (eqs. 11, 12)."""
        if self.scheme.one_model and not self.leads:
            return
        work = self.current
        model = self.standing.model
        if work.closed:  # a round in which nobody trained leaves the model as it was
            closed_round = ClosedRound(
                self.index, len(self.network.servers), model, work.closed, work.iterates[-1],
                self.settings.training.learning_rate,
            )  # fmt: skip
            model = self.scheme.next_model(closed_round)
        self.board.post(Slot(self.round, "model"), self.address, model)

    def read_model(self) -> Vector:
        """The model this server goes on with."""
        sender = self.leader if self.scheme.one_model else self.address
        model: Vector = self._wait_for(Slot(self.round, "model"), sender)
        return model

    def measured_divergence(self) -> float:
        """Xi of this round (Definition 1), which the next plan carries."""
        return divergence(self._iterates_of_all(0))

    def finish_round(self, measured_divergence: float) -> None:
        """Go on to the next round with the new model; its winner and hash decide who leads (L14)."""
        posts = self.board.read(Slot(self.round, "model"))
        winner = seal.drawn_winner(self.settings.data.seed, self.round, len(self.network.devices))
        self.standing = Standing(
            round=self.round,
            model=self.read_model(),
            block_hash=seal.round_hash(self.standing.block_hash, posts, self.network.devices[winner].address),
            winner=winner,
            reign=self.standing.reign.after(self.leader),
            divergence=measured_divergence,
        )

    def consensus_gap(self) -> float:
        """How far this round's consensus stayed from the exact mean."""
        return consensus_error(self._iterates_of_all(0), self._iterates_of_all(self.current.plan.phi))

    # --- what the steps share -----------------------------------------------------------------------------------

    @property
    def current(self) -> Work:
        """The round in hand."""
        if self.work is None:
            raise BoardError(f"server {self.index} has read no plan for round {self.round}")
        return self.work

    def _iterates_of_all(self, step: int) -> list[FixedPoint]:
        return list(self.board.read(Slot(self.current.plan.round, "iterate", step)).values())

    def _wait_for(self, slot: Slot, sender: str) -> Any:
        """One server's post, or a `BoardError` at the deadline that names it."""
        deadline_s = self.settings.rounds.deadline_s
        posts = self.board.wait_for(slot, [sender], deadline_s)
        if sender not in posts:
            raise BoardError(f"server {self.network.server_index(sender)} did not post {slot} within {deadline_s:g} s")
        return posts[sender]
