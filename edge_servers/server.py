"""One edge server through the phases of a round. `round.py` says in which order; here is what each step does."""

import logging
from dataclasses import replace

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.orders import vector_digest
from clients.training import Trainer, local_updates
from edge_servers.devices.admission import heard_refusals
from edge_servers.errors import BoardError
from edge_servers.founding.standing import Standing
from edge_servers.home import HomeServer, ServerParts
from edge_servers.learning.aggregation import (
    divergence,
    partial_aggregate,
    to_fixed_point,
    total_samples,
)
from edge_servers.learning.filters import close_list, make_filters
from edge_servers.learning.gossip import next_iterate
from edge_servers.learning.gradients import Close
from edge_servers.learning.reputation import JudgedRound, Reputation, after, reputation_terms
from edge_servers.learning.schemes import ClosedRound, scheme_of
from edge_servers.learning.verdicts import Bench, judged_by
from edge_servers.ledger.running_round import RunningRound
from edge_servers.planning.drafting import draft_plan
from edge_servers.planning.proposal import Draft, Planner

_LOG = logging.getLogger(__name__)


class EdgeServer(HomeServer):
    """Edge server m. Its access to the ledger connects it with the other servers, its link with its own devices."""

    def __init__(self, parts: ServerParts, planner: Planner, trainer: Trainer = local_updates) -> None:
        super().__init__(parts)
        self.planner, self.trainer = planner, trainer
        self.scheme = scheme_of(parts.settings.rounds.scheme)
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
        # Nobody waits for whom is dormant: one that waited for data would miss the round that ends its sleep.
        patience_s = 0.0 if self.address in self.oversight.dormant() else self.settings.rounds.deadline_s / 2
        self.data_paths.open(plan, self.attempt, patience_s, self.serving)

    # --- close --------------------------------------------------------------------------------------------------

    def post_close(self) -> None:
        """The leader closes the list: D, b, eqs. 8 and 11 are computed from it alone (P4)."""
        if not self.leads:
            return
        # A server posts its roll after its last gradient: only then is everything here that will be.
        told = self.board.wait_for(self._slot("roll"), self.oversight.expected(), self.schedule.rolls)
        good, unfit = self.oversight.gradients()
        refused = [*heard_refusals(told, self.network, self.settings.rounds.filter, self.serving), *unfit]
        filters = make_filters(self.settings.rounds.filter)
        close = close_list(good, refused, filters, judged_by(self._bench))
        close = replace(close, rolls=tuple(told))
        self.current.refusals = list(close.refused)  # the ledger carries reasons without details
        self._publish("close", close)

    @property
    def _bench(self) -> Bench | None:
        """What gradients of this round are judged by, where they are."""
        jury, eta = self.task.jury, self.settings.training.learning_rate
        return None if jury is None else Bench(jury, self.standing.model, self.round, eta)

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
            gradients=() if self.settings.rounds.is_on_chain else work.closed,
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
            reputation=self._reputation(seal.leader),
        )

    def _reputation(self, leader: Address) -> Reputation:
        """What is held against devices after the round, where no block says so (R3)."""
        judged = JudgedRound(self.round, self.network.server_index(leader), self.oversight.filtered)
        terms = reputation_terms(self.settings.rounds)
        return after(self.standing.reputation, judged, terms, len(self.network.devices))

    # --- what the steps share -----------------------------------------------------------------------------------
