"""A server among servers: who leads the round, what it posts, whose post it waits for."""

from dataclasses import dataclass
from typing import Any

from chain.wire.address import Address
from edge_servers.errors import BoardError, LeaderFailedError
from edge_servers.founding.network import DeviceRecord, Network
from edge_servers.founding.standing import Standing
from edge_servers.ledger.board import Board, RoundSlot
from edge_servers.ledger.oversight import Oversight
from edge_servers.ledger.ranking import ranked_leaders
from edge_servers.ledger.sealing import Sealer
from edge_servers.parameters import Settings


@dataclass(frozen=True)
class LedgerAccess:
    """A server's way to the ledger: the board it posts on, who checks the others, and how rounds end."""

    board: Board
    oversight: Oversight
    sealer: Sealer


class RankedServer:
    """Server m's place among the servers, which its access to the ledger connects it with."""

    def __init__(
        self, index: int, network: Network, settings: Settings, access: LedgerAccess, standing: Standing
    ) -> None:
        self.index = index
        self.address = network.servers[index]
        self.network, self.settings, self.access = network, settings, access
        self.standing = standing
        self.failed: list[Address] = []
        """Leaders that failed in this round, in their order."""

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
    def cluster(self) -> list[DeviceRecord]:
        """The devices whose home this server is."""
        return self.network.cluster(self.index)

    @property
    def leaders(self) -> list[Address]:
        """Who may lead this round, by rank (L14, P12)."""
        standing, excluded = self.standing, self.oversight.excluded() | set(self.standing.excluded)
        home = None if standing.winner is None else self.network.servers[self.network.devices[standing.winner].home]
        lawful = [server for server in self.network.servers if server not in excluded]
        return ranked_leaders(lawful, home, standing.block_hash, standing.tenure, self.settings.rounds.term_cap)

    @property
    def leader(self) -> Address:
        """Address of the leader: the first in rank that has not failed."""
        for server in self.leaders:
            if server not in self.failed:
                return server
        raise BoardError(f"round {self.round}: no server is left to lead it; {len(self.failed)} have failed")

    @property
    def leads(self) -> bool:
        """Whether this server leads the round."""
        return self.leader == self.address

    def pass_turn(self, what: str, leader: Address) -> None:
        """The leader failed: drop what it posted, and wait until the next in rank may act."""
        self.failed.append(leader)
        self.board.drop(RoundSlot(self.round, what), leader)
        self.board.wait_turn(self.leaders.index(self.leader))

    def _leaders_post(self, what: str, wait_s: float) -> Any:
        """What the leader posted, or a `LeaderFailedError` when its time is over."""
        leader = self.leader
        posts = self.board.wait_for(RoundSlot(self.round, what), [leader], wait_s)
        if leader not in posts:
            self.oversight.note_missing(leader, what)
            raise LeaderFailedError(leader, f"{self.network.name(leader)} posted no {what} in its time")
        return posts[leader]

    def _publish(self, kind: str, body: Any, step: int = 0) -> Any:
        """Post `body` as this server's; returns what it goes on from."""
        return self.board.post(RoundSlot(self.round, kind, step), self.address, body)
