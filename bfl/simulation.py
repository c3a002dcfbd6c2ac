"""The whole system on one machine: one process, one thread of control, every round recorded."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bfl.environment import describe_environment, differences, use_threads
from bfl.errors import RunFolderError
from bfl.grid import InProcessGrid, SimulatedClock
from bfl.plots import can_plot, plot_curves, plot_partition
from bfl.run_folder import Checkpoint, RunFolder
from clients.data import Dataset, load_dataset
from clients.device import Device
from clients.memory import keep_freed_memory
from clients.models import with_parameters
from clients.partition import Share, partition
from edge_servers.federation import Federation, RoundReport, found_federation, make_network
from edge_servers.graph import make_graph
from edge_servers.parameters import Settings
from edge_servers.planning import make_planner

LAST_EVALUATIONS = 5


@dataclass(frozen=True)
class Simulation:
    """A run that is ready to go: the federation, where it is recorded, and the time it has taken so far."""

    federation: Federation
    folder: RunFolder
    shares: list[Share]
    network: nn.Module
    environment: dict[str, Any]
    wall_s: float = 0.0

    @property
    def dataset(self) -> Dataset:
        """What is learned."""
        return self.federation.dataset

    @property
    def settings(self) -> Settings:
        """How it is learned."""
        return self.federation.settings


def check_settings(settings: Settings) -> None:
    """Refuse what cannot work before any data is loaded."""
    make_graph(settings.rounds.graph, settings.rounds.edges)
    make_planner(settings.rounds.planner, settings.data.seed, settings.data.devices)
    _ = settings.training.hidden_sizes


def start(settings: Settings, out: Path) -> Simulation:
    """A new run in an empty folder."""
    check_settings(settings)
    dataset, shares, network = _prepare(settings)
    environment = describe_environment(settings, network)
    folder = RunFolder.create(out, settings, environment)
    if can_plot():
        title = f"{dataset.name}, {settings.data.partition}: who holds what"
        labels = dataset.train.labels.numpy()
        plot_partition(shares, labels, dataset.classes, folder.plots / "partition.png", title)
    federation = _federate(settings, dataset, shares, network)
    return Simulation(federation, folder, shares, network, environment)


def resume(path: Path, rounds: int | None, allow_other_environment: bool) -> Simulation:
    """A recorded run, at its last finished round; `rounds` may ask for more of them."""
    folder = RunFolder.open(path)
    settings = folder.settings(rounds)
    dataset, shares, network = _prepare(settings)
    environment = describe_environment(settings, network)
    changed = differences(folder.read_json("environment.json"), environment)
    if changed and not allow_other_environment:
        raise RunFolderError(
            f"{path} was started in another environment, so the same seed will not give the same run:\n  "
            + "\n  ".join(changed)
            + "\nResume it there, or add --allow-other-environment."
        )
    checkpoint = folder.load_checkpoint()
    if checkpoint and checkpoint.round >= settings.rounds.rounds:
        raise RunFolderError(f"{path} has finished its {checkpoint.round} rounds; ask for more with --rounds")
    folder.write_settings(settings)  # so that the next --resume knows how many rounds were asked for
    federation = _federate(settings, dataset, shares, network)
    if checkpoint:
        restore(federation, checkpoint)
    return Simulation(federation, folder, shares, network, environment, checkpoint.wall_s if checkpoint else 0.0)


def restore(federation: Federation, checkpoint: Checkpoint) -> None:
    """Put every server back to where it stood."""
    for server in federation.servers:
        server.standing = checkpoint.standings[server.index % len(checkpoint.standings)]


def run(simulation: Simulation, on_round: Callable[[RoundReport], None]) -> dict[str, Any]:
    """Run the rounds that are left and record each; the summary. Ctrl-C ends it after the last finished round."""
    federation, folder = simulation.federation, simulation.folder
    began = time.perf_counter() - simulation.wall_s
    status = "finished"
    try:
        for report in federation.rounds():
            with _undisturbed():
                standings = [server.standing for server in federation.servers]
                distinct = standings[:1] if federation.servers[0].scheme.one_model else standings
                folder.append_round(report, time.perf_counter() - began, distinct)
            on_round(report)
    except KeyboardInterrupt:
        status = "interrupted"
    return finish(simulation, status, time.perf_counter() - began)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let a Ctrl-C or SIGTERM that comes while a round is being written wait until it is written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, lambda caught, _: pending.append(caught)) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, old, strict=True):
            signal.signal(number, handler)
    if pending:
        raise KeyboardInterrupt


def finish(simulation: Simulation, status: str, wall_s: float) -> dict[str, Any]:
    """Write summary, model and plots for what has been done so far."""
    federation, folder = simulation.federation, simulation.folder
    metrics = folder.metrics()
    for server in federation.servers if not federation.servers[0].scheme.one_model else federation.servers[:1]:
        name = "model.pt" if server.index == 0 else f"model-server-{server.index}.pt"
        torch.save(with_parameters(simulation.network, server.standing.model).state_dict(), folder.path / name)
    summary = summarise(simulation, metrics, status, wall_s)
    folder.write_json("summary.json", summary)
    if can_plot():
        scheme, dataset = simulation.settings.rounds.scheme, simulation.dataset.name
        plot_curves(metrics, folder.plots, f"{dataset}, {simulation.settings.data.partition}, {scheme}")
    return summary


def summarise(simulation: Simulation, metrics: list[dict[str, Any]], status: str, wall_s: float) -> dict[str, Any]:
    """The numbers of a run. Accuracy and loss are means of the last five evaluations."""
    settings = simulation.settings
    evaluated = [line for line in metrics if line["accuracy"] is not None][-LAST_EVALUATIONS:]
    training = [sum(s for phase, s in line["seconds"].items() if phase != "evaluate") for line in metrics]
    return {
        "status": status,
        "scheme": settings.rounds.scheme,
        "seed": settings.data.seed,
        "rounds": len(metrics),
        "rounds-planned": settings.rounds.rounds,
        "accuracy": float(np.mean([line["accuracy"] for line in evaluated])) if evaluated else None,
        "loss": float(np.mean([line["loss"] for line in evaluated])) if evaluated else None,
        "wall-seconds": round(wall_s, 3),
        "seconds-per-round": round(float(np.median(training)), 4) if training else None,
        "dataset": simulation.dataset.name,
        "data-source": simulation.dataset.source,
        "partition": settings.data.partition,
        "devices": settings.data.devices,
        "edges": settings.rounds.edges,
        "parameters": len(simulation.federation.servers[0].standing.model),
        "refused": sum(len(line["refused"]) for line in metrics),
        "environment": simulation.environment,
    }


def _prepare(settings: Settings) -> tuple[Dataset, list[Share], nn.Module]:
    keep_freed_memory()
    use_threads(settings)
    data = settings.data
    dataset = load_dataset(data.dataset, data.data_dir, data.seed)
    shares = partition(dataset.train.labels.numpy(), data, dataset.labels_per_device)
    return dataset, shares, make_network(settings, dataset)


def _federate(settings: Settings, dataset: Dataset, shares: list[Share], network: nn.Module) -> Federation:
    devices = [Device(n, dataset.train, share, network) for n, share in enumerate(shares)]
    grid = InProcessGrid(devices, settings.training.engine, settings.training.chunk)
    return found_federation(grid, settings, dataset, SimulatedClock(), grid.train)
