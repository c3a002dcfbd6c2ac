"""`bfl network edge-server` and `device-stub`: a server and a device as processes of their own, with config files."""

import json
import logging
import os
import time
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bfl.commands.network import asked_password, check_node_url, stop_by_signal
from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError
from policy.files import read_bounded_text

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from edge_servers.federation import Federation
    from edge_servers.remote.network import RemoteNetwork
    from edge_servers.report import RoundReport

_MOST_CONFIG_BYTES = 1 << 16
_AGAIN_S = 1.0
"""After trouble with its own node a server looks again"""
ConfigFile = Annotated[Path, typer.Argument(help="The participant's config file (TOML).", metavar="CONFIG")]
Config = TypeVar("Config", "EdgeConfig", "StubConfig")


@dataclass(frozen=True)
class EdgeConfig:
    """The config file of an edge server; paths are relative to it."""

    node: str
    """The owner's door of its own node."""
    registry: str
    key: str
    listen: str
    """HOST:PORT for its devices."""
    signed: str = "signed.db"
    rounds: int = 1_000_000
    data_dir: str = ""
    metrics: str = ""


@dataclass(frozen=True)
class StubConfig:
    """The config file of a device."""

    edge: str
    """Where its home server listens for devices."""
    node: str
    registry: str
    key: str
    device: int
    memory: str = "device.json"
    data_dir: str = ""


def read_config(path: Path, kind: type[Config]) -> Config:
    """A participant's config file; `BflError` says what was found and expected."""
    try:
        content = tomllib.loads(read_bounded_text(path, _MOST_CONFIG_BYTES))
    except (OSError, ValueError) as error:
        raise BflError(f"{path} cannot be read as a config file: {error}") from error
    known = {field.name.replace("_", "-"): field for field in fields(kind)}
    unknown = [key for key in content if key not in known]
    if unknown:
        raise BflError(f"{path}: found {', '.join(map(repr, unknown))}, expected only {', '.join(known)}")
    try:
        found = kind(**{key.replace("-", "_"): value for key, value in content.items()})
    except TypeError as error:
        raise BflError(f"{path}: {error}; expected {', '.join(known)}") from error
    for key, field in known.items():
        if type(getattr(found, field.name)) is not field.type:
            raise BflError(f"{path}: found {key} = {getattr(found, field.name)!r}, expected {field.type}")
    return found


def edge_server(config_file: ConfigFile) -> None:
    """Run an edge server: it plans, closes, gossips, checks and signs at its own node. The password of its key comes
    from the terminal, or from BFL_KEY_PASSWORD. Ctrl-C ends it; started again, it rejoins the running round.
    """
    config, folder = read_config(config_file, EdgeConfig), config_file.parent
    check_node_url(config.node, "node")
    account, stop = _key(folder / config.key), stop_by_signal()
    _log_to_terminal()

    from chain.client.keys import address_of
    from chain.signer.memory import SignedMemory
    from edge_servers.federation import WallClock
    from edge_servers.remote.devices import StubGrid
    from edge_servers.remote.network import remote_federation

    clock, remote = WallClock(), _network(config.node, config.registry)
    index = remote.server_index(account)
    dataset, network = _task(remote, config.data_dir)
    host, _, port = config.listen.rpartition(":")
    cluster = [device.index for device in remote.founding.network.cluster(index)]
    with (
        SignedMemory.open(
            folder / config.signed, address_of(account), remote.connection.chain_id, clock=clock.now
        ) as memory,
        StubGrid(host, int(port), cluster) as grid,
    ):
        _say(f"server {index} with {len(cluster)} devices at {config.listen}. Ctrl-C stops it.")

        def start() -> "Federation":
            return remote_federation(remote, account, memory, grid, dataset, network, clock, config.rounds)

        _run_rounds(start, remote, memory, config, folder, stop)
    _say("stopped")


def _run_rounds(start: Any, remote: "RemoteNetwork", memory: Any, config: EdgeConfig, folder: Path, stop: Any) -> None:
    """Round after round; after trouble with the own node everything is read anew from its chain."""
    from chain.errors import ChainError, DivergedError
    from edge_servers.errors import EdgeError

    federation: Federation | None = None
    while not stop.is_set():
        try:
            federation = federation or start()
            if federation.round >= config.rounds:
                return
            memory.round_began(federation.round + 1, float(remote.chain.final.timestamp))
            report = federation.run_round()
        except DivergedError:
            raise  # started again, it looks again
        except (ChainError, EdgeError) as error:
            logging.getLogger(__name__).warning("%s: %s", type(error).__name__, error)
            federation = None
            stop.wait(_AGAIN_S)
            continue
        _tell(report, folder / config.metrics if config.metrics else None)


def _tell(report: "RoundReport", metrics: Path | None) -> None:
    from bfl.simulation.run_folder import metrics_of

    scores = "not evaluated" if report.scores is None else f"accuracy {100 * report.scores.accuracy:.2f} %"
    passed = f", {len(report.failed_leaders)} leaders passed over" if report.failed_leaders else ""
    offences = [each.detail for each in report.offences]
    _say(f"round {report.round}: {scores}, {report.training_nodes} gradients, led by server {report.leader}{passed}")
    for each in offences:
        _say(f"round {report.round}: {each}")
    if metrics is not None:
        with metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics_of(report)) + "\n")


def device_stub(config_file: ConfigFile) -> None:
    """Run a device: it trains what its home server orders, if the plan on the chain says so, and signs what it made.
    Over plain HTTP: a stub for networks under test. The password of its key is in BFL_KEY_PASSWORD.
    """
    config, folder = read_config(config_file, StubConfig), config_file.parent
    for name in ("edge", "node"):
        check_node_url(getattr(config, name), name)
    account, stop = _key(folder / config.key), stop_by_signal()
    _log_to_terminal()

    from clients.device import Device
    from clients.partition import partition
    from clients.stub import serve_orders
    from clients.wallet import Wallet

    remote = _network(config.node, config.registry)
    settings = remote.founding.settings
    dataset, network = _task(remote, config.data_dir)
    shares = partition(dataset.train.labels.numpy(), settings.data, dataset.labels_per_device)
    wallet = Wallet(account, remote.known_chain(), memory=folder / config.memory)
    consent = remote.founding.network.devices[config.device].consent
    device = Device(config.device, dataset.train, shares[config.device], network, consent, wallet)
    _say(f"device {config.device} with {len(shares[config.device])} samples asks {config.edge}. Ctrl-C stops it.")
    serve_orders(device, config.edge, settings.training, stop, _say)
    _say("stopped")


def _network(url: str, registry: str) -> "RemoteNetwork":
    """Connect, and wait for a node that is still starting."""
    from chain.errors import ChainError
    from edge_servers.remote.network import RemoteNetwork

    for _ in range(120):
        try:
            return RemoteNetwork.connect(url, bytes.fromhex(registry.removeprefix("0x")))
        except ChainError as error:
            last = error
            time.sleep(0.5)
    raise BflError(f"{url} does not answer: {last}; is the node running?")


def _task(remote: "RemoteNetwork", data_dir: str) -> Any:
    import torch

    from clients.data import load_dataset
    from clients.memory import keep_freed_memory
    from clients.models import network_for

    keep_freed_memory()
    torch.set_num_threads(1)
    data = remote.founding.settings.data
    dataset = load_dataset(data.dataset, data_dir or data.data_dir, data.seed)
    return dataset, network_for(dataset, remote.founding.settings.training, data.seed)


def _key(path: Path) -> "LocalAccount":
    from chain.client.keys import load_key

    return load_key(path, os.environ.get(PASSWORD_VARIABLE) or asked_password(is_new=False))


def _log_to_terminal() -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    logging.getLogger("edge_servers").setLevel(logging.INFO)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
