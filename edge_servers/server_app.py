"""The Flower ServerApp: `flwr run .` hosts all M edge servers over sub-grids of one Grid (P19)."""

from logging import INFO, WARNING

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from clients.arrays import one_array
from clients.data import load_dataset
from clients.flower import log
from clients.memory import keep_freed_memory
from clients.models import network_for
from edge_servers.federation import WallClock, found_federation
from edge_servers.hosting import OffChain
from edge_servers.parameters import Settings
from edge_servers.report import RoundReport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Found the network from the run configuration and run its rounds."""
    keep_freed_memory()
    settings = Settings.read(context.run_config)
    clock = WallClock()
    hosting = OffChain(settings)  # before the data is loaded: it refuses what needs a chain
    if settings.training.threads:
        torch.set_num_threads(settings.training.threads)
    data = settings.data
    dataset = load_dataset(data.dataset, data.data_dir, data.seed)
    log(INFO, "Data: %s from %s", dataset.name, dataset.source)
    network = network_for(dataset, settings.training, data.seed)
    federation = found_federation(grid, settings, dataset, network, clock, hosting=hosting)
    log(INFO, "Founded: %d edge servers, %d devices", settings.rounds.edges, data.devices)
    for report in federation.rounds():
        log_report(report, settings.rounds.rounds)
    context.state["model"] = one_array("model", federation.servers[0].standing.model)
    log(INFO, "Finished %d rounds", settings.rounds.rounds)


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
