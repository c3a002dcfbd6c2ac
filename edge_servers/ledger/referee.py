"""The referee of one node: replays every server from the ledger while the round runs, repairs, and finds the evidence.

Edge servers of one process share it as they share the node: the same posts give the same verdict. What a server does
about it, its flag, is its own signature (P13-P15).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from chain.client.ledger import Ledger
from chain.errors import ChainError, RevertedError
from chain.protocol.slots import Slot
from chain.wire.address import Address
from chain.wire.plan import Plan
from chain.wire.sidecar import payload_digest
from clients.models import Vector
from edge_servers.errors import LeaderFailedError, OverflowRefusedError, PlanError, ReplayError
from edge_servers.founding.standing import Standing
from edge_servers.learning.aggregation import FixedPoint
from edge_servers.learning.filters import make_filters
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.ledger.chain_board import ChainBoard
from edge_servers.ledger.findings import Findings
from edge_servers.replay.admitted import Admitted, admitted_gradients
from edge_servers.replay.iterates import Iterates
from edge_servers.replay.offences import (
    SIGNED_TWICE,
    Offence,
    absent_post,
    double_signing,
    equivocation,
    refused_post,
    wrong_model,
)  # fmt: skip
from edge_servers.replay.plan_check import check_follows, check_phi, check_plan
from edge_servers.replay.record import is_gibberish
from edge_servers.replay.replay import (
    close_offence,
    iterate_offence,
    judged_round,
    model_payload,
    replayed_model,
)  # fmt: skip

_LOG = logging.getLogger(__name__)
Prove = Callable[[Ledger, int], object]
"""Posts the evidence against somebody, through a server's ledger, in a round"""
_ENDING = (Slot.PLAN, Slot.CLOSE, Slot.MODEL)
"""What ends an attempt if it is wrong"""
_LEADS = {"plan": Slot.PLAN, "close": Slot.CLOSE, "model": Slot.MODEL, "seal": Slot.MODEL}
"""The slot that a leader owes; a block without which no model counts is its model's"""


class Referee:
    """An `Oversight` that believes nothing it can compute."""

    def __init__(self, board: ChainBoard) -> None:
        self.board, self.founding = board, board.founding
        self._found = Findings(Standing(-1, np.zeros(0, np.float32), b""), 0)

    # --- the round

    def begin(self, standing: Standing, attempt: int) -> None:
        """An attempt starts from where everybody stands; the excluded post nothing (P14). What ended the attempt before
        is accused in this one; what was wrong in its gossip has no block, and is forgotten.
        """
        before = self._found
        if (before.round, before.attempt) == (standing.round + 1, attempt):
            return
        self._found = Findings(standing, attempt)
        if before.round == standing.round + 1:
            self._found.offences = {key: each for key, each in before.offences.items() if each.slot in _ENDING}
        ask = self.board.ledger.access.ask
        self._found.dormant = frozenset(each for each in self.founding.network.servers if ask("is_dormant", each))
        self._found.silent |= self._found.dormant

    def dormant(self) -> frozenset[Address]:
        """Who is dormant in this round (D3.7): the registry says it, to whoever has just started too."""
        return self._found.dormant

    def check_plan(self, plan: Plan, leader: Address) -> None:
        """The plan must be one that the founding parameters allow, with the divergence of the round before."""
        network = self.founding.network
        barred = {network.server_index(server) for server in self._found.virtual}
        try:
            check_plan(plan, self.founding, self._found.round, barred)
            check_phi(plan, self.founding)
            check_follows(plan, self._found.divergence, self._found.reputation)
        except PlanError as error:
            self._note(refused_post(leader, Slot.PLAN, self._sent(leader, Slot.PLAN), str(error), network))
            raise LeaderFailedError(leader, str(error)) from error

    def gradients(self) -> tuple[dict[Address, Gradient], list[Refusal]]:
        """Every posted gradient through P6."""
        admitted = self._admitted()
        name = self.founding.network.name
        refused = [Refusal(name(who), error.reason, str(error)) for who, error in admitted.refused.items()]
        return dict(admitted.good), refused

    def _admitted(self) -> Admitted:
        return admitted_gradients(self.board.record(self._found.round), self.board.reader)

    def counted(self, close: Close, leader: Address, until_s: float) -> list[Gradient]:
        """What the closed list makes count; one that accepts what may not count is the leader's failure."""
        found = self._found
        record = self.board.record(found.round)
        post = record.only(Slot.CLOSE)
        if found.record is not None and found.record.only(Slot.CLOSE) == post and found.closed is not None:
            return list(found.closed.counted)
        needed = {*close.accepted, *self._taken_out(close)}
        if not self.board.wait_for_gradients(found.slot("gradient"), needed, until_s):
            # Its payloads did not come in time: nobody else can replay it, and that is absence, no lie (B4).
            self._note(absent_post(leader, Slot.CLOSE, "close", self.founding.network))
            told = f"{self.founding.network.name(leader)} closed a list that others cannot read"
            raise LeaderFailedError(leader, told)
        record = self.board.record(found.round)
        try:
            closed = judged_round(record, self.board.reader, found.model)
        except (ReplayError, OverflowRefusedError) as error:
            sent = b"" if post is None else post.transaction_hash
            self._note(refused_post(leader, Slot.CLOSE, sent, str(error), self.founding.network))
            raise LeaderFailedError(leader, str(error)) from error
        found.record, found.closed = record, closed
        if omission := close_offence(record, closed.omitted, self.founding):
            self._note(omission)
        return list(closed.counted)

    def _taken_out(self, close: Close) -> list[Address]:
        """Whose gradients the leader's filters took out: it held them, and a replay needs them too (B3).

        All other reasons may be the word of others, of gradients that it never saw.
        """
        text, name = self.founding.settings.rounds.filter, self.founding.network.name
        reasons = make_filters(text).reasons
        out = {refusal.node for refusal in close.refused if refusal.reason in reasons}
        posts = self.board.ledger.posts(self._found.round, Slot.GRADIENT)
        return [Address(sender) for sender in posts if name(sender) in out]

    def expected(self) -> set[Address]:
        """Servers that are waited for: neither excluded nor dormant nor silent in this attempt, and come to it."""
        return {server for server in self.founding.network.servers if self._is_waited_for(server)}

    def _is_waited_for(self, server: Address) -> bool:
        return server not in self._found.silent and self.board.is_with_us(self._found.slot("iterate"), server)

    def iterate(self, server: int, step: int, until_s: float) -> FixedPoint:
        """The replayed iterate: what the server posted if it is right, what it should have posted if not (P14)."""
        self._check_iterate(self.founding.network.servers[server], step, until_s)
        self._hold_evidence(step)
        return self._iterates.values(step)[server]

    @property
    def _iterates(self) -> Iterates:
        """Of the closed round; without one nobody asks."""
        if self._found.closed is None:
            raise ReplayError(f"round {self._found.round} is not closed")
        return self._found.closed.iterates

    def _hold_evidence(self, step: int) -> None:
        """Have the payloads of wrong iterates kept while they are at hand, to tell later how far off they were (B3)."""
        found, network = self._found, self.founding.network
        for server, post in self.board.posted_iterates(found.slot("iterate", step)).items():
            if post.digest not in found.held and post.digest != self._iterates.digest(
                step, network.server_index(server)
            ):
                found.held.add(post.digest)
                self.board.ledger.access.hold_evidence(post.digest)

    def _check_iterate(self, server: Address, step: int, until_s: float) -> None:
        found = self._found
        if server in found.virtual or (server, step) in found.checked:
            return
        wait_s = until_s if self._is_waited_for(server) else 0.0
        posted = self.board.posted_iterate(found.slot("iterate", step), server, wait_s)
        expected = self._iterates.digest(step, self.founding.network.server_index(server))
        offence = iterate_offence(posted, expected, server, step, self.founding)
        found.checked.add((server, step))
        if posted is None:
            found.silent.add(server)  # nobody waits for it again in this round
        if offence is not None:
            self._note(offence)

    def iterates(self, step: int) -> list[FixedPoint]:
        """All servers' iterates of a step, repaired."""
        return [] if self._found.closed is None else self._iterates.values(step)

    def check_model(self, model: Vector, leader: Address) -> None:
        """The leader's model must be the replayed one, bit for bit."""
        found = self._found
        m, weights = self.founding.network.server_index(leader), found.closed.weights if found.closed else ()
        expected = replayed_model(weights, self._iterates.last[m], m, found.model, self.founding)
        post = self.board.ledger.posts(found.round, Slot.MODEL).get(leader)
        right = payload_digest(model_payload(expected, self.founding))
        if post is None or post.digest != right:
            sent = b"" if post is None else post.transaction_hash
            offence = wrong_model(leader, sent, self.founding.network, right)
            self._note(offence)
            raise LeaderFailedError(leader, offence.detail)

    # --- offences

    def note_absent(self, leader: Address, kind: str) -> None:
        """A leader posted nothing in its time: no offence (D3.6). Bytes that say nothing are one."""
        network, slot = self.founding.network, _LEADS[kind]
        post = self.board.ledger.posts(self._found.round, slot).get(leader) if kind != "seal" else None
        if post is not None and is_gibberish(post, self.founding):
            detail = f"{network.name(leader)} posted a {kind} that nobody can read"
            self._note(refused_post(leader, slot, post.transaction_hash, detail, network))
        else:
            self._note(absent_post(leader, slot, kind, network))

    def _sent(self, leader: Address, slot: int) -> bytes:
        """Hash of the transaction that a leader filled a slot with."""
        post = self.board.ledger.posts(self._found.round, slot).get(leader)
        return b"" if post is None else post.transaction_hash

    def _note(self, offence: Offence) -> None:
        """The first offence of somebody in a slot stands."""
        self._found.offences.setdefault((offence.offender, offence.slot), offence)

    def check_all_iterates(self, until_s: float) -> None:
        """Every server's every step, also those no neighbour asked for; and who signed two posts for one slot."""
        for step in range(len(self._iterates)):
            self._hold_evidence(step)
            for server in self.founding.network.servers:
                self._check_iterate(server, step, until_s)

    def accuse(self, server: Address) -> None:
        """Post `server`'s flags: one per offender and round, the first offence; equivocation with both signatures."""
        found, proven = self._found, self._proven()
        for offence, _ in proven.values():
            self._note(offence)
        for offence in list(found.offences.values()):
            key = (server, offence.offender)
            if offence.is_absence or offence.offender == server or key in found.accused:
                continue
            if offence.offender in found.virtual or self.board.is_excluded(offence.offender):
                continue
            found.accused.add(key)
            self._flag(server, offence, proven[offence.offender][1] if offence.offender in proven else None)

    def _proven(self) -> dict[Address, tuple[Offence, Prove]]:
        """Who signed two things where one is allowed, and what proves it to the registry: no one's word is needed."""
        ledger, network, round_ = self.board.ledger, self.founding.network, self._found.round
        found: dict[Address, tuple[Offence, Prove]] = {}
        for one, other in ledger.access.contradictions(max(0, round_ - ledger.access.settings.flag_window)):
            offence = double_signing(one, other, network)
            found[one.signer] = offence, partial(Ledger.submit_signatures, first=one, second=other)
        for first, second in ledger.conflicts():
            offence = equivocation(Address(first.sender), first.hash, second.hash, network)
            found[offence.offender] = offence, partial(Ledger.submit_equivocation, first=first, second=second)
        return found

    def _flag(self, server: Address, offence: Offence, prove: Prove | None) -> None:
        """One server's accusation; what cannot be posted is told, and the round goes on."""
        round_ = self._found.round
        try:
            if prove is not None:
                prove(self.board.ledger_of(server), round_)
                return
        except ChainError as error:
            _LOG.warning("%s cannot prove what %s signed: %s", server, offence.offender, error)
        if offence.slot in SIGNED_TWICE:
            return
        try:
            self.board.ledger_of(server).submit_flag(
                round_, offence.offender, offence.slot, offence.transaction_hash, offence.expected
            )
        except RevertedError:
            return  # the others' flags have excluded it meanwhile
        except ChainError as error:
            _LOG.warning("%s cannot flag %s: %s", server, offence.offender, error)

    def wait_for_flags(self, until_s: float) -> None:
        """Let the others accuse whom this server has found out: a flag that is not in the block counts for nothing."""
        virtual = self._found.virtual
        suspects = {each.offender for each in self._found.offences.values() if not each.is_absence} - virtual
        active = len(self.founding.network.servers) - len(virtual)
        if suspects and 2 * (active - 1) > active:  # of two nobody can exclude the other
            self.board.wait(lambda: all(self.board.is_excluded(each) for each in suspects), until_s)

    def excluded(self) -> set[Address]:
        """Servers that may not post any more in this round: excluded before it, or by its flags."""
        suspects = {offence.offender for offence in self._found.offences.values()} & {*self.founding.network.servers}
        return self._found.virtual | {each for each in suspects if self.board.is_excluded(each)}

    @property
    def offences(self) -> Sequence[Offence]:
        """What was found in this round."""
        return list(self._found.offences.values())

    @property
    def filtered(self) -> tuple[int, ...]:
        """Devices whose gradients count as taken out by a filter in this round (R1)."""
        return () if self._found.closed is None else self._found.closed.filtered
