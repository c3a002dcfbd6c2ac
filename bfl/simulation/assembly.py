"""Devices, servers and their chain put together on one machine, with whoever should misbehave."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from bfl.attacks.devices import conspiracy_of, poison_device
from bfl.attacks.dishonest import AttackedHosting
from bfl.attacks.kinds import Attack
from bfl.attacks.text import read_attacks
from bfl.errors import BflError
from bfl.simulation.grid import InProcessGrid, SimulatedClock
from bfl.simulation.punctuality import who_misses
from clients.data import Dataset
from clients.device import Device
from clients.partition import Share
from edge_servers.federation import Federation, found_federation
from edge_servers.hosting import OffChain
from edge_servers.parameters import Settings
from policy.extras import install_command

if TYPE_CHECKING:
    from edge_servers.chain_hosting import HostedChain


def assemble(
    settings: Settings, attack: str, dataset: Dataset, shares: list[Share], network: nn.Module, folder: Path
) -> tuple[Federation, "HostedChain | None"]:
    """Devices, servers and, where the scheme wants it, their chain; whoever should misbehave will."""
    attacks = read_attacks(attack, settings.rounds.edges, settings.data.devices)
    conspiracy = conspiracy_of(attacks)
    devices = [
        poison_device(Device(n, dataset.train, share, network), attacks, dataset.classes, conspiracy)
        for n, share in enumerate(shares)
    ]
    grid = InProcessGrid(devices, settings.training.engine, settings.training.chunk, train=conspiracy.trainer)
    if not settings.rounds.is_on_chain:
        clock = SimulatedClock()
        hosting = AttackedHosting(OffChain(settings), attacks, settings)
        federation = found_federation(grid, settings, dataset, network, clock, grid.train, hosting)
        grid.misses = who_misses(settings, federation)
        return federation, None
    return _on_chain(settings, attacks, grid, dataset, network, folder)


def _on_chain(
    settings: Settings,
    attacks: Sequence[Attack],
    grid: InProcessGrid,
    dataset: Dataset,
    network: nn.Module,
    folder: Path,
) -> tuple[Federation, "HostedChain"]:
    """Imported here: py-evm takes a second, and is an extra."""
    try:
        from edge_servers.chain_hosting import ChainHosting, HostedChain
        from edge_servers.founding.simulated import START_S
    except ModuleNotFoundError as error:
        raise BflError(
            f"scheme {settings.rounds.scheme} needs {error.name}: {install_command('node')}, "
            "or choose --scheme consensus-no-chain"
        ) from error
    clock = SimulatedClock(START_S)
    hosting = ChainHosting(settings, network, clock, folder)
    attacked = AttackedHosting(hosting, attacks, settings)
    federation = found_federation(grid, settings, dataset, network, clock, grid.train, attacked)
    hosted = federation.hosted
    if not isinstance(hosted, HostedChain):
        raise BflError(f"scheme {settings.rounds.scheme}: found {type(hosted).__name__}, expected a chain")
    with ExitStack() as undo:
        undo.callback(hosted.close)
        grid.misses = who_misses(settings, federation)
        grid.equip(hosted.wallets(hosting.account("device", n) for n in range(settings.data.devices)))
        undo.pop_all()
    return federation, hosted
