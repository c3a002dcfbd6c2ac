"""What a network of servers stands on: a board in this process, or nodes of a chain (`chain_hosting.py`)."""

from collections.abc import Sequence
from typing import Protocol

from clients.models import to_vector
from edge_servers.errors import FederationError
from edge_servers.founding.network import LearningTask, Network, simulated_address
from edge_servers.founding.standing import Standing
from edge_servers.leading import LedgerAccess
from edge_servers.ledger.board import Clock, InProcessBoard
from edge_servers.ledger.oversight import Trusting
from edge_servers.ledger.sealing import DrawnSealer, founding_hash
from edge_servers.parameters import Settings


class Hosting(Protocol):
    """Gives every participant an address, and every server a station."""

    def address(self, role: str, index: int) -> str:
        """The address of server m or device n."""

    def open(self, network: Network, task: LearningTask) -> tuple[Sequence[LedgerAccess], Standing]:
        """Found the network (the task has model 0) or go on with it: stations by server, and where it stands."""


class OffChain:
    """The schemes without a ledger (P21): one board for all, nobody checks, the winner is drawn."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        if settings.rounds.is_on_chain:
            raise FederationError(
                f"scheme: found {settings.rounds.scheme}, which runs on a chain, and there is none here; "
                "use `bfl simulate`, or a scheme without a chain such as consensus-no-chain"
            )
        self._settings, self._clock = settings, clock

    def address(self, role: str, index: int) -> str:
        """An address that follows from the seed: nobody signs."""
        return simulated_address(self._settings.data.seed, role, index)

    def open(self, network: Network, task: LearningTask) -> tuple[Sequence[LedgerAccess], Standing]:
        """One station for all servers."""
        seed, board = self._settings.data.seed, InProcessBoard(self._clock)
        oversight = Trusting(board, network, self._settings.rounds.filter)
        station = LedgerAccess(board, oversight, DrawnSealer(seed, network))
        return [station] * len(network.servers), Standing(0, to_vector(task.architecture), founding_hash(seed))
