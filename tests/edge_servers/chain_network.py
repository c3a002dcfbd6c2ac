"""A small network on a chain, for tests that run whole rounds and look into their blocks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bfl.attacks.conduct import Conduct
from bfl.attacks.devices import poison_device
from bfl.attacks.dishonest import AttackedHosting, DishonestBoard, disguise, post_nowhere
from bfl.attacks.text import read_attacks
from bfl.simulation.grid import Fault, InProcessGrid, SimulatedClock
from bfl.simulation.run_folder import metrics_of
from chain.errors import ChainError
from chain.node.node import Node
from chain.protocol.posts import SignedCall, read_signed_call
from chain.wire.address import Address
from chain.wire.blocks import Block, encode_block
from chain.wire.headers import Header
from clients.device import Device
from clients.models import Vector, network_for
from clients.parameters import DataParams, TrainingParams
from clients.wallet import Wallet
from edge_servers import round as algorithm_1
from edge_servers.chain_hosting import ChainHosting, HostedChain
from edge_servers.federation import Federation, found_federation
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.founding.simulated import START_S
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.board import RoundSlot
from edge_servers.ledger.chain_board import ChainBoard
from edge_servers.parameters import RoundParams, Settings
from edge_servers.replay.record import GradientReader, RoundRecord, model_in
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
    hosted: HostedChain
    clock: SimulatedClock
    grid: InProcessGrid

    # --- who

    @property
    def servers(self) -> list[EdgeServer]:
        return list(self.federation.servers)

    @property
    def devices(self) -> list[Device]:
        return self.grid.devices

    @property
    def wallets(self) -> list[Wallet]:
        return [device.wallet for device in self.devices if device.wallet is not None]

    @property
    def founding(self) -> FoundingParameters:
        return self.hosted.founding

    @property
    def node(self) -> Node:
        return self.hosted.nodes[0]

    @property
    def leader(self) -> int:
        """Who is first in rank for the round that comes."""
        return self.ranked[0]

    @property
    def ranked(self) -> list[int]:
        """Who may lead the round that comes, by rank."""
        server = self.servers[0]
        return [self.founding.network.server_index(each) for each in server.attempts.ranking(server.standing)]

    def key(self, server: int) -> Address:
        """A server's address as the chain has it."""
        return self.founding.network.servers[server]

    def board(self, server: int) -> ChainBoard:
        return chain_board(self.servers[server])

    # --- what was sealed

    def run(self, rounds: int = 1) -> list[RoundReport]:
        return [self.federation.run_round() for _ in range(rounds)]

    def walk(self, first: str, last: str) -> None:
        """A part of Algorithm 1, by hand: a round begins before its plan, and ends behind its seal."""
        if first == "plan":
            algorithm_1.begin(self.servers)
        names = [phase.__name__ for phase in algorithm_1.ALGORITHM_1]
        for phase in algorithm_1.ALGORITHM_1[names.index(first) : names.index(last) + 1]:
            phase(algorithm_1.at_work(self.servers))
        if last == "seal":
            assert algorithm_1.settle(self.servers)
            algorithm_1.finish(self.servers)

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
        return self.founding.network.server_index(self.header(round_).coinbase)

    def posts(self, round_: int) -> list[SignedCall]:
        return [read_signed_call(transaction, self.node.genesis) for transaction in self.block(round_).transactions]

    def calls(self, round_: int) -> list[str]:
        """What was called in a block, in its order."""
        return [post.call.name for post in self.posts(round_) if post.call is not None]

    def senders(self, round_: int) -> set[int]:
        """Servers that posted anything in a round."""
        found = {post.sender for post in self.posts(round_)}
        return {m for m, address in enumerate(self.founding.network.servers) if address in found}

    def record(self, round_: int) -> RoundRecord:
        statuses = [receipt.status for receipt in self.block(round_).receipts]
        return RoundRecord.of_block(round_, zip(self.posts(round_), statuses, strict=True), self.node)

    def model(self, round_: int) -> Vector:
        """The model that a block publishes."""
        return model_in(self.block(round_), self.founding, self.node)

    def replayed(self, round_: int, virtual: tuple[Address, ...] = ()) -> Replayed:
        """A round derived again from the chain alone, as an auditor does."""
        return replay_round(
            self.record(round_), Before(self.model(round_ - 1), None, virtual), GradientReader(self.founding)
        )


@contextmanager
def chain_network(
    devices: int = 6,
    attack: str = "",
    seed: int = 1,
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
    attacks = read_attacks(attack, settings.rounds.edges, devices)
    made = [
        poison_device(
            (kinds or {}).get(n, Device)(n, dataset.train, np.arange(n * SHARE, (n + 1) * SHARE), architecture),
            attacks,
            dataset.classes,
        )
        for n in range(devices)
    ]
    grid = InProcessGrid(made, faults=faults)
    attacked = AttackedHosting(hosting, attacks, settings)
    federation = found_federation(grid, settings, dataset, architecture, clock, grid.train, attacked)
    hosted = federation.hosted
    assert isinstance(hosted, HostedChain)
    try:
        grid.equip(hosted.wallets(hosting.account("device", n) for n in range(devices)))
        yield ChainNetwork(federation, hosting, hosted, clock, grid)
    finally:
        hosted.close()


def follower(network: ChainNetwork, checked: bool) -> Node:
    """Another node with all blocks but the last, that checks rounds or does not."""
    options = {"check_round": RoundChecker(GradientReader(network.founding))} if checked else {}
    node = Node.in_memory(network.node.genesis, now=network.clock.now, **options)
    node.sources.append(network.node)
    for round_ in range(network.node.head.block_number - 1):
        block = network.block(round_)
        node.import_block(encode_block(block.header, block.transactions))
    return node


def chain_board(server: EdgeServer) -> ChainBoard:
    """The board of a server, whatever it makes of what is posted on it."""
    board = server.board.board if isinstance(server.board, DishonestBoard) else server.board
    assert isinstance(board, ChainBoard)
    return board


def misbehave(server: EdgeServer, conduct: Conduct) -> None:
    """From now on the server behaves so; `honest` makes it honest again. A second post goes to its own node."""
    post_again = post_nowhere
    if server.settings.rounds.is_on_chain:
        board = chain_board(server)

        def post_again(slot: RoundSlot, body: Any) -> None:
            with suppress(ChainError):
                board.send(slot, body, board.ledger_of(server.address))

    server.access = disguise(server.access, server.address, conduct, post_again)


def only(kind: str, change: Callable[[Any], Any], *rounds: int) -> Conduct:
    """Honest apart from posts of one kind, in these rounds (all if none is named)."""

    def conduct(slot: RoundSlot, body: Any) -> Any:
        return change(body) if slot[1] == kind and (not rounds or slot[0] in rounds) else body

    return conduct


def with_fields(**changes: Any) -> Callable[[Any], Any]:
    """A post with other values in some of its fields."""
    return lambda body: replace(body, **changes)


def metrics_line(report: RoundReport) -> dict[str, Any]:
    """A report as metrics have it, without what no chain keeps: seconds, and details of refusals."""
    told = metrics_of(report)
    del told["seconds"]
    told["refused"] = [(refusal["node"], refusal["reason"]) for refusal in told["refused"]]
    return told


def recovered(network: ChainNetwork, round_: int) -> dict[str, Any]:
    return metrics_line(network.federation.recovered_report(round_))
