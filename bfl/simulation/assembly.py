"""Devices, servers and their chain put together on one machine, with whoever should misbehave."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from bfl.attacks.servers import conduct_of, poison_device, read_attacks
from bfl.errors import BflError
from bfl.simulation.grid import InProcessGrid, SimulatedClock
from clients.data import Dataset
from clients.device import Device
from clients.partition import Share
from edge_servers.federation import Federation, found_federation
from edge_servers.parameters import Settings

if TYPE_CHECKING:
    from clients.wallet import Wallet
    from edge_servers.chain_hosting import ChainHosting


def assemble(
    settings: Settings, dataset: Dataset, shares: list[Share], network: nn.Module, folder: Path
) -> tuple[Federation, "ChainHosting | None"]:
    """Devices, servers and, where the scheme wants it, their chain; whoever should misbehave will."""
    attacks = read_attacks(settings.rounds.attack, settings.rounds.edges, settings.data.devices)
    clock = SimulatedClock()
    hosting = None
    wallets: list[Wallet | None] = [None] * len(shares)
    if settings.rounds.is_on_chain:
        hosting, clock, wallets = _chain_of(settings, network, folder)
    devices = [
        poison_device(Device(n, dataset.train, share, network, wallet=wallet), attacks, dataset.classes)
        for n, (share, wallet) in enumerate(zip(shares, wallets, strict=True))
    ]
    grid = InProcessGrid(devices, settings.training.engine, settings.training.chunk)
    with ExitStack() as undo:
        if hosting is not None:
            undo.callback(hosting.close)
        federation = found_federation(grid, settings, dataset, network, clock, grid.train, hosting)
        for server in federation.servers:
            server.conduct = conduct_of(attacks, server.index, settings, server.network.name)
        if hosting is not None:
            hosting.admit(wallet for wallet in wallets if wallet is not None)
        undo.pop_all()
    return federation, hosting


def _chain_of(
    settings: Settings, network: nn.Module, folder: Path
) -> tuple["ChainHosting", SimulatedClock, list["Wallet | None"]]:
    """Imported here: py-evm takes a second, and is an extra."""
    try:
        from clients.wallet import Wallet
        from edge_servers.chain_hosting import START_S, ChainHosting
    except ModuleNotFoundError as error:
        raise BflError(
            f"scheme {settings.rounds.scheme} needs {error.name}: pip install 'bfl[node]', "
            "or choose --scheme consensus-no-chain"
        ) from error

    clock = SimulatedClock(START_S)
    hosting = ChainHosting(settings, network, clock, folder)
    return hosting, clock, [Wallet(hosting.account("device", n)) for n in range(settings.data.devices)]
