"""A network on the embedded chain (P2, P3, P21): keys, founding, nodes; one shared by all servers, or one for each."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount
from torch import nn

from chain.client.founding import Founding, found_network
from chain.client.keys import address_of, simulated_account
from chain.errors import ChainError
from chain.node.access import EmptyNode
from chain.node.local_ledger import LocalLedger
from chain.node.node import Node
from chain.protocol.contract import RegistryTerms, size_class
from chain.protocol.genesis import Genesis, block_gas
from chain.protocol.slots import MAX_STEP
from chain.protocol.turns import Membership
from chain.store.database import IN_MEMORY, WRITE, Database
from chain.wire.codec import encoded_size
from chain.wire.documents import canonical_json
from clients.models import to_vector
from clients.orders import vector_digest
from clients.wallet import Chain, Wallet
from edge_servers.errors import FederationError
from edge_servers.founding.network import LearningTask, Network
from edge_servers.founding.parameters import FoundingParameters, founding_settings, tensors_of
from edge_servers.founding.standing import Standing
from edge_servers.leading import LedgerAccess
from edge_servers.ledger.block_check import NodeHistory, RoundChecker
from edge_servers.ledger.board import Clock, InProcessBoard
from edge_servers.ledger.chain_board import LedgerBoard
from edge_servers.ledger.chain_sealing import ChainSealer, standing_of
from edge_servers.ledger.referee import Referee
from edge_servers.parameters import RoundParams, Settings
from edge_servers.replay.block_record import model_in
from edge_servers.replay.record import text
from edge_servers.replay.replay import model_payload

START_S = 1_700_000_000
"""When simulated networks are founded."""
_PLAN_BYTES = 200
"""Of a plan, per device, at most"""


class ChainHosting:
    """The nodes of a simulated network, and the keys of everybody in it."""

    def __init__(self, settings: Settings, architecture: nn.Module, clock: Clock, folder: Path | None = None) -> None:
        self._settings, self._clock, self._folder = settings, clock, folder
        named = canonical_json({"settings": founding_settings(settings), "tensors": tensors_of(architecture)})
        self._named = hashlib.sha256(named).digest()
        self.nodes: list[Node] = []
        self.checkers: list[RoundChecker] = []
        self.founding: FoundingParameters | None = None
        self.account = cache(self._account)

    def _account(self, role: str, index: int) -> LocalAccount:
        return simulated_account(self._named, f"{role} {index}")

    def address(self, role: str, index: int) -> str:
        """The address of a key that follows from the seed and the parameters (P3)."""
        return text(address_of(self.account(role, index)))

    def open(self, network: Network, task: LearningTask) -> tuple[Sequence[LedgerAccess], Standing]:
        """Found the network, or go on with the chain that is in the folder."""
        founding = FoundingParameters(self._settings, network, tensors_of(task.architecture), task.like.sample_bytes)
        with ExitStack() as undo:
            undo.callback(self.close)
            opened = self._opened(founding, model_payload(to_vector(task.architecture), founding))
            undo.pop_all()
        return opened

    def _opened(self, founding: FoundingParameters, model: bytes) -> tuple[Sequence[LedgerAccess], Standing]:
        self.checkers = self._open_nodes(founding)
        if self.nodes[0].head.block_number == 0:
            self._found(founding, model)
        self._check_same(founding)
        latest_s = max(node.head.timestamp for node in self.nodes)
        self._clock.sleep(max(0.0, latest_s - self._clock.now()))  # or what others have would be from the future
        self._catch_up()
        self.founding = founding
        standing = standing_of(self.nodes[0], founding, self.checkers[0])
        return self._stations(founding), standing

    def close(self) -> None:
        """Give back the databases."""
        for node in self.nodes:
            node.close()

    # --- nodes

    def _open_nodes(self, founding: FoundingParameters) -> list[RoundChecker]:
        genesis = self._genesis(founding)
        checkers = []
        for number in range(self._settings.rounds.nodes):
            node, checker = self._node(self._path(number), genesis, founding)
            self.nodes.append(node)
            checkers.append(checker)
        for node in self.nodes:
            node.listeners.append(_teller([other for other in self.nodes if other is not node]))
        return checkers

    def _path(self, number: int) -> Path | None:
        return None if self._folder is None else self._folder / ("chain.db" if number == 0 else f"chain-{number}.db")

    def _node(self, path: Path | None, genesis: Genesis, founding: FoundingParameters) -> tuple[Node, RoundChecker]:
        checker = RoundChecker(founding, history := NodeHistory(founding))
        options: dict[str, Any] = {"now": self._clock.now, "check_round": checker}
        if path is not None and _is_begun(path):
            node = Node.open(path, **options)
            if node.genesis != genesis:
                node.close()
                raise FederationError(f"{path} is the chain of another network: its settings are not those of this run")
        else:
            node = Node.create(path or IN_MEMORY, genesis, **options)
        history.follow(node, checker)
        return node, checker

    def _genesis(self, founding: FoundingParameters) -> Genesis:
        rounds, payload_bytes = self._settings.rounds, _payload_bytes(founding)
        devices, servers = len(founding.network.devices), len(founding.network.servers)
        calls = 2 * devices + 2 * servers * (_most_steps(rounds) + 6) + 8
        return Genesis(
            chain_id=2**16 + int.from_bytes(self._named[:4], "big") % 2**31,
            founder=self.address("founder", 0),
            timestamp=START_S,
            gas_limit=block_gas(calls, payload_bytes, size_class(payload_bytes)),
            difficulty=rounds.difficulty,
        )

    def _found(self, founding: FoundingParameters, model: bytes) -> None:
        rounds, network = self._settings.rounds, founding.network
        terms = RegistryTerms(
            term_cap=rounds.term_cap,
            turn_s=rounds.turn_s,
            flag_window=rounds.flag_window,
            exclusion_rounds=rounds.exclusion_rounds,
        )
        posts = Founding(_homes(network), founding.encode(), model, _payload_bytes(founding), terms)
        found_network(EmptyNode(self.nodes[0]), self.account("founder", 0), posts)

    def _check_same(self, founding: FoundingParameters) -> None:
        """The chain in the folder must be the one that these settings found."""
        found = LocalLedger(self.nodes[0]).parameters()
        if found != founding.encode():
            raise FederationError("the chain's founding parameters are not those of this run")

    def _catch_up(self) -> None:
        """After a crash one node may have a block that another lacks."""
        best = max(self.nodes, key=lambda node: node.head.block_number)
        for node in self.nodes:
            for number in range(node.head.block_number + 1, best.head.block_number + 1):
                node.import_block(best.raw_block(number) or b"")

    # --- stations

    def _stations(self, founding: FoundingParameters) -> list[LedgerAccess]:
        beside = InProcessBoard(self._clock)
        ledgers = [LocalLedger(node) for node in self.nodes]
        stations: list[LedgerAccess] = []
        for m, server in enumerate(founding.network.servers):
            own = m if len(self.nodes) > 1 else 0
            if own < len(stations) and len(self.nodes) == 1:
                stations.append(stations[0])
                continue
            hosted = [server] if len(self.nodes) > 1 else list(founding.network.servers)
            accounts = {each: self.account("server", founding.network.server_index(each)) for each in hosted}
            others = [ledger for ledger in ledgers if ledger is not ledgers[own]]
            board = LedgerBoard(ledgers[own], founding, accounts, self._clock, beside, others)
            sealer = ChainSealer(self.nodes[own], founding, self._clock)
            stations.append(LedgerAccess(board, Referee(board), sealer))
        return stations

    def admit(self, wallets: Iterable[Wallet]) -> None:
        """Devices join the network: they know its founding block, or its head if it has run before."""
        chain, head = self.chain(), self.nodes[0].head.hash
        for wallet in wallets:
            wallet.join(chain, head)

    def chain(self) -> Chain:
        """What a device is told when it joins."""
        node, founding = self.nodes[0], self.founding
        first = node.block(1)
        if founding is None or first is None:
            raise FederationError("the network is not founded yet")
        rounds, network = self._settings.rounds, founding.network
        membership = Membership(_homes(network), rounds.term_cap, rounds.turn_s)
        model = model_in(first, founding)
        return Chain(node.genesis, membership, first.header.hash, vector_digest(model), founding.sizes)


def _homes(network: Network) -> dict[bytes, bytes]:
    """Home server of every participant; a server's is itself."""
    servers = [bytes.fromhex(server[2:]) for server in network.servers]
    devices = {bytes.fromhex(device.address[2:]): servers[device.home] for device in network.devices}
    return {server: server for server in servers} | devices


def _teller(others: Sequence[Node]) -> Callable[[str, bytes], None]:
    """Passes on what a node has accepted; what another refuses is that one's business."""

    def tell(kind: str, raw: bytes) -> None:
        for other in others:
            try:
                other.submit(raw) if kind == "transaction" else other.import_block(raw)
            except ChainError:
                continue

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


def _payload_bytes(founding: FoundingParameters) -> int:
    """The largest post of a round: a model, an iterate, or the plan."""
    return max(encoded_size(founding.sizes, "fp32"), 4096 + _PLAN_BYTES * len(founding.network.devices))


def _most_steps(rounds: RoundParams) -> int:
    return min(MAX_STEP, rounds.max_phi if rounds.is_auto_phi else rounds.first_phi)
