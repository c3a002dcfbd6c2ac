"""One edge server through the phases of a round. `round.py` says in which order; here is what each step does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Message

from clients.batches import NodeKey
from clients.orders import DataReply, Order, vector_digest
from clients.training import LocalUpdate, Recipe, Trainer, TrainingNode, local_updates
from edge_servers.admission import Expected, admitted_reply, check_gradient
from edge_servers.aggregation import consensus_error, divergence, partial_aggregate, to_fixed_point, total_samples
from edge_servers.board import Board, Slot
from edge_servers.conduct import WITHHELD, Conduct, Twice, honest
from edge_servers.errors import BoardError, GradientRefusedError, LeaderFailedError
from edge_servers.gossip import next_iterate
from edge_servers.latency import paper_terms
from edge_servers.leader import ranked_leaders
from edge_servers.link import DeviceLink
from edge_servers.network import DeviceRecord, Network, Task
from edge_servers.offloading import union_of
from edge_servers.oversight import VERDICTS, Oversight, deterministic_filter
from edge_servers.parameters import Settings
from edge_servers.planning import LOCAL, Planner, planned, planned_orders, planned_phi, round_state
from edge_servers.posts import Close, Gradient, Plan, Refusal
from edge_servers.schemes import SCHEMES, ClosedRound
from edge_servers.seal import Sealer
from edge_servers.standing import Draft, Standing, Work
from edge_servers.validation import loss_verdicts


@dataclass(frozen=True)
class Station:
    """Where a server stands: the board it posts on, who checks the others, and how rounds end."""

    board: Board
    oversight: Oversight
    sealer: Sealer


class EdgeServer:
    """Edge server m. Its station connects it with the other servers, its link with its own devices."""

    def __init__(
        self,
        index: int,
        network: Network,
        settings: Settings,
        task: Task,
        station: Station,
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
        self.board, self.oversight, self.sealer = station.board, station.oversight, station.sealer
        self.link = link
        self.planner = planner
        self.standing = standing
        self.trainer = trainer
        self.scheme = SCHEMES[settings.rounds.scheme]
        self.conduct: Conduct = honest
        self.work: Work | None = None
        self.draft: Draft | None = None
        self.failed: list[str] = []
        """Leaders that failed in this round, in their order."""

    # --- plan ---------------------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """The round this server is in or about to start."""
        return self.standing.round + 1

    def begin_round(self) -> None:
        """Nobody has failed yet; the others are watched from the model everyone has."""
        self.failed, self.draft = [], None
        self.oversight.begin(self.standing)
        if self.round > 1 and self.address not in self.standing.excluded:
            self.board.endorse(self.round, self.address)

    @property
    def leaders(self) -> list[str]:
        """Who may lead this round, by rank (L14, P12)."""
        standing, excluded = self.standing, self.oversight.excluded() | set(self.standing.excluded)
        home = None if standing.winner is None else self.network.servers[self.network.devices[standing.winner].home]
        lawful = [server for server in self.network.servers if server not in excluded]
        return ranked_leaders(lawful, home, standing.block_hash, standing.reign, self.settings.rounds.term_cap)

    @property
    def leader(self) -> str:
        """Address of the leader: the first in rank that has not failed."""
        for server in self.leaders:
            if server not in self.failed:
                return server
        raise BoardError(f"round {self.round}: no server is left to lead it; {len(self.failed)} have failed")

    @property
    def leads(self) -> bool:
        """Whether this server leads the round."""
        return self.leader == self.address

    def pass_turn(self, what: str, leader: str) -> None:
        """The leader failed: drop what it posted, and wait until the next in rank may act."""
        self.failed.append(leader)
        self.board.drop(Slot(self.round, what), leader)
        self.board.wait_turn(self.leaders.index(self.leader))

    def _leaders_post(self, what: str, wait_s: float) -> Any:
        """What the leader posted, or a `LeaderFailedError` when its time is over."""
        leader = self.leader
        posts = self.board.wait_for(Slot(self.round, what), [leader], wait_s)
        if leader not in posts:
            self.oversight.note_missing(leader, what)
            raise LeaderFailedError(leader, f"{self.network.name(leader)} posted no {what} in its time")
        return posts[leader]

    def _publish(self, slot: Slot, body: Any) -> Any:
        """Post `body` as this server's conduct has it; returns what it stands by."""
        said = self.conduct(slot, body)
        if said is WITHHELD:
            return body
        if isinstance(said, Twice):
            self.board.post_twice(slot, self.address, said.first, said.second)
            return said.first
        self.board.post(slot, self.address, said)
        return said

    def post_plan(self) -> None:
        """The leader decides who offloads, how much each device works on and how long servers gossip."""
        if not self.leads:
            return
        barred = tuple(self.network.server_index(each) for each in self.standing.excluded)
        state = round_state(self.round, self.network, self.settings.data, self.task.like.sample_bytes, barred)
        proposal = planned(self.planner, state)
        self.draft = Draft(state, proposal)
        given = proposal.allocation
        plan = Plan(
            round=self.round,
            state_digest=state.digest,
            assignment=proposal.assignment,
            samples=state.samples,
            iterations=(self.settings.training.iterations,) * len(self.network.devices),
            server_iterations=(self.settings.training.iterations,) * len(self.network.servers),
            phi=planned_phi(self.settings.rounds, self.network, self.round, self.standing.divergence),
            deadline_s=self.settings.rounds.deadline_s,
            divergence=self.standing.divergence,
            policy_digest=self.planner.digest,
            power_w=tuple(given.power_w[0].tolist()),
            bandwidth_hz=tuple(given.bandwidth_hz[0].tolist()),
            cpu_hz=tuple(given.cpu_hz[0].tolist()),
            hash_rate=tuple(given.hash_rate[0].tolist()),
            latency_s=paper_terms(proposal, state),
        )
        self._publish(Slot(self.round, "plan"), plan)

    def read_plan(self, wait_s: float) -> Plan:
        """Take over the leader's plan, if it is one that the network allows."""
        plan: Plan = self._leaders_post("plan", wait_s)
        self.oversight.check_plan(plan, self.leader)
        self.work = Work(plan, vector_digest(self.standing.model))
        return plan

    # --- train --------------------------------------------------------------------------------------------------

    def orders(self) -> list[Order]:
        """One order per device of this cluster (P25)."""
        devices = [device.index for device in self.cluster]
        orders = planned_orders(self.current.plan, devices, self.standing.model, self.current.model_digest, self.recipe)
        return self.board.with_terms(orders, [device.address for device in self.cluster])

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
        opener = self.board.opener(work.plan)
        expected = Expected(work.plan, device, work.model_digest, self.task, self.settings.rounds, opener)
        admitted = admitted_reply(message, expected)
        if isinstance(admitted, DataReply):
            work.outgoing[device.index] = admitted
        else:
            work.collected.append(admitted)

    def post_gradient(self, sender: str) -> None:
        """Post what a training node of this cluster made, its own as its conduct has it."""
        work, slot = self.current, Slot(self.round, "gradient")
        gradient = next(each for each in work.collected if each.sender == sender)
        try:
            if sender == self.address:
                self._publish(slot, gradient)
            else:
                self.board.post(slot, sender, gradient)
        except BoardError as error:
            work.refusals.append(Refusal(gradient.node, "refused-by-ledger", str(error)))

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
            work.collected.append(gradient)

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
        good, unfit = self.oversight.gradients()
        removed = self._filtered_out(good)
        refused = [*unfit, *removed, *(refusal for refusals in told.values() for refusal in refusals)]
        out = {refusal.node for refusal in removed}
        accepted = tuple(sender for sender in sorted(good) if good[sender].node not in out)
        named = {refusal.node: refusal for refusal in sorted(refused, key=lambda refusal: refusal.node)}
        self.current.refusals = list(named.values())  # the ledger carries reasons without details
        self._publish(Slot(self.round, "close"), Close(accepted, tuple(named.values())))

    def _filtered_out(self, good: Mapping[str, Gradient]) -> list[Refusal]:
        """Whom the filters of P7 take out; they run once, over the whole list."""
        text, removed = self.settings.rounds.filter, []
        if any(part in VERDICTS for part in text.split("+")):
            verdicts = loss_verdicts(
                list(good.values()),
                self.standing.model,
                self.settings.training.learning_rate,
                self.task.validation_loss,
            )
            removed = [Refusal(good[sender].node, "loss", detail) for sender, detail in verdicts.items()]
        judged = {refusal.node for refusal in removed}
        filters = deterministic_filter(text)
        result = filters([gradient for gradient in good.values() if gradient.node not in judged])
        return removed + [Refusal(good[who].node, filters.reason, detail) for who, detail in result.removed.items()]

    def read_close(self, wait_s: float) -> Close:
        """Take over the closed list, as far as it is right."""
        close: Close = self._leaders_post("close", wait_s)
        self.current.closed = self.oversight.counted(close, self.leader)
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
        """The next iterate from the neighbours' last ones (eq. 9), repaired where one of them is wrong (P14)."""
        step = len(self.current.iterates) - 1
        neighbours = self.network.graph.neighbours(self.index)
        wait_s = self.settings.rounds.turn_s
        x = {j: self.oversight.iterate(j, step, wait_s) for j in neighbours}
        x[self.index] = self.current.iterates[-1]
        self.current.iterates.append(next_iterate(self.index, x, neighbours, self.network.weight))

    def post_iterate(self) -> None:
        """Publish the newest iterate; apart from `mix`, so that all servers mix the same step."""
        if self.address in self.standing.excluded:
            return
        step = len(self.current.iterates) - 1
        self.current.iterates[-1] = self._publish(Slot(self.round, "iterate", step), self.current.iterates[-1])

    # --- verify -------------------------------------------------------------------------------------------------

    def replay_others(self) -> None:
        """Every iterate of everybody against its replay."""
        self.oversight.check_all_iterates(self.settings.rounds.turn_s)

    def accuse(self) -> None:
        """Flag whoever was found out, under this server's own signature (P15)."""
        if self.address not in self.oversight.excluded():
            self.oversight.accuse(self.address)

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
        self._publish(Slot(self.round, "model"), model)

    def read_model(self, wait_s: float) -> None:
        """The model this server goes on with, if it follows from the round."""
        if not self.scheme.one_model:
            self.current.model = self.board.read(Slot(self.round, "model"))[self.address]
            return
        self.current.model = self._leaders_post("model", wait_s)
        self.oversight.check_model(self.current.model, self.leader)

    def seal_round(self) -> None:
        """The leader hands its block to the devices, which mine it."""
        if self.leads and self.conduct(Slot(self.round, "seal"), None) is not WITHHELD:
            models = self.board.read(Slot(self.round, "model"))
            self.sealer.seal(self.standing.block_hash, self.address, self.current.plan, models)

    def read_seal(self, wait_s: float) -> None:
        """Everyone waits for the sealed round; a leader without one has failed."""
        if self.sealer.wait_for(self.round, wait_s) is None:
            leader = self.leader
            self.oversight.note_missing(leader, "seal")
            raise LeaderFailedError(leader, f"{self.network.name(leader)} had no block sealed in its time")

    def finish_round(self) -> None:
        """Go on to the next round with the new model; its winner and hash decide who leads (L14)."""
        seal = self.sealer.find(self.round)
        if seal is None:
            raise BoardError(f"round {self.round} is not sealed")
        excluded = tuple(sorted(who for who, last in (seal.excluded or {}).items() if last > self.round))
        self.standing = Standing(
            round=self.round,
            model=self.current.model,
            block_hash=seal.block_hash,
            winner=seal.winner,
            reign=self.standing.reign.after(seal.leader),
            divergence=divergence(self.oversight.iterates(0)),
            excluded=excluded,
        )

    def consensus_gap(self) -> float:
        """How far this round's consensus stayed from the exact mean."""
        return consensus_error(self.oversight.iterates(0), self.oversight.iterates(self.current.plan.phi))

    # --- what the steps share -----------------------------------------------------------------------------------

    @property
    def current(self) -> Work:
        """The round in hand."""
        if self.work is None:
            raise BoardError(f"server {self.index} has read no plan for round {self.round}")
        return self.work
