"""A small network on a chain, for tests that run whole rounds and look into their blocks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bfl.attacks.conduct import Conduct, conduct_of
from bfl.attacks.devices import poison_device
from bfl.attacks.text import read_attacks
from bfl.simulation.grid import Fault, InProcessGrid, SimulatedClock
from chain.node.node import Node
from chain.protocol.consensus import SignedCall, read_signed_call
from chain.wire.blocks import Block
from chain.wire.headers import Header
from clients.device import Device
from clients.models import Vector, network_for
from clients.parameters import DataParams, TrainingParams
from clients.wallet import Wallet
from edge_servers.chain_hosting import START_S, ChainHosting
from edge_servers.federation import Federation, found_federation
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.ledger.board import Slot
from edge_servers.ledger.chain_board import LedgerBoard
from edge_servers.parameters import RoundParams, Settings
from edge_servers.replay.block_record import model_in, record_of
from edge_servers.replay.record import RoundRecord
from edge_servers.replay.replay import Before, Replayed, replay_round
from edge_servers.report import RoundReport
from edge_servers.server import EdgeServer
from tests.edge_servers.small_network import small_dataset

GROUND: dict[str, Any] = {
    "rounds": 40, "scheme": "bfl", "planner": "fixed:0", "filter": "none", "deadline_s": 30.0, "difficulty": 4,
    "phi": "2",
}  # fmt: skip
SHARE = 40


@dataclass(frozen=True)
class ChainNetwork:
    """The hosted servers, their nodes, and everybody's keys."""

    federation: Federation
    hosting: ChainHosting
    clock: SimulatedClock
    devices: list[Device]
    wallets: list[Wallet]

    # --- who

    @property
    def servers(self) -> list[EdgeServer]:
        return list(self.federation.servers)

    @property
    def founding(self) -> FoundingParameters:
        assert self.hosting.founding is not None
        return self.hosting.founding

    @property
    def node(self) -> Node:
        return self.hosting.nodes[0]

    @property
    def leader(self) -> int:
        """Who is first in rank for the round that comes."""
        return next(server.index for server in self.servers if server.leads)

    @property
    def ranked(self) -> list[int]:
        """Who may lead the round that comes, by rank."""
        return [self.founding.network.server_index(each) for each in self.servers[0].leaders]

    def key(self, server: int) -> bytes:
        """A server's address as the chain has it."""
        return bytes.fromhex(self.founding.network.servers[server][2:])

    def board(self, server: int) -> LedgerBoard:
        board = self.servers[server].board
        assert isinstance(board, LedgerBoard)
        return board

    # --- what was sealed

    def run(self, rounds: int = 1) -> list[RoundReport]:
        return [self.federation.run_round() for _ in range(rounds)]

    def block(self, round_: int) -> Block:
        """Round k is block k + 1 (P1)."""
        block = self.node.block(round_ + 1)
        assert block is not None
        return block

    def header(self, round_: int) -> Header:
        return self.block(round_).header

    def waited_s(self, round_: int) -> int:
        """How long after its parent a round's block is."""
        return self.header(round_).timestamp - self.header(round_ - 1).timestamp

    def leader_of(self, round_: int) -> int:
        """Who built a round's block."""
        return self.founding.network.server_index("0x" + self.header(round_).coinbase.hex())

    def posts(self, round_: int) -> list[SignedCall]:
        return [read_signed_call(transaction, self.node.genesis) for transaction in self.block(round_).transactions]

    def calls(self, round_: int) -> list[str]:
        """What was called in a block, in its order."""
        return [post.call.name for post in self.posts(round_) if post.call is not None]

    def senders(self, round_: int) -> set[int]:
        """Servers that posted anything in a round."""
        found = {"0x" + post.sender.hex() for post in self.posts(round_)}
        return {m for m, address in enumerate(self.founding.network.servers) if address in found}

    def record(self, round_: int) -> RoundRecord:
        statuses = [receipt.status for receipt in self.block(round_).receipts]
        return record_of(round_, zip(self.posts(round_), statuses, strict=True))

    def model(self, round_: int) -> Vector:
        """The model that a block publishes."""
        return model_in(self.block(round_), self.founding)

    def replayed(self, round_: int, virtual: tuple[str, ...] = ()) -> Replayed:
        """A round derived again from the chain alone, as an auditor does."""
        return replay_round(self.record(round_), Before(self.model(round_ - 1), None, virtual), self.founding)


@contextmanager
def chain_network(
    devices: int = 6,
    attack: str = "",
    seed: int = 0,
    faults: Mapping[int, Fault] | None = None,
    kinds: Mapping[int, type[Device]] | None = None,
    folder: Path | None = None,
    hidden: str = "4",
    **rounds: Any,
) -> Iterator[ChainNetwork]:
    """Devices with 40 images each over three servers, as `bfl simulate` makes them; device 0 offloads to its home."""
    settings = Settings(
        RoundParams(**{**GROUND, **rounds}),
        DataParams(devices=devices, data_per_round="all", seed=seed),
        TrainingParams(hidden=hidden, iterations=2, batch=10),
    )
    dataset = small_dataset()
    architecture = network_for(dataset, settings.training, seed)
    clock = SimulatedClock(START_S)
    hosting = ChainHosting(settings, architecture, clock, folder)
    try:
        wallets = [Wallet(hosting.account("device", n)) for n in range(devices)]
        attacks = read_attacks(attack, settings.rounds.edges, devices)
        made = [
            poison_device(
                (kinds or {}).get(n, Device)(
                    n, dataset.train, np.arange(n * SHARE, (n + 1) * SHARE), architecture, wallet=wallet
                ),
                attacks,
                dataset.classes,
            )
            for n, wallet in enumerate(wallets)
        ]
        grid = InProcessGrid(made, faults=faults)
        federation = found_federation(grid, settings, dataset, architecture, clock, grid.train, hosting)
        for server in federation.servers:
            server.conduct = conduct_of(attacks, server.index, settings, server.network.name)
        hosting.admit(wallets)
        yield ChainNetwork(federation, hosting, clock, made, wallets)
    finally:
        hosting.close()


def only(kind: str, change: Callable[[Any], Any], *rounds: int) -> Conduct:
    """Honest apart from posts of one kind, in these rounds (all if none is named)."""

    def conduct(slot: Slot, body: Any) -> Any:
        return change(body) if slot[1] == kind and (not rounds or slot[0] in rounds) else body

    return conduct


def with_fields(**changes: Any) -> Callable[[Any], Any]:
    """A post with other values in some of its fields."""
    return lambda body: replace(body, **changes)
