"""Who checks what servers and devices post: nobody (`Trusting`, the schemes without a chain), or a referee."""

from collections.abc import Collection, Sequence
from typing import Protocol

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.models import Vector
from edge_servers.errors import BoardError
from edge_servers.founding.network import Network
from edge_servers.founding.standing import Standing
from edge_servers.learning.aggregation import FixedPoint
from edge_servers.learning.filters import make_filters
from edge_servers.learning.gradients import Close, Gradient, Refusal
from edge_servers.learning.reputation import filtered_senders
from edge_servers.learning.verdicts import judged_before
from edge_servers.ledger.board import Board, RoundSlot
from edge_servers.replay.offences import Offence


class Oversight(Protocol):
    """What a server asks of whoever checks the others, in the order of a round."""

    def begin(self, standing: Standing, attempt: int) -> None:
        """An attempt at the next round starts from where everybody stands; the excluded post nothing (P14)."""

    def check_plan(self, plan: Plan, leader: Address) -> None:
        """Raise `LeaderFailedError` for a plan the network does not allow."""

    def gradients(self) -> tuple[dict[Address, Gradient], list[Refusal]]:
        """The gradients that may count, by sender, and those that may not."""

    def counted(self, close: Close, leader: Address, until_s: float) -> list[Gradient]:
        """What the closed list makes count, filtered; `LeaderFailedError` for a list no honest leader posts, or one
        whose gradients are not all here by the deadline.
        """

    def expected(self) -> Collection[Address]:
        """Servers whose posts are waited for: all but the excluded and the dormant (D3.7)."""

    def dormant(self) -> Collection[Address]:
        """Servers that are dormant in this round: their devices come to their standbys (D6)."""

    def iterate(self, server: int, step: int, until_s: float) -> FixedPoint:
        """A server's iterate, repaired where it is wrong or missing."""

    def iterates(self, step: int) -> list[FixedPoint]:
        """All servers' iterates of a step, repaired."""

    def check_all_iterates(self, until_s: float) -> None:
        """Look at every iterate of everybody, also those no neighbour asked for."""

    def check_model(self, model: Vector, leader: Address) -> None:
        """Raise `LeaderFailedError` for a model that does not follow."""

    def note_absent(self, leader: Address, kind: str) -> None:
        """A leader posted nothing in its time: no offence (D3.6)."""

    def accuse(self, server: Address) -> None:
        """Post `server`'s flags for whatever has been found (P15)."""

    def wait_for_flags(self, until_s: float) -> None:
        """Let the others accuse whom this server has found out, before a block is built."""

    def excluded(self) -> set[Address]:
        """Servers that may not post any more in this round."""

    @property
    def offences(self) -> Sequence[Offence]:
        """What was found in this round."""

    @property
    def filtered(self) -> tuple[int, ...]:
        """Devices whose gradients count as taken out by a filter in this round (R1)."""


class Trusting:
    """Believes whatever is on the board; a server that posts no iterate stops the round."""

    offences: Sequence[Offence] = ()
    filtered: tuple[int, ...] = ()

    def __init__(self, board: Board, network: Network, filter_text: str) -> None:
        self._board, self._network = board, network
        self._filters = make_filters(filter_text)
        self._round, self._planned_samples = 0, 0

    def begin(self, standing: Standing, attempt: int) -> None:
        """A new round starts."""
        self._round, self.filtered = standing.round + 1, ()

    def check_plan(self, plan: Plan, leader: Address) -> None:
        """Any plan is believed."""
        self._planned_samples = sum(plan.samples)

    def gradients(self) -> tuple[dict[Address, Gradient], list[Refusal]]:
        """Everything on the board; it was checked on admission."""
        return self._board.read(RoundSlot(self._round, "gradient")), []

    def counted(self, close: Close, leader: Address, until_s: float) -> list[Gradient]:
        """The accepted gradients, filtered: over the list that the leader filtered, so that Krum runs once (P7)."""
        gradients = list(self._board.read(RoundSlot(self._round, "gradient")).values())
        told = judged_before([(refusal.node, refusal.reason) for refusal in close.refused])
        result = self._filters(gradients, told)
        senders = filtered_senders(gradients, result.removed, self._planned_samples)
        self.filtered = self._network.device_numbers(senders)
        return [gradient for gradient in result.kept if gradient.sender in close.accepted]

    def expected(self) -> Collection[Address]:
        """All of them."""
        return self._network.servers

    def dormant(self) -> Collection[Address]:
        """Nobody keeps books."""
        return ()

    def iterate(self, server: int, step: int, until_s: float) -> FixedPoint:
        """What the server posted."""
        slot, sender = RoundSlot(self._round, "iterate", step), self._network.servers[server]
        posts = self._board.wait_for(slot, [sender], until_s)
        if sender not in posts:
            raise BoardError(f"server {server} did not post {slot}")
        x: FixedPoint = posts[sender]
        return x

    def iterates(self, step: int) -> list[FixedPoint]:
        """What all servers posted."""
        return list(self._board.read(RoundSlot(self._round, "iterate", step)).values())

    def check_all_iterates(self, until_s: float) -> None:
        """Nobody looks."""

    def check_model(self, model: Vector, leader: Address) -> None:
        """Any model is believed."""

    def note_absent(self, leader: Address, kind: str) -> None:
        """Nobody keeps books."""

    def wait_for_flags(self, until_s: float) -> None:
        """Nobody flags."""

    def accuse(self, server: Address) -> None:
        """Nobody accuses."""

    def excluded(self) -> set[Address]:
        """Nobody is excluded."""
        return set()
