"""A server among servers: which attempt it is at, who leads it, what it posts, whose post it waits for."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainError, DivergedError
from chain.wire.address import Address
from edge_servers.errors import AttemptOverError, BoardError, LeaderFailedError
from edge_servers.founding.network import DeviceRecord, Network
from edge_servers.founding.schedule import Schedule
from edge_servers.founding.standing import Standing
from edge_servers.ledger.attempts import Attempts
from edge_servers.ledger.board import Board, RoundSlot
from edge_servers.ledger.oversight import Oversight
from edge_servers.ledger.sealing import Sealer
from edge_servers.parameters import Settings

_LOG = logging.getLogger(__name__)
_PAUSE_S = 300.0
"""After so long without a majority a server that runs by a simulated clock gives up"""


@dataclass(frozen=True)
class LedgerAccess:
    """A server's way to the ledger: the board it posts on, who checks the others, how rounds end, what it signs."""

    board: Board
    oversight: Oversight
    sealer: Sealer
    attempts: Attempts


class RankedServer:
    """Server m's place among the servers, which its access to the ledger connects it with."""

    def __init__(
        self, index: int, network: Network, settings: Settings, access: LedgerAccess, standing: Standing
    ) -> None:
        self.index = index
        self.address = network.servers[index]
        self.network, self.settings, self.access = network, settings, access
        self.standing = standing
        self.attempt = 0
        """At the round it is in (D3.1)."""
        self.is_at_work = False
        """Whether it takes part in this attempt: it has neither given it up nor adopted a block of an earlier one."""
        self.ranking: list[Address] = []
        """Who may lead this round, in their order."""
        self.schedule = Schedule(0.0, settings.rounds)

    @property
    def round(self) -> int:
        """The round this server is in or about to start."""
        return self.standing.round + 1

    @property
    def board(self) -> Board:
        """Where it posts and reads."""
        return self.access.board

    @property
    def oversight(self) -> Oversight:
        """Who checks the other servers."""
        return self.access.oversight

    @property
    def sealer(self) -> Sealer:
        """How its rounds end."""
        return self.access.sealer

    @property
    def attempts(self) -> Attempts:
        """What it signs beside the ledger."""
        return self.access.attempts

    @property
    def serving(self) -> tuple[int, ...]:
        """By device, the server that orders it in this round (D6)."""
        return self.network.serving(self.oversight.dormant())

    @property
    def served(self) -> list[DeviceRecord]:
        """The devices that this server orders in this round: those whose home it is, or whose standby while their home
        is dormant; but for those that are set aside (R5).
        """
        aside = self.standing.reputation.aside(self.round)
        there = zip(self.network.devices, self.serving, strict=True)
        return [device for device, m in there if m == self.index and device.index not in aside]

    @property
    def leader(self) -> Address:
        """Address of the leader of this attempt."""
        if not self.ranking:
            raise BoardError(f"round {self.round}: no server may lead it, all are excluded")
        return self.ranking[self.attempt % len(self.ranking)]

    @property
    def leads(self) -> bool:
        """Whether this server leads the attempt."""
        return self.leader == self.address

    # --- attempts

    def begin_round(self) -> None:
        """A round begins, with attempt 0; or one goes on in which this server was stopped, with what it has signed."""
        self.ranking = self.attempts.ranking(self.standing)
        self.attempts.post_again(self.address, self.round)
        later = self.attempts.find_later(self.round, 0) or 0
        if later:
            self._say_it_is_there(later)
        self.begin_attempt(later)

    def begin_attempt(self, attempt: int) -> None:
        """The network is at an attempt; the others are watched from the model everyone has."""
        self.attempt, self.is_at_work = attempt, True
        self.schedule = Schedule(self.attempts.start_s(self.round, attempt), self.settings.rounds)
        self.oversight.begin(self.standing, attempt)

    def sign_what_is_sealed(self) -> None:
        """Whoever was killed between a block and the signatures under it signs it first: nobody works on it again.

        So does whoever gave up the attempt that ended the last round: the more signatures, the better a proof.
        """
        with suppress(ChainError):  # it is final without this one
            self.attempts.endorse_final(self.address, self.standing.round)
        if self.attempts.has_block(self.round, self.attempt):
            with suppress(ChainError):  # the others' signatures may do
                self.is_at_work = not self.attempts.endorse(self.address, self.round, self.attempt)

    def give_up(self, reason: Exception) -> None:
        """This attempt has failed for this server; the others may still bring it to an end."""
        self.is_at_work = False
        _LOG.info("server %d gives up attempt %d at round %d: %s", self.index, self.attempt, self.round, reason)

    def _waits_for_adoption(self) -> bool:
        """Whether the leader has signed the block of an earlier attempt, instead of a plan; then nobody works."""
        if self.attempt == 0:
            return False
        self.board.wait(
            lambda: self.leader in self.board.read(self._slot("plan")) or self._adopted() or self._is_over(),
            self.schedule.plan,
        )
        self.is_at_work = not self._adopted()
        return not self.is_at_work

    def _adopted(self) -> bool:
        return self.attempts.choice(self.round, self.attempt) is not None

    def hear_accusers(self) -> None:
        """A leader waits for the others' flags: one that is not in its block counts for nothing."""
        if self.leads:
            self.oversight.wait_for_flags(self.schedule.verify)

    def sign_block(self, until_s: float) -> None:
        """Sign the block that the leader has chosen (Q1), once it has; `LeaderFailedError` where it chooses none."""
        try:
            signed = self.board.wait(
                lambda: self.attempts.endorse(self.address, self.round, self.attempt) or self._is_over(), until_s
            )
        except DivergedError:
            raise
        except ChainError as error:  # the others' signatures may do
            _LOG.warning("server %d does not endorse round %d: %s", self.index, self.round, error)
            return
        if not signed:
            self.oversight.note_absent(self.leader, "seal")
            raise LeaderFailedError(
                self.leader, f"{self.network.name(self.leader)} had no block sealed and signed in its time"
            )

    def _is_over(self) -> bool:
        return self.attempts.is_over(self.round, self.attempt)

    def wait_until_final(self) -> bool:
        """Whether the round is final; whoever signed in this attempt gives the others time for theirs."""
        attempts = self.attempts
        if not attempts.has_signed(self.address, self.round, self.attempt):
            return attempts.is_final(self.round)
        self.board.wait(self._is_over, self.schedule.final)
        return attempts.is_final(self.round)

    def pass_on(self) -> None:
        """Sign that this server is done with the attempt (D3.2)."""
        if not self._is_over():
            self.attempts.pass_on(self.address, self.round, self.attempt + 1)

    def join_next(self) -> None:
        """Wait for a majority at a later attempt, or for a final block: without either the network pauses."""
        attempts, now = self.attempts, self.schedule.start_s
        if not self.board.wait(self._is_over, now + _PAUSE_S):
            raise BoardError(f"round {self.round}: no majority of the servers has come to another attempt")
        later = attempts.find_later(self.round, self.attempt)
        if later is not None:
            self._say_it_is_there(later)
            self.begin_attempt(later)

    def _say_it_is_there(self, attempt: int) -> None:
        """Whoever joins an attempt that others have begun passes to it as well: they wait only for those who have."""
        try:
            self.attempts.pass_on(self.address, self.round, attempt)
        except ChainError as error:
            _LOG.info("server %d does not pass to attempt %d: %s", self.index, attempt, error)

    # --- posts

    def _leaders_post(self, what: str, until_s: float) -> Any:
        """What the leader posted, or a `LeaderFailedError` when its time is over."""
        leader = self.leader
        if leader in self.oversight.excluded():
            raise LeaderFailedError(leader, f"{self.network.name(leader)} has been excluded, and posts nothing more")
        posts = self.board.wait_for(self._slot(what), [leader], until_s)
        if leader not in posts:
            self.oversight.note_absent(leader, what)
            raise LeaderFailedError(leader, f"{self.network.name(leader)} posted no {what} in its time")
        return posts[leader]

    def _slot(self, kind: str, step: int = 0) -> RoundSlot:
        """A slot of this attempt."""
        return RoundSlot(self.round, kind, step, self.attempt)

    def _publish(self, kind: str, body: Any, step: int = 0) -> Any:
        """Post `body` as this server's; returns what it goes on from."""
        return self.board.post(self._slot(kind, step), self.address, body)


ATTEMPT_ENDS = (LeaderFailedError, AttemptOverError)
"""Why a server leaves an attempt"""
