"""What a network of servers stands on: a board in this process, or nodes of a chain (`chain_hosting.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from chain.wire.address import Address
from clients.evaluation import Scores
from clients.models import Vector, to_vector
from edge_servers.errors import BoardError, FederationError
from edge_servers.founding.network import LearningTask, Network, simulated_address
from edge_servers.founding.standing import Standing
from edge_servers.leading import LedgerAccess
from edge_servers.ledger.attempts import OneAttempt
from edge_servers.ledger.board import InProcessBoard
from edge_servers.ledger.oversight import Trusting
from edge_servers.ledger.sealing import DrawnSealer, founding_hash
from edge_servers.parameters import Settings
from edge_servers.report import RoundReport
from edge_servers.server import EdgeServer


class Hosted(Protocol):
    """A founded network that this process hosts."""

    accesses: list[LedgerAccess]
    """Each server's way to the ledger, by number."""
    standing: Standing
    """Where the network stood when it was opened."""

    def recovered_report(
        self, server: EdgeServer, round_: int, scores: Scores | None, seconds: Mapping[str, float]
    ) -> RoundReport:
        """The report of a sealed round, from its block."""

    def model(self, round_: int) -> Vector | None:
        """The model of a sealed round."""

    def close(self) -> None:
        """Give back what is open."""


class Hosting(Protocol):
    """How a network is hosted: gives every participant an address, then founds the network or goes on with it."""

    def address(self, role: str, index: int) -> Address:
        """The address of server m or device n."""

    def open(self, network: Network, task: LearningTask) -> Hosted:
        """Found the network (the task has model 0), or go on with what is there of it."""


@dataclass
class HostedBoard:
    """A network without a ledger: nothing is open but memory."""

    accesses: list[LedgerAccess]
    standing: Standing

    def recovered_report(
        self, server: EdgeServer, round_: int, scores: Scores | None, seconds: Mapping[str, float]
    ) -> RoundReport:
        """There are no blocks to read it from."""
        raise BoardError(f"round {round_} has left no block")

    def model(self, round_: int) -> Vector | None:
        """There are no blocks to read it from."""
        return None

    def close(self) -> None:
        """There is nothing to give back."""


class OffChain:
    """The schemes without a ledger (P21): one board for all, nobody checks, the winner is drawn."""

    def __init__(self, settings: Settings) -> None:
        if settings.rounds.is_on_chain:
            raise FederationError(
                f"scheme: found {settings.rounds.scheme}, which runs on a chain, and there is none here; "
                "use `bfl simulate`, or a scheme without a chain such as consensus-no-chain"
            )
        self._settings = settings

    def address(self, role: str, index: int) -> Address:
        """An address that follows from the seed: nobody signs."""
        return simulated_address(self._settings.data.seed, role, index)

    def open(self, network: Network, task: LearningTask) -> HostedBoard:
        """One board, which all servers share."""
        seed, board = self._settings.data.seed, InProcessBoard()
        oversight = Trusting(board, network, self._settings.rounds.filter)
        attempts = OneAttempt(network, self._settings.rounds.term_cap)
        access = LedgerAccess(board, oversight, DrawnSealer(seed, network), attempts)
        standing = Standing(0, to_vector(task.architecture), founding_hash(seed))
        return HostedBoard([access] * len(network.servers), standing)
