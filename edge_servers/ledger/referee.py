"""The referee of one node: replays every server from the ledger while the round runs, repairs, and finds the evidence.

Edge servers of one process share it as they share the node: the same posts give the same verdict. What a server does
about it, its flag, is its own signature (P13-P15).
"""

import logging
from collections.abc import Sequence

import numpy as np

from chain.errors import ChainError, RevertedError
from chain.protocol import slots
from chain.wire.transactions import Transaction
from clients.models import Vector
from edge_servers.errors import LeaderFailedError, OverflowRefusedError, PlanError, ReplayError
from edge_servers.founding.standing import Standing
from edge_servers.learning.aggregation import FixedPoint
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.ledger.board import Slot
from edge_servers.ledger.chain_board import LedgerBoard, digest
from edge_servers.ledger.oversight import Accused
from edge_servers.planning.plan import Plan
from edge_servers.replay.record import RoundRecord, check_divergence, check_phi, check_plan
from edge_servers.replay.replay import (
    Admitted,
    ClosedGradients,
    Offence,
    admitted_gradients,
    close_offence,
    closed_gradients,
    iterate_offence,
    model_payload,
    replayed_iterates,
    replayed_model,
)

_LOG = logging.getLogger(__name__)
_LEADS = {"plan": slots.Slot.PLAN, "close": slots.Slot.CLOSE, "model": slots.Slot.MODEL, "seal": slots.Slot.MODEL}


class _Books:
    """What the referee has worked out of one round."""

    def __init__(self, before: Standing) -> None:
        self.round, self.model, self.divergence = before.round + 1, before.model, before.divergence
        self.virtual = set(before.excluded)
        self.offences: dict[tuple[str, int], Offence] = {}
        self.silent: set[str] = set(self.virtual)
        self.record: RoundRecord | None = None
        self.closed: ClosedGradients | None = None
        self.iterates: list[list[FixedPoint]] = []
        self.accused: set[tuple[str, str]] = set()
        self.checked: set[tuple[str, int]] = set()


class Referee:
    """An `Oversight` that believes nothing it can compute."""

    def __init__(self, board: LedgerBoard) -> None:
        self.board, self.founding = board, board.founding
        self._books = _Books(Standing(-1, np.zeros(0, np.float32), b""))

    # --- the round

    def begin(self, standing: Standing) -> None:
        """A new round starts from where everybody stands; the excluded post nothing (P14)."""
        if self._books.round != standing.round + 1:
            self._books = _Books(standing)

    def check_plan(self, plan: Plan, leader: str) -> None:
        """The plan must be one that the founding parameters allow, with the divergence of the round before."""
        network = self.founding.network
        barred = {network.server_index(server) for server in self._books.virtual}
        try:
            check_plan(plan, self.founding, self._books.round, barred)
            check_phi(plan, self.founding)
            check_divergence(plan, self._books.divergence)
        except PlanError as error:
            self._note(leader, "plan", slots.Slot.PLAN, self._sent(leader, slots.Slot.PLAN), b"", str(error))
            raise LeaderFailedError(leader, str(error)) from error

    def gradients(self) -> tuple[dict[str, Gradient], list[Refusal]]:
        """Every posted gradient through P6."""
        admitted = self._admitted()
        name = self.founding.network.name
        refused = [Refusal(name(who), error.reason, str(error)) for who, error in admitted.refused.items()]
        return dict(admitted.good), refused

    def _admitted(self) -> Admitted:
        return admitted_gradients(self.board.record(self._books.round), self.founding)

    def counted(self, close: Close, leader: str) -> list[Gradient]:
        """What the closed list makes count; one that accepts what may not count is the leader's failure."""
        books = self._books
        record = self.board.record(books.round)
        post = record.only(slots.Slot.CLOSE)
        if books.record is not None and books.record.only(slots.Slot.CLOSE) == post and books.closed is not None:
            return list(books.closed.counted)
        try:
            closed = closed_gradients(record, self.founding, admitted_gradients(record, self.founding))
            iterates = replayed_iterates(closed.counted, len(books.model), record.plan.phi, self.founding)
        except (ReplayError, OverflowRefusedError) as error:
            found = b"" if post is None else post.transaction_hash
            self._note(leader, "close", slots.Slot.CLOSE, found, b"", str(error))
            raise LeaderFailedError(leader, str(error)) from error
        books.record, books.closed, books.iterates = record, closed, iterates
        omission = close_offence(record, closed.omitted, self.founding)
        if omission is not None:
            books.offences.setdefault((omission.offender, omission.slot), omission)
        return list(closed.counted)

    def iterate(self, server: int, step: int, deadline_s: float) -> FixedPoint:
        """The replayed iterate: what the server posted if it is right, what it should have posted if not (P14)."""
        self._check_iterate(self.founding.network.servers[server], step, deadline_s)
        return self._books.iterates[step][server]

    def _check_iterate(self, server: str, step: int, deadline_s: float) -> None:
        books = self._books
        if server in books.virtual or (server, step) in books.checked:
            return
        wait_s = 0.0 if server in books.silent else deadline_s
        slot = slots.iterate_slot(step)
        posted = self.board.posted(Slot(books.round, "iterate", step), server, wait_s)
        m = self.founding.network.server_index(server)
        offence = iterate_offence(posted, books.iterates[step][m], server, step, self.founding)
        books.checked.add((server, step))
        if posted is None:
            books.silent.add(server)  # nobody waits for it again in this round
        if offence is not None:
            books.offences.setdefault((server, slot), offence)

    def iterates(self, step: int) -> list[FixedPoint]:
        """All servers' iterates of a step, repaired."""
        return self._books.iterates[step] if self._books.iterates else []

    def check_model(self, model: Vector, leader: str) -> None:
        """The leader's model must be the replayed one, bit for bit."""
        books = self._books
        m = self.founding.network.server_index(leader)
        closed = books.closed.counted if books.closed else ()
        expected = replayed_model(closed, books.iterates[-1][m], m, books.model, self.founding)
        post = self.board.ledger.posts(books.round, slots.Slot.MODEL).get(bytes.fromhex(leader[2:]))
        right = model_payload(expected, self.founding)
        if post is None or post.payload != right:
            sent = b"" if post is None else post.transaction_hash
            detail = f"{self.founding.network.name(leader)} published a model that eqs. 11 and 12 do not give"
            self._note(leader, "model", slots.Slot.MODEL, sent, digest(right), detail)
            raise LeaderFailedError(leader, detail)

    # --- offences

    def note_missing(self, leader: str, kind: str) -> None:
        """A leader posted nothing in its time."""
        detail = f"{self.founding.network.name(leader)} posted no {kind} in its time"
        self._note(leader, "missing", _LEADS[kind], b"", b"", detail)

    def _sent(self, leader: str, slot: int) -> bytes:
        """Hash of the transaction that a leader filled a slot with."""
        post = self.board.ledger.posts(self._books.round, slot).get(bytes.fromhex(leader[2:]))
        return b"" if post is None else post.transaction_hash

    def _note(self, offender: str, kind: str, slot: int, found: bytes, expected: bytes, detail: str) -> None:
        offence = Offence(offender, kind, slot, found or bytes(32), expected or bytes(32), detail)
        self._books.offences.setdefault((offender, slot), offence)

    def check_all_iterates(self, deadline_s: float) -> None:
        """Every server's every step, also those no neighbour asked for; and who signed two posts for one slot."""
        for step in range(len(self._books.iterates)):
            for server in self.founding.network.servers:
                self._check_iterate(server, step, deadline_s)

    def accuse(self, server: str) -> None:
        """Post `server`'s flags: one per offender and round, the first offence; equivocation with both signatures."""
        books = self._books
        pairs = {"0x" + first.sender.hex(): (first, second) for first, second in self.board.ledger.conflicts()}
        for offender, pair in pairs.items():
            step = f"{self.founding.network.name(offender)} signed two different posts for one slot"
            self._note(offender, "equivocation", slots.Slot.EQUIVOCATION, pair[0].hash, pair[1].hash, step)
        for offence in list(books.offences.values()):
            key = (server, offence.offender)
            if offence.offender == server or key in books.accused or not self._may_flag(offence.offender):
                continue
            books.accused.add(key)
            self._flag(server, offence, pairs.get(offence.offender))

    def _flag(self, server: str, offence: Offence, pair: tuple[Transaction, Transaction] | None) -> None:
        """One server's accusation; what cannot be posted is told, and the round goes on."""
        round_ = self._books.round
        try:
            if pair is not None:
                self.board.submit_equivocation(server, round_, pair)
                return
        except ChainError as error:
            _LOG.warning("%s cannot prove two posts of %s: %s", server, offence.offender, error)
        if offence.slot == slots.Slot.EQUIVOCATION:
            return
        try:
            self.board.submit_flag(
                server, round_, offence.offender, offence.slot, offence.transaction_hash, offence.expected
            )
        except RevertedError:
            return  # the others' flags have excluded it meanwhile
        except ChainError as error:
            _LOG.warning("%s cannot flag %s: %s", server, offence.offender, error)

    def _may_flag(self, offender: str) -> bool:
        return offender not in self._books.virtual and not self.board.is_excluded(offender)

    def excluded(self) -> set[str]:
        """Servers that may not post any more in this round: excluded before it, or by its flags."""
        suspects = {offence.offender for offence in self._books.offences.values()}
        servers = set(self.founding.network.servers)
        return self._books.virtual | {each for each in suspects & servers if self.board.is_excluded(each)}

    @property
    def offences(self) -> Sequence[Accused]:
        """What was found in this round, for metrics and people."""
        name = self.founding.network.name
        return [Accused(name(o.offender), o.kind, o.step, o.detail) for o in self._books.offences.values()]
