"""The Flower ServerApp: `flwr run .` hosts all M edge servers over sub-grids of one Grid (P19), on the chain (D10).

Devices are ClientApps on Flower's engine, which moves them between processes: each joins the chain with a message, and
what it knows of it travels in its Flower state. Waits for devices are real; the chain's time is simulated.
"""

import time
from logging import INFO, WARNING
from pathlib import Path

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from bfl.config import RunSettings
from bfl.errors import BflError
from bfl.simulation.environment import describe_environment
from bfl.simulation.grid import SimulatedClock
from bfl.simulation.run import Simulation, check_settings, run
from bfl.simulation.run_folder import RunFolder
from bfl.simulation.superlink import end_superlink_after
from clients.arrays import one_array
from clients.data import load_dataset
from clients.flower import log
from clients.joined import Joined
from clients.memory import keep_freed_memory
from clients.models import network_for
from clients.orders import JOIN
from clients.plugins import permit
from edge_servers.chain_hosting import ChainHosting, HostedChain
from edge_servers.federation import WallClock, found_federation
from edge_servers.founding.parameters import tensors_of
from edge_servers.founding.simulated import START_S, SimulatedKeys
from edge_servers.hosting import OffChain
from edge_servers.report import RoundReport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Found the network from the run configuration, run its rounds, and leave a run folder."""
    end_superlink_after(context.run_id)  # first: whatever becomes of the run
    keep_freed_memory()
    settings = RunSettings.read(context.run_config)
    permit(context.run_config)  # whoever may start a run here has brought the code of this app, too
    check_settings(settings)  # before the data is loaded
    if settings.attacks.attack:
        raise BflError("found an attack, expected none: devices of Flower's engine are honest; use `bfl simulate`")
    if settings.training.threads:
        torch.set_num_threads(settings.training.threads)
    simulation = open_simulation(grid, settings, _folder(str(context.run_config.get("out", ""))))
    log(INFO, "Founded: %d edge servers, %d devices", settings.rounds.edges, settings.data.devices)
    run(simulation, lambda report: log_report(report, settings.rounds.rounds), grid)
    context.state["model"] = one_array("model", simulation.federation.servers[0].standing.model)
    log(INFO, "Finished %d rounds: %s", settings.rounds.rounds, simulation.folder.path)


def _folder(named: str) -> Path:
    return Path(named) if named else Path("runs") / time.strftime("flwr-%Y%m%d-%H%M%S")


def open_simulation(grid: Grid, settings: RunSettings, out: Path) -> Simulation:
    """A new run whose devices are at the other end of a grid."""
    data = settings.data
    dataset = load_dataset(data.dataset, data.data_dir, data.seed)
    log(INFO, "Data: %s from %s", dataset.name, dataset.source)
    network = network_for(dataset, settings.training, data.seed)
    environment = describe_environment(settings, network)
    folder = RunFolder.create(out, settings, environment)
    if not settings.rounds.is_on_chain:
        federation = found_federation(grid, settings, dataset, network, WallClock(), hosting=OffChain(settings))
        return Simulation(settings, federation, folder, [], network, environment)
    hosting = ChainHosting(settings, network, SimulatedClock(START_S), folder.path)
    federation = found_federation(grid, settings, dataset, network, WallClock(), hosting=hosting)
    hosted = federation.hosted
    if not isinstance(hosted, HostedChain):
        raise BflError(f"scheme {settings.rounds.scheme}: found {type(hosted).__name__}, expected a chain")
    nodes = {device: node for server in federation.servers for device, node in server.link.nodes.items()}
    _join(grid, nodes, hosted, SimulatedKeys(settings, tensors_of(network)).network, settings.rounds.deadline_s)
    return Simulation(settings, federation, folder, [], network, environment, chain=hosted)


def _join(grid: Grid, nodes: dict[int, int], hosted: HostedChain, keys: bytes, within_s: float) -> None:
    """Every device learns which chain it is on, and which simulated key is its own; `BflError` where one does not."""
    chain = hosted.known_chain()
    joined = Joined(
        chain.genesis, tuple(map(str, hosted.founding.network.servers)), (), "0x" + chain.founding_hash.hex(),
        chain.model_digest, chain.sizes, chain.work, {},
    )  # fmt: skip
    content = RecordDict({"chain": ConfigRecord({"joined": joined.to_json().encode(), "keys": keys})})
    devices = {node: device for device, node in nodes.items()}
    replies = grid.send_and_receive([Message(content, node, JOIN) for node in devices], timeout=within_s)
    refused = [reply.error.reason for reply in replies if reply.has_error()]
    missing = set(devices) - {reply.metadata.src_node_id for reply in replies}
    if refused or missing:
        raise BflError(f"{len(missing)} devices did not join the chain{': ' + str(refused[0]) if refused else ''}")


def log_report(report: RoundReport, rounds: int) -> None:
    """One line per round, and one per node that is out."""
    scores = report.scores
    told = f"accuracy {scores.accuracy:.4f} loss {scores.loss:.4f}" if scores else "not evaluated"
    log(INFO, "round %d/%d: %s, %d training nodes", report.round, rounds, told, report.training_nodes)
    for refusal in report.refused:
        log(
            WARNING,
            "round %d: %s is out (%s): %s",
            report.round,
            refusal.node,
            refusal.reason,
            refusal.detail,
        )
