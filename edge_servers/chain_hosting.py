"""A network on the embedded chain (P2, P3, P21): keys, founding, nodes; one shared by all servers, or one for each."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount
from torch import nn

from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.errors import ChainError
from chain.node.access import EmptyNode, LocalLedger
from chain.node.following import Listener
from chain.node.node import Node
from chain.protocol.endorsements import Domain, decode_endorsement
from chain.protocol.genesis import Genesis, block_gas
from chain.protocol.passes import decode_pass
from chain.protocol.slots import MAX_STEP
from chain.protocol.turns import FOUNDING_BLOCK
from chain.store.database import IN_MEMORY, WRITE, Database
from chain.wire.address import Address
from chain.wire.sidecar import Sidecar
from clients.evaluation import Scores
from clients.models import Vector, to_vector
from clients.orders import vector_digest
from clients.wallet import FinalBlock, KnownChain, Wallet
from edge_servers.errors import FederationError
from edge_servers.founding.code import check_code, code_of
from edge_servers.founding.network import LearningTask, Network
from edge_servers.founding.parameters import FoundingParameters, read_founding_parameters, registry_terms, tensors_of
from edge_servers.founding.simulated import START_S, SimulatedKeys
from edge_servers.founding.standing import Standing
from edge_servers.leading import LedgerAccess
from edge_servers.learning.verdicts import Jury
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.board import Clock
from edge_servers.ledger.chain_attempts import ChainAttempts
from edge_servers.ledger.chain_board import ChainBoard
from edge_servers.ledger.chain_sealing import ChainSealer, standing_at
from edge_servers.ledger.referee import Referee
from edge_servers.parameters import RoundParams, Settings
from edge_servers.recovery import recovered_report
from edge_servers.replay.record import GradientReader, model_in
from edge_servers.replay.replay import model_payload
from edge_servers.report import RoundReport
from edge_servers.server import EdgeServer


@dataclass(frozen=True)
class HostedNode:
    """A node, and what checks the blocks that it takes."""

    node: Node
    checker: RoundChecker


@dataclass
class HostedChain:
    """A founded network on nodes of this process."""

    founding: FoundingParameters
    hosted: Sequence[HostedNode]
    accesses: list[LedgerAccess]
    standing: Standing

    @property
    def nodes(self) -> list[Node]:
        """One that all servers share, or one for each."""
        return [each.node for each in self.hosted]

    @property
    def checker(self) -> RoundChecker:
        """That of the first node."""
        return self.hosted[0].checker

    def close(self) -> None:
        """Give back the databases."""
        for node in self.nodes:
            node.close()

    def recovered_report(
        self, server: EdgeServer, round_: int, scores: Scores | None, seconds: Mapping[str, float]
    ) -> RoundReport:
        """The report of a sealed round, from its block."""
        return recovered_report(server, self.nodes[0], self.founding, round_, scores, seconds)

    def model(self, round_: int) -> Vector | None:
        """The model of a sealed round."""
        block = self.nodes[0].block(round_ + FOUNDING_BLOCK)
        return None if block is None else model_in(block, self.founding, self.nodes[0])

    def known_chain(self) -> KnownChain:
        """What a device is told when it joins."""
        node, founding = self.nodes[0], self.founding
        first = node.block(FOUNDING_BLOCK)
        if first is None:
            raise FederationError("the network is not founded yet")
        digest = vector_digest(model_in(first, founding, node))
        servers = frozenset[bytes](founding.network.servers)
        return KnownChain(node.genesis, servers, first.header.hash, digest, founding.sizes, founding.work)

    def wallets(self, accounts: Iterable[LocalAccount]) -> list[Wallet]:
        """Devices join: they know the network's founding block, or the last final one if it has run before."""
        chain, final = self.known_chain(), self.nodes[0].final
        return [Wallet(account, chain, FinalBlock(final.block_number, final.hash)) for account in accounts]


class ChainHosting:
    """Hosts a simulated network on nodes in this process; its keys follow from the seed and the parameters (P3)."""

    def __init__(self, settings: Settings, architecture: nn.Module, clock: Clock, folder: Path | None = None) -> None:
        self._settings, self._clock, self._folder = settings, clock, folder
        self._keys = SimulatedKeys(settings, tensors_of(architecture))
        self.account = cache(self._keys.account)

    def address(self, role: str, index: int) -> Address:
        """The address of server m, device n or the founder."""
        return Address(address_of(self.account(role, index)))

    def open(self, network: Network, task: LearningTask) -> HostedChain:
        """Found the network, or go on with the chain that is in the folder."""
        tensors = tensors_of(task.architecture)
        founding = FoundingParameters(
            self._settings,
            network,
            tensors,
            task.like.sample_bytes,
            code=code_of(self._settings),
            root="" if task.jury is None else task.jury.digest,
        )
        with ExitStack() as undo:
            hosted = self._open_nodes(founding, task.jury, undo)
            nodes = [each.node for each in hosted]
            if nodes[0].head.block_number == 0:
                self._found(nodes[0], founding, model_payload(to_vector(task.architecture), founding))
            _check_same(nodes[0], founding)
            latest_s = max(node.head.timestamp for node in nodes)
            self._clock.sleep(max(0.0, latest_s - self._clock.now()))  # or what others have would be from the future
            _catch_up(nodes)
            standing = standing_at(nodes[0], nodes[0].final, hosted[0].checker)
            opened = HostedChain(founding, hosted, self._accesses(hosted, founding), standing)
            undo.pop_all()
        return opened

    # --- nodes

    def _open_nodes(self, founding: FoundingParameters, jury: Jury | None, undo: ExitStack) -> list[HostedNode]:
        genesis, hosted = self._genesis(founding), []
        for number in range(self._settings.rounds.nodes):
            checker = RoundChecker(GradientReader(founding, jury))
            hosted.append(self._open_node(self._path(number), genesis, checker))
            undo.callback(hosted[-1].node.close)
        nodes = [each.node for each in hosted]
        for node in nodes:
            node.listeners += [_teller(other) for other in nodes if other is not node]
            node.sources += [other for other in nodes if other is not node]
        return hosted

    def _path(self, number: int) -> Path | None:
        return None if self._folder is None else self._folder / ("chain.db" if number == 0 else f"chain-{number}.db")

    def _open_node(self, path: Path | None, genesis: Genesis, checker: RoundChecker) -> HostedNode:
        kept = self._settings.rounds.kept_rounds
        options: dict[str, Any] = {"now": self._clock.now, "check_round": checker, "keep_payloads": kept}
        if path is None or not _is_begun(path):
            return HostedNode(Node.create(path or IN_MEMORY, genesis, **options), checker)
        node = Node.open(path, **options)
        if node.genesis != genesis:
            node.close()
            raise FederationError(f"{path} is the chain of another network: its settings are not those of this run")
        return HostedNode(node, checker)

    def _genesis(self, founding: FoundingParameters) -> Genesis:
        rounds = self._settings.rounds
        devices, servers = len(founding.network.devices), len(founding.network.servers)
        calls = 2 * devices + 2 * servers * (_most_steps(rounds) + 6) + 8
        return Genesis(
            chain_id=2**16 + int.from_bytes(self._keys.network[:4], "big") % 2**31,
            founder=str(self.address("founder", 0)),
            timestamp=START_S,
            gas_limit=block_gas(calls),
            difficulty=rounds.difficulty,
        )

    def _found(self, node: Node, founding: FoundingParameters, model: bytes) -> None:
        posts = Founding(
            homes_of(founding.network),
            founding.encode(),
            model,
            founding.payload_sizes,
            registry_terms(self._settings.rounds),
        )
        found_network(EmptyNode(node), self.account("founder", 0), posts)

    # --- the servers

    def _accesses(self, hosted: Sequence[HostedNode], founding: FoundingParameters) -> list[LedgerAccess]:
        """Each server's way to the ledger: over its own node, or over the one that all share."""
        servers = founding.network.servers
        if len(hosted) == 1:
            return [self._access(hosted[0], servers, founding)] * len(servers)
        return [self._access(own, [server], founding) for own, server in zip(hosted, servers, strict=True)]

    def _access(self, own: HostedNode, servers: Sequence[Address], founding: FoundingParameters) -> LedgerAccess:
        accounts = {each: self.account("server", founding.network.server_index(each)) for each in servers}
        ledger = LocalLedger(own.node)
        attempts = ChainAttempts(ledger, accounts, self._clock)
        ledgers = {each: attempts.ledger_of(each) for each in servers}
        board = ChainBoard(ledger, own.checker.reader, ledgers, attempts, self._clock)
        return LedgerAccess(board, Referee(board), ChainSealer(own.node, own.checker, self._clock), attempts)


def _check_same(node: Node, founding: FoundingParameters) -> None:
    """The chain in the folder must be the one that these settings found."""
    found = LocalLedger(node).parameters()
    if found != founding.encode():
        check_code(founding.settings, read_founding_parameters(found).code)
        raise FederationError("the chain's founding parameters are not those of this run")


def _catch_up(nodes: Sequence[Node]) -> None:
    """After a crash one node may have a block, or signatures of the last round, that another lacks."""
    best = max(nodes, key=lambda node: node.head.block_number)
    for node in nodes:
        for number in range(node.head.block_number + 1, best.head.block_number + 1):
            node.import_block(best.raw_block(number) or b"")
    votes = [node.votes(best.head.block_number - FOUNDING_BLOCK) for node in nodes]
    votes += [node.votes(best.head.block_number) for node in nodes]
    for endorsements, passes in votes:
        for node in nodes:
            for endorsement in endorsements:
                node.take_endorsement(endorsement)
            for given in passes:
                node.take_pass(given)


def homes_of(network: Network) -> dict[bytes, bytes]:
    """Home server of every participant; a server's is itself."""
    homes: dict[bytes, bytes] = {server: server for server in network.servers}
    return homes | {device.address: network.servers[device.home] for device in network.devices}


def _teller(other: Node) -> Listener:
    """Passes on what a node has accepted to another; what that one refuses is its own business."""

    def tell(kind: str, raw: bytes, sidecars: Sequence[Sidecar]) -> None:
        with suppress(ChainError):
            if kind == "transaction":
                other.submit(raw, sidecars)
            elif kind == "block":
                other.import_block(raw)
            elif kind == "pass":
                other.take_pass(decode_pass(raw, Domain.of(other.genesis)))
            else:
                other.take_endorsement(decode_endorsement(raw, Domain.of(other.genesis)))

    return tell


def _is_begun(path: Path) -> bool:
    """Whether there is a chain; a database without tables was killed before its block 0, and goes."""
    if not path.exists():
        return False
    database = Database(path, WRITE)
    try:
        if database.rows("SELECT name FROM sqlite_master LIMIT 1"):
            return True
    finally:
        database.close()
    path.unlink()
    return False


def _most_steps(rounds: RoundParams) -> int:
    return min(MAX_STEP, rounds.max_phi if rounds.is_auto_phi else rounds.first_phi)
