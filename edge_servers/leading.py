"""A server among servers: who leads the round, what it posts, whose post it waits for."""

from dataclasses import dataclass
from typing import Any

from edge_servers.errors import BoardError, LeaderFailedError
from edge_servers.founding.network import Network
from edge_servers.founding.standing import Standing
from edge_servers.ledger.board import Board, Slot
from edge_servers.ledger.conduct import WITHHELD, Conduct, Twice, honest
from edge_servers.ledger.oversight import Oversight
from edge_servers.ledger.ranking import ranked_leaders
from edge_servers.ledger.sealing import Sealer
from edge_servers.parameters import Settings


@dataclass(frozen=True)
class LedgerAccess:
    """Where a server stands: the board it posts on, who checks the others, and how rounds end."""

    board: Board
    oversight: Oversight
    sealer: Sealer


class RankedServer:
    """Server m's place in the network. Its station connects it with the other servers."""

    def __init__(
        self, index: int, network: Network, settings: Settings, station: LedgerAccess, standing: Standing
    ) -> None:
        self.index = index
        self.address = network.servers[index]
        self.network, self.settings = network, settings
        self.board, self.oversight, self.sealer = station.board, station.oversight, station.sealer
        self.standing = standing
        self.conduct: Conduct = honest
        self.failed: list[str] = []
        """Leaders that failed in this round, in their order."""

    @property
    def round(self) -> int:
        """The round this server is in or about to start."""
        return self.standing.round + 1

    @property
    def leaders(self) -> list[str]:
        """Who may lead this round, by rank (L14, P12)."""
        standing, excluded = self.standing, self.oversight.excluded() | set(self.standing.excluded)
        home = None if standing.winner is None else self.network.servers[self.network.devices[standing.winner].home]
        lawful = [server for server in self.network.servers if server not in excluded]
        return ranked_leaders(lawful, home, standing.block_hash, standing.tenure, self.settings.rounds.term_cap)

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
