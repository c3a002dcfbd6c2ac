"""A small network on made-up data, for tests that run whole rounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bfl.simulation.grid import Fault, InProcessGrid, SimulatedClock
from clients.consent import Consent
from clients.data import Dataset, Samples
from clients.device import Device
from clients.models import network_for
from clients.parameters import DataParams, TrainingParams
from clients.wallet import Wallet
from edge_servers.chain_hosting import ChainHosting, HostedChain
from edge_servers.federation import Federation, found_federation
from edge_servers.founding.simulated import START_S
from edge_servers.parameters import RoundParams, Settings

DEVICES, SHARE = 6, 40


def small_dataset() -> Dataset:
    """Three classes of 1 x 16 x 16 that differ in brightness."""
    rng = np.random.default_rng(3)

    def draw(count: int) -> Samples:
        labels = np.arange(count) % 3
        images = rng.normal(60 + 70 * labels[:, None, None, None], 20, (count, 1, 16, 16)).clip(0, 255)
        return Samples(torch.from_numpy(images.astype(np.uint8)), torch.from_numpy(labels), (0.5,), (0.25,))

    return Dataset("small", draw(DEVICES * SHARE), draw(60), 3, "the test")


def small_federation(
    faults: Mapping[int, Fault] | None = None,
    devices: Mapping[int, type[Device]] | None = None,
    consents: Mapping[int, str] | None = None,
    clock: SimulatedClock | None = None,
    **rounds: Any,
) -> Federation:
    """Six devices with 40 images each over three servers; devices 0 and 4 offload unless told otherwise."""
    ground = {"scheme": "consensus-no-chain", "planner": "fixed:0,4", "filter": "none"}
    settings = Settings(
        RoundParams(**{**ground, "rounds": 2, "deadline_s": 30.0, **rounds}),
        DataParams(devices=DEVICES, data_per_round="all"),
        TrainingParams(hidden="8", iterations=3, batch=10),
    )
    dataset = small_dataset()
    network = network_for(dataset, settings.training, settings.data.seed)
    kinds = devices or {}
    made = [
        kinds.get(n, Device)(
            n, dataset.train, np.arange(n * SHARE, (n + 1) * SHARE), network, Consent((consents or {}).get(n, "any"))
        )
        for n in range(DEVICES)
    ]
    grid = InProcessGrid(made, faults=faults)
    return found_federation(grid, settings, dataset, network, clock or SimulatedClock(), grid.train)


@dataclass(frozen=True)
class SmallChain:
    """A small network on a chain in memory."""

    federation: Federation
    hosting: ChainHosting
    hosted: HostedChain
    grid: InProcessGrid

    @property
    def devices(self) -> list[Device]:
        """As they are now."""
        return self.grid.devices

    @property
    def wallets(self) -> list[Wallet]:
        """Of the devices that have joined."""
        return [device.wallet for device in self.devices if device.wallet is not None]


def small_chain(joins: bool = True, **rounds: Any) -> SmallChain:
    """The devices and servers of `small_federation` with keys; without `joins` the devices know no chain yet."""
    ground = {"rounds": 4, "planner": "fixed:0,4", "filter": "none", "deadline_s": 30.0, "difficulty": 20}
    settings = Settings(
        RoundParams(**{**ground, "scheme": "bfl", **rounds}),
        DataParams(devices=DEVICES, data_per_round="all"),
        TrainingParams(hidden="8", iterations=3, batch=10),
    )
    dataset = small_dataset()
    network = network_for(dataset, settings.training, settings.data.seed)
    clock = SimulatedClock(START_S)
    hosting = ChainHosting(settings, network, clock, None)
    devices = [Device(n, dataset.train, np.arange(n * SHARE, (n + 1) * SHARE), network) for n in range(DEVICES)]
    grid = InProcessGrid(devices)
    federation = found_federation(grid, settings, dataset, network, clock, grid.train, hosting)
    hosted = federation.hosted
    assert isinstance(hosted, HostedChain)
    if joins:
        grid.equip(hosted.wallets(hosting.account("device", n) for n in range(DEVICES)))
    return SmallChain(federation, hosting, hosted, grid)
