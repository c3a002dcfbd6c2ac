"""The whole system on one machine: one process, one thread of control, every round recorded."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from flwr.serverapp import Grid
from torch import nn

from bfl.attacks.text import check_possible, read_attacks
from bfl.config import RunSettings
from bfl.errors import BflError, RunFolderError
from bfl.show.plots import can_plot, plot_curves, plot_latency, plot_partition
from bfl.simulation.assembly import assemble
from bfl.simulation.checkpoint import Checkpoint
from bfl.simulation.cost import RunCost, check_disk, run_cost
from bfl.simulation.ending import Ending, undisturbed
from bfl.simulation.environment import describe_environment, differences, use_threads
from bfl.simulation.run_folder import RunFolder
from bfl.simulation.summary import summarise
from clients.data import Dataset, dataset_of
from clients.memory import keep_freed_memory
from clients.models import network_for, with_parameters
from clients.partition import Share, shares_of
from edge_servers.federation import Federation
from edge_servers.founding.standing import Standing
from edge_servers.learning.filters import make_filters
from edge_servers.learning.graph import make_graph
from edge_servers.planning.proposal import make_planner
from edge_servers.report import RoundReport
from edge_servers.strategy import EdgeStrategy, model_record

if TYPE_CHECKING:
    from edge_servers.chain_hosting import HostedChain


@dataclass(frozen=True)
class Simulation:
    """A run that is ready to go: the federation, where it is recorded, and the time it has taken so far."""

    settings: RunSettings
    federation: Federation
    folder: RunFolder
    shares: list[Share]
    network: nn.Module
    environment: dict[str, Any]
    wall_s: float = 0.0
    chain: "HostedChain | None" = None
    """Where there is one."""
    cost: RunCost | None = None
    """On a chain: what the rounds that are left will take."""

    @property
    def dataset(self) -> Dataset:
        """What is learned."""
        return self.federation.dataset


def check_settings(settings: RunSettings) -> None:
    """Refuse what cannot work before any data is loaded."""
    make_graph(settings.rounds.graph, settings.rounds.edges)
    if not make_filters(settings.rounds.filter).reasons and settings.rounds.reputation:
        raise BflError(
            f"reputation: found filter {settings.rounds.filter}, which takes nobody out, expected one that does, such "
            "as krum or the default"
        )
    attacks = read_attacks(settings.attacks.attack, settings.rounds.edges, settings.data.devices)
    check_possible(attacks, settings.rounds)
    make_planner(settings.rounds.planner, settings.data.seed, settings.data.devices)
    _ = settings.training.hidden_sizes


def start(settings: RunSettings, out: Path) -> Simulation:
    """A new run in an empty folder."""
    check_settings(settings)
    dataset, shares, network = _prepare(settings)
    environment = describe_environment(settings, network)
    cost = _affordable_cost(settings, network, settings.rounds.rounds, out)
    with ExitStack() as undo:
        with undisturbed() as pressed:
            folder = RunFolder.create(out, settings, environment)
        undo.callback(folder.release)
        if pressed:
            raise KeyboardInterrupt
        federation, chain = assemble(settings, settings.attacks.attack, dataset, shares, network, folder.path)
        undo.pop_all()
    return Simulation(settings, federation, folder, shares, network, environment, chain=chain, cost=cost)


def _affordable_cost(settings: RunSettings, network: nn.Module, rounds: int, folder: Path) -> RunCost | None:
    """What the rounds on the chain will cost, if the disk has room for them; None without a chain."""
    if not settings.rounds.is_on_chain:
        return None
    cost = run_cost(settings, network, rounds)
    check_disk(cost, folder)
    return cost


def resume(
    path: Path, rounds: int | None, allow_other_environment: bool, allow_plugins: bool = False, data_named: str = ""
) -> Simulation:
    """A recorded run, at its last finished round; `rounds` may ask for more, `data_named` is a person's word."""
    said = {"rounds": rounds, "dataset": data_named or None}
    with ExitStack() as undo:
        folder = RunFolder.open(path)
        undo.callback(folder.release)
        settings = folder.settings({key: value for key, value in said.items() if value is not None}, allow_plugins)
        resumed = _resumed(folder, settings, allow_other_environment)
        undo.pop_all()
    return resumed


def _resumed(folder: RunFolder, settings: RunSettings, allow_other_environment: bool) -> Simulation:
    path = folder.path
    dataset, shares, network = _prepare(settings)
    environment = describe_environment(settings, network)
    changed = differences(folder.read_json("environment.json"), environment)
    if changed and not allow_other_environment:
        raise RunFolderError(
            f"{path} was started in another environment, so the same seed will not give the same run:\n  "
            + "\n  ".join(changed)
            + "\nResume it there, or add --allow-other-environment."
        )
    if settings.rounds.is_on_chain:
        return _resumed_on_chain(folder, settings, dataset, shares, network, environment)
    checkpoint = folder.load_checkpoint()
    if checkpoint:
        _check_rounds_left(folder, checkpoint.round, settings.rounds.rounds)
    folder.write_settings(settings)  # so that the next --resume knows how many rounds were asked for
    federation, _ = assemble(settings, settings.attacks.attack, dataset, shares, network, path)
    if checkpoint:
        restore(federation, checkpoint)
    wall_s = checkpoint.wall_s if checkpoint else 0.0
    return Simulation(settings, federation, folder, shares, network, environment, wall_s)


def _resumed_on_chain(
    folder: RunFolder,
    settings: RunSettings,
    dataset: Dataset,
    shares: list[Share],
    network: nn.Module,
    environment: dict[str, Any],
) -> Simulation:
    """Where the chain stands is where the run stands; metrics of sealed rounds that were not written are made up."""
    from chain.audit.archive import DATABASE

    database = folder.path / DATABASE
    if not database.exists() or not database.stat().st_size:
        folder.check_not_lost(DATABASE, at_most=0)
    federation, chain = assemble(settings, settings.attacks.attack, dataset, shares, network, folder.path)
    if chain is None:
        raise RunFolderError(f"{folder.path} has no chain")
    with ExitStack() as undo:
        undo.callback(chain.close)
        if not federation.round:
            folder.check_not_lost(DATABASE, at_most=0)
        _check_rounds_left(folder, federation.round, settings.rounds.rounds)
        cost = _affordable_cost(settings, network, settings.rounds.rounds - federation.round, folder.path)
        folder.write_settings(settings)
        for round_ in range(folder.cut_metrics(federation.round) + 1, federation.round + 1):
            folder.append_metrics(federation.recovered_report(round_))
        undo.pop_all()
    wall_s = sum(sum(line["seconds"].values()) for line in folder.metrics())
    return Simulation(settings, federation, folder, shares, network, environment, wall_s, chain, cost)


def _check_rounds_left(folder: RunFolder, done: int, wanted: int) -> None:
    """Refuse to resume what has ended. A run killed between its last round and its summary has not: write its end."""
    summary = folder.read_json("summary.json")
    ended = summary.get("status") == "finished" and summary.get("rounds") == done
    if done > wanted or (done == wanted and ended):
        raise RunFolderError(
            f"{folder.path} has finished {done} rounds, {wanted} are asked for; ask for more with --rounds"
        )


def restore(federation: Federation, checkpoint: Checkpoint) -> None:
    """Put every server back to where it stood."""
    for server in federation.servers:
        standing = checkpoint.standings[server.index % len(checkpoint.standings)]
        if (found := standing.model.size) != (expected := server.standing.model.size):
            raise RunFolderError(f"the checkpoint has models of {found} numbers, expected {expected}: start anew")
        server.standing = standing


def run(
    simulation: Simulation,
    on_round: Callable[[RoundReport], None],
    grid: Grid | None = None,
    begin: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Run the rounds that are left and record each; the summary. Ctrl-C ends it after the last finished round, and so
    does whoever is told of the rounds, with `StopRun` or by failing. `grid`: that of Flower's engine, whose ServerApp
    drives a strategy. `begin` is called before the first round.
    """
    federation, folder = simulation.federation, simulation.folder
    began = time.perf_counter() - simulation.wall_s
    recorded: list[Standing] = []

    def record(report: RoundReport) -> None:
        nonlocal recorded
        with undisturbed() as pressed:
            recorded = recorded_standings(federation)
            if simulation.chain is None:
                folder.append_round(report, time.perf_counter() - began, recorded)
            else:
                folder.append_metrics(report)
        try:
            on_round(report)  # whoever counts rounds has heard of each that is recorded
        finally:
            if pressed:
                raise KeyboardInterrupt

    ending = Ending()
    try:
        recorded = recorded_standings(federation)
        with ending:
            if begin is not None:
                begin()
            if grid is not None:
                EdgeStrategy(federation, record).start(grid, model_record(federation))
            else:
                for report in federation.rounds():
                    record(report)
        summary = finish(simulation, recorded, ending, time.perf_counter() - began)
    finally:
        federation.hosted.close()
        folder.release()
    if ending.failure is not None:
        raise ending.failure
    return summary


def recorded_standings(federation: Federation) -> list[Standing]:
    """One standing per model: of every server, or of one where they share it."""
    standings = [server.standing for server in federation.servers]
    return standings[:1] if federation.servers[0].scheme.one_model else standings


def finish(simulation: Simulation, recorded: list[Standing], ending: Ending, wall_s: float) -> dict[str, Any]:
    """Write model, summary and plots of the last recorded round (a round that was cut short does not count)."""
    folder = simulation.folder
    metrics = folder.metrics()
    for m, standing in enumerate(recorded):
        name = "model.pt" if m == 0 else f"model-server-{m}.pt"
        torch.save(with_parameters(simulation.network, standing.model).state_dict(), folder.path / name)
    if can_plot():
        scheme, dataset = simulation.settings.rounds.scheme, simulation.dataset
        title = f"{dataset.name}, {simulation.settings.data.partition}"
        labels, where = dataset.train.labels.numpy(), folder.plots / "partition.png"
        if simulation.shares:  # with Flower's engine every device has its own
            plot_partition(simulation.shares, labels, dataset.classes, where, f"{title}: who holds what")
        title += f", {scheme}"
        plot_curves(metrics, folder.plots, title)
        plot_latency(metrics, folder.plots, f"{title}, planner {simulation.settings.rounds.planner}")
    summary = summarise(simulation, metrics, ending.status, wall_s, ending.stopped_by)
    folder.write_json("summary.json", summary)  # last: where it says finished, everything is there
    return summary


def _prepare(settings: RunSettings) -> tuple[Dataset, list[Share], nn.Module]:
    keep_freed_memory()
    use_threads(settings)
    data = settings.data
    dataset = dataset_of(data)
    shares = shares_of(dataset, data, settings.root_set)
    return dataset, shares, network_for(dataset, settings.training, data.seed)
