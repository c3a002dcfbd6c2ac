"""An edge server as a process of its own (D1): it takes the ServerApp task of its SuperLink, and runs its rounds."""

import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from eth_account.signers.local import LocalAccount
from flwr.serverapp import Grid

from bfl.config import check_code
from bfl.errors import BflError
from bfl.network.kits import UNUSED, EdgeKit
from bfl.network.parts import bind_address, read_secret
from bfl.network.status import METRICS
from bfl.simulation.run_folder import metrics_of
from chain.client.keys import address_of
from chain.errors import ChainError, DivergedError
from chain.protocol.endorsements import Domain
from chain.protocol.turns import FOUNDING_BLOCK
from chain.signer.memory import SignedMemory
from chain.wire.address import Address
from clients.data import Dataset, dataset_of
from clients.errors import FlowerAwayError
from clients.flower_tasks import Place
from clients.memory import keep_freed_memory
from clients.models import network_for
from edge_servers.devices.offloading import DataPaths
from edge_servers.errors import EdgeError
from edge_servers.federation import Federation, WallClock
from edge_servers.founding.network import LearningTask
from edge_servers.remote.door import FleetDoor
from edge_servers.remote.inbox import Inbox
from edge_servers.remote.network import RemoteNetwork, remote_federation
from edge_servers.remote.owed import Owed
from edge_servers.remote.relay import Relay, edge_api
from edge_servers.remote.superlink import SuperLinkGrid
from edge_servers.report import RoundReport
from edge_servers.strategy import EdgeStrategy, model_record

SIGNED = "signed.db"
Say = Callable[[str], None]
_LOG = logging.getLogger(__name__)
_AGAIN_S = 1.0
"""After trouble with its own node or SuperLink a server looks again"""
_NODE_S = 120.0
_LOOPBACK = "127.0.0.1"


class StoppedError(Exception):
    """Told to stop in the middle of a round; what is signed is on the disk."""


class StoppableClock(WallClock):
    """Nobody who waits has to be waited for."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def sleep(self, seconds: float) -> None:
        """Really wait, unless it is time to stop."""
        if self._stop.wait(seconds):
            raise StoppedError


class Devices:
    """The way to the devices of a server: a Grid, the Flower node of each device, and how it is (re)connected.
    `expect` hears how many bytes a reply has at most.
    """

    def __init__(
        self,
        grid: Grid,
        nodes: dict[int, int],
        connect: Callable[[], None],
        expect: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.grid, self.nodes, self.connect, self.expect = grid, nodes, connect, expect


@dataclass
class RunningServer:
    """What an edge server is made of, as long as its process lives."""

    remote: RemoteNetwork
    account: LocalAccount
    memory: SignedMemory
    devices: Devices
    dataset: Dataset
    architecture: torch.nn.Module
    rounds: int
    data_paths: DataPaths
    metrics: Path
    say: Say

    def run(self, stop: threading.Event) -> None:
        """Round after round; after trouble with the own node everything is read anew from its chain."""
        strategy: EdgeStrategy | None = None
        told = ""
        while not stop.is_set():
            try:
                strategy = strategy or self._start(StoppableClock(stop))
                if strategy.federation.round >= self.rounds:
                    return
                self._one_round(strategy)
            except StoppedError:
                return
            except DivergedError:
                raise  # started again, it looks again
            except (ChainError, EdgeError, FlowerAwayError) as error:
                if str(error) != told:
                    _LOG.warning("%s: %s", type(error).__name__, error)
                told, strategy = str(error), None
                stop.wait(_AGAIN_S)
                continue
            told = ""

    def _start(self, clock: StoppableClock) -> EdgeStrategy:
        self.devices.connect()
        federation = remote_federation(
            self.remote, self.account, self.memory, self.devices.grid, self.devices.nodes, self.dataset,
            self.architecture, clock, self.rounds, self.data_paths,
        )  # fmt: skip
        return EdgeStrategy(federation, self._tell)

    def _one_round(self, strategy: EdgeStrategy) -> None:
        federation: Federation = strategy.federation
        self.memory.round_began(federation.round + 1, float(self.remote.chain.final.timestamp))
        strategy.start(self.devices.grid, model_record(federation), num_rounds=federation.round + 1)

    def _tell(self, report: RoundReport) -> None:
        scores = "not evaluated" if report.scores is None else f"accuracy {100 * report.scores.accuracy:.2f} %"
        passed = f", {len(report.failed_leaders)} leaders passed over" if report.failed_leaders else ""
        self.say(
            f"round {report.round}: {scores}, {report.training_nodes} gradients, led by server {report.leader}{passed}"
        )
        for line in dict.fromkeys(f"{o.name} was absent" if o.is_absence else o.detail for o in report.offences):
            self.say(f"round {report.round}: {line}")
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics_of(report)) + "\n")


def run_edge_server(kit: EdgeKit, account: LocalAccount, stop: threading.Event, say: Say) -> None:
    """Until it is stopped, or its rounds are done."""
    config, place = kit.config, Place(
        f"{_LOOPBACK}:{kit.config.link_port}", read_secret(kit.folder), kit.tls.authority.read_bytes()
    )  # fmt: skip
    keys = {each.index: each.flower_key.encode() for each in config.devices}
    owed = Owed()
    door = FleetDoor(f"https://{place.address}", kit.tls.authority, owed, keys.values())
    grid = SuperLinkGrid(place, keys, owed, door.announce, handed_in=door.handed_in)
    with closing(grid), door.server(bind_address(config.address), config.devices_port, kit.tls) as url:
        say(f"devices come to {url}")
        serve(kit, account, Devices(grid, grid.nodes, grid.connect, owed.expect), stop, say)


def serve(kit: EdgeKit, account: LocalAccount, devices: Devices, stop: threading.Event, say: Say) -> None:
    """Run an edge server whose devices come this way."""
    remote = _connect(kit, stop)
    index = remote.server_index(account)
    check_code(remote.founding.settings, kit.config.allow_plugins, f"the founding of {kit.config.network}")
    dataset, architecture = _task(remote, kit.config.data_dir)
    network, domain, config = remote.founding.network, Domain.of(remote.chain.genesis), kit.config
    task = LearningTask(architecture, dataset.train, dataset.classes)
    inbox = Inbox(index, account, network, task, domain, time.monotonic)
    devices.expect(max(inbox.most_bytes, remote.founding.payload_sizes.gradient))
    places = {network.server_index(Address(each.key_address)): each.edge_url for each in config.peers}
    relay = Relay(index, inbox, places, network, domain, kit.tls, StoppableClock(stop).sleep)
    api = edge_api(inbox, network, domain.chain_id, bind_address(config.address), config.edge_port, kit.tls)
    with closing(relay), api, _memory(kit, account, remote) as memory:
        beside = sum(device.standby == index for device in network.devices)
        say(f"{config.name} is server {index}, home of {len(network.cluster(index))} devices, standby of {beside}")
        rounds, metrics = config.rounds or 1 << 31, kit.folder / METRICS
        server = RunningServer(remote, account, memory, devices, dataset, architecture, rounds, relay, metrics, say)
        server.run(stop)


def _connect(kit: EdgeKit, stop: threading.Event) -> RemoteNetwork:
    """At the owner's door of its own node, which may still be starting."""
    url, end, last = f"http://{_LOOPBACK}:{kit.config.owner_port}", time.monotonic() + _NODE_S, ""
    while not stop.is_set() and time.monotonic() < end:
        try:
            remote = RemoteNetwork.connect(url, bytes.fromhex(kit.config.registry.removeprefix("0x")))
        except ChainError as error:
            last = str(error)
            stop.wait(_AGAIN_S / 2)
            continue
        founded = remote.chain.block(FOUNDING_BLOCK)
        if founded is None or "0x" + founded.header.hash.hex() != kit.config.founding_block:
            raise BflError(f"{url} is a node of another network than this kit's")
        return remote
    raise BflError(f"{url} does not answer: {last}; is the node of this machine running?")


def _memory(kit: EdgeKit, account: LocalAccount, remote: RemoteNetwork) -> SignedMemory:
    """Its `signed.db`. A kit that was never started begins one that may sign at once, on a chain as new as it (D5)."""
    unused = kit.folder / UNUSED
    path, address = kit.folder / SIGNED, address_of(account)
    is_new = unused.exists() and not path.exists() and remote.chain.head.block_number == FOUNDING_BLOCK
    memory = SignedMemory.open(path, address, remote.connection.chain_id, is_new, clock=WallClock().now)
    unused.unlink(missing_ok=True)  # after the memory is there: a kit that was interrupted here waits for a round
    return memory


def _task(remote: RemoteNetwork, data_dir: str) -> tuple[Dataset, Any]:
    keep_freed_memory()
    torch.set_num_threads(1)
    data = remote.founding.settings.data
    dataset = dataset_of(data, data_dir)
    return dataset, network_for(dataset, remote.founding.settings.training, data.seed)
