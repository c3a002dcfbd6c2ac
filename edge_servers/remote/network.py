"""An edge server put together from its node, its key and what the network was founded with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eth_account.signers.local import LocalAccount
from flwr.serverapp import Grid
from torch import nn

from chain.client.asking import web3_over_http
from chain.client.keys import address_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.signer.memory import SignedMemory
from chain.wire.address import Address
from clients.data import Dataset
from clients.evaluation import Scores
from clients.orders import vector_digest
from clients.vectors import Vector
from clients.wallet import KnownChain
from edge_servers.devices.link import DeviceLink
from edge_servers.devices.offloading import DataPaths
from edge_servers.errors import FederationError
from edge_servers.federation import Federation
from edge_servers.founding.network import LearningTask
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters, tensors_of
from edge_servers.founding.standing import Standing
from edge_servers.home import ServerParts
from edge_servers.leading import LedgerAccess
from edge_servers.learning.jury import jury_of
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.board import Clock
from edge_servers.ledger.chain_attempts import ChainAttempts
from edge_servers.ledger.chain_board import ChainBoard
from edge_servers.ledger.referee import Referee
from edge_servers.planning.proposal import make_planner
from edge_servers.recovery import recovered_report
from edge_servers.remote.chain import RemoteChain
from edge_servers.remote.ledger import RemoteLedger
from edge_servers.remote.sealing import RemoteSealer
from edge_servers.remote.watched import WatchedConnection
from edge_servers.replay.record import GradientReader, model_in, parameters_in
from edge_servers.report import RoundReport
from edge_servers.server import EdgeServer

_LOOK_S = 2.0
"""A server looks so often where it is told of no change"""
_POLL_S = 0.2
"""Between two questions to Flower for replies"""


class WatchingClock:
    """A clock whose rest ends when something changes at a node: what is waited for may be there."""

    def __init__(self, clock: Clock, connection: WatchedConnection) -> None:
        self._clock, self._connection = clock, connection

    def now(self) -> float:
        """Seconds of the epoch."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """At most so long; the clock beneath may say that it is time to stop."""
        self._connection.rest(seconds)
        self._clock.sleep(0.0)


@dataclass
class RemoteNetwork:
    """A network as a participant finds it at a node."""

    connection: WatchedConnection
    chain: RemoteChain
    founding: FoundingParameters

    @classmethod
    def connect(cls, url: str, registry: bytes, token: str = "") -> "RemoteNetwork":
        """Read what a network was founded with."""
        connection = WatchedConnection(web3_over_http(url, token), registry)
        chain = RemoteChain(connection)
        block = chain.block(FOUNDING_BLOCK)
        if block is None:
            raise FederationError(f"{url} has no founding block: is the network founded?")
        return cls(connection, chain, read_founding_parameters(parameters_in(block, chain)))

    def known_chain(self) -> KnownChain:
        """What a device is told when it joins."""
        first = self.chain.block(FOUNDING_BLOCK)
        if first is None:
            raise FederationError("the network is not founded yet")
        digest = vector_digest(model_in(first, self.founding, self.chain))
        servers = frozenset[bytes](self.founding.network.servers)
        founding = self.founding
        return KnownChain(self.chain.genesis, servers, first.header.hash, digest, founding.sizes, founding.work)

    def server_index(self, account: LocalAccount) -> int:
        """Which server this key is; `FederationError` if none."""
        return self.founding.network.server_index(address_of(account))


@dataclass
class RemoteHosted:
    """What one server stands on: implements `edge_servers.hosting.Hosted`."""

    accesses: list[LedgerAccess]
    standing: Standing
    remote: RemoteNetwork

    def recovered_report(
        self, server: EdgeServer, round_: int, scores: Scores | None, seconds: Mapping[str, float]
    ) -> RoundReport:
        """The report of a sealed round, from its block."""
        return recovered_report(server, self.remote.chain, self.remote.founding, round_, scores, seconds)

    def model(self, round_: int) -> Vector | None:
        """The model of a sealed round."""
        block = self.remote.chain.block(round_ + FOUNDING_BLOCK)
        return None if block is None else model_in(block, self.remote.founding, self.remote.chain)

    def close(self) -> None:
        """The node goes on without this server."""


def remote_federation(
    remote: RemoteNetwork,
    account: LocalAccount,
    memory: SignedMemory | None,
    grid: Grid,
    nodes: Mapping[int, int],
    dataset: Dataset,
    architecture: nn.Module,
    clock: Clock,
    rounds: int,
    data_paths: DataPaths,
) -> Federation:
    """One edge server with its devices, ready to run its rounds. `nodes`: the Flower node of each device."""
    founding = remote.founding
    if tensors_of(architecture) != founding.tensors:
        raise FederationError("the model that these settings give is not the one that the network was founded with")
    settings = replace(founding.settings, rounds=replace(founding.settings.rounds, rounds=rounds))
    index, address = remote.server_index(account), Address(address_of(account))
    ledger = RemoteLedger(remote.connection, remote.chain.genesis)
    jury = jury_of(dataset, settings, architecture, founding.root)
    checker = RoundChecker(GradientReader(founding, jury))
    attempts = ChainAttempts(ledger, {address: account}, clock, {} if memory is None else {address: memory})
    waiting = WatchingClock(clock, remote.connection)
    board = ChainBoard(ledger, checker.reader, {address: attempts.ledger_of(address)}, attempts, waiting, _LOOK_S)
    sealer = RemoteSealer(remote.chain, checker, attempts.ledger_of, waiting)
    access = LedgerAccess(board, Referee(board), sealer, attempts)
    hosted = RemoteHosted([access], sealer.standing_now(), remote)
    task = LearningTask(architecture, dataset.train, dataset.classes, jury)
    planner = make_planner(settings.rounds.planner, settings.data.seed, settings.data.devices)
    link = DeviceLink(grid, nodes, clock, _POLL_S)
    parts = ServerParts(index, founding.network, settings, task, access, link, hosted.standing, data_paths)
    server = EdgeServer(parts, planner)
    return Federation([server], dataset, settings, hosted)
