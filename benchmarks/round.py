"""Seconds per round of `bfl simulate` beside two peers that do the same SGD, in one process and run.

    python -m benchmarks.round [--devices 10 100] [--rounds 20] [--repeats 3] [--no-ray]

(a) bare: a sequential torch loop over the same training nodes with torch.optim.SGD and a FedAvg mean, at its best
    thread count, images already scaled in memory; nothing else.
(b) bfl: `bfl simulate` with everything it does but evaluation: plan, orders, replies, checks, gossip, checkpoints.
(c) ray: our apps on Flower's Ray engine, one actor per core. Its start, the workers' loading of the data and one
    evaluation at the end are in its time: that is the job a user waits for; (a) and (b) have the data already.

(a) and (b) alternate; the middle of the repeats counts. Devices 0, 4, 5 of every ten offload. All share a process, so
peak memory of (b) and (c) includes the image table of (a), about 190 MB. The environment is that of the command line
(GOMP_SPINCOUNT, see bfl/cli.py), which serves (a) as well.
"""

import argparse
import importlib.util
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.memory import PeakMemory
from bfl.config import RunSettings, read_settings
from bfl.simulation import run as simulation
from clients.batches import NodeKey, mini_batches
from clients.data import Dataset, load_dataset
from clients.memory import keep_freed_memory
from clients.models import network_for, to_vector, with_parameters
from clients.partition import shares_of
from edge_servers.parameters import Settings


def training_nodes(settings: Settings, dataset: Dataset) -> list[tuple[NodeKey, torch.Tensor]]:
    """Who trains on what under the fixed plan: local devices, and servers on the union of their offloaders."""
    shares = shares_of(dataset, settings.data, settings.root_set)
    servers: dict[int, list[Any]] = {}
    nodes = []
    for n, share in enumerate(shares):
        if n % 10 in (0, 4, 5):
            servers.setdefault(n % settings.rounds.edges, []).append(share)
        else:
            nodes.append((NodeKey("device", n), torch.from_numpy(share)))
    nodes += [(NodeKey("server", m), torch.from_numpy(np.concatenate(parts))) for m, parts in sorted(servers.items())]
    return nodes


def bare_job(settings: Settings, dataset: Dataset, rounds: int) -> Callable[[], float]:
    """(a): seconds of `rounds` rounds of the bare loop."""
    nodes = training_nodes(settings, dataset)
    images, labels = dataset.train.scale(dataset.train.inputs), dataset.train.labels
    network = network_for(dataset, settings.training, settings.data.seed)
    total = sum(len(indices) for _, indices in nodes)

    def one_round(w: np.ndarray[Any, np.dtype[np.float32]], k: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        mean = np.zeros(len(w))
        for key, indices in nodes:
            model = with_parameters(network, w)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in mini_batches(0, k, key, len(indices), 10, 25):
                chosen = indices[torch.from_numpy(batch)]
                optimizer.zero_grad()
                F.cross_entropy(model(images[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            mean += len(indices) / total * to_vector(model)
        return mean.astype(np.float32)

    def job() -> float:
        w = to_vector(network)
        start = time.perf_counter()
        for k in range(1, rounds + 1):
            w = one_round(w, k)
        return time.perf_counter() - start

    return job


def bfl_job(settings: RunSettings) -> Callable[[], float]:
    """(b): seconds of a whole `bfl simulate` in a folder, apart from loading the data and from evaluation."""

    def job() -> float:
        with tempfile.TemporaryDirectory() as folder:
            ready = simulation.start(settings, Path(folder) / "run")
            evaluation: list[float] = []
            start = time.perf_counter()
            simulation.run(ready, lambda report: evaluation.append(report.seconds["evaluate"]))
            return time.perf_counter() - start - sum(evaluation)

    return job


def ray_job(settings: Settings) -> Callable[[], float]:
    """(c): seconds of the same rounds on Flower's Ray engine, from its start to its end."""
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    config: Any = {**settings.flat(), "threads": 1}
    client, server = ClientApp(), ServerApp()

    def configured(context: Context) -> Context:  # run_simulation hands out an empty run configuration
        return Context(context.run_id, context.node_id, context.node_config, context.state, config)

    @client.train()
    def train(message: Message, context: Context) -> Message:
        from clients import client_app

        return client_app.train(message, configured(context))

    @client.query("offload")
    def offload(message: Message, context: Context) -> Message:
        from clients import client_app

        return client_app.offload(message, configured(context))

    @client.query("introduce")
    def introduce(message: Message, context: Context) -> Message:
        from clients import client_app

        return client_app.introduce(message, configured(context))

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        from bfl.simulation import server_app

        server_app.main(grid, configured(context))

    def job() -> float:
        logging.getLogger("flwr").setLevel(logging.ERROR)
        start = time.perf_counter()
        resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        run_simulation(server, client, settings.data.devices, backend_config=resources)  # type: ignore[arg-type]
        return time.perf_counter() - start

    return job


def best_threads(settings: Settings, dataset: Dataset) -> int:
    """The thread count at which the bare loop is fastest."""
    seconds = {}
    for threads in range(1, (os.cpu_count() or 1) + 1):
        torch.set_num_threads(threads)
        job = bare_job(settings, dataset, 2)
        job()
        seconds[threads] = min(job() for _ in range(3))
    return min(seconds, key=seconds.__getitem__)


def measure(devices: int, rounds: int, repeats: int, with_ray: bool) -> list[tuple[str, float, float]]:
    """(name, seconds per round, peak MB) of every contender, alternating."""
    flags: dict[str, object] = {"devices": devices, "rounds": rounds, "evaluate-every": 0}
    flags |= {"scheme": "consensus-no-chain", "planner": "fixed", "filter": "none"}  # what the bare loop does
    settings = read_settings(flags=flags)
    dataset = load_dataset("fashion-mnist", "", 0)
    cores = os.cpu_count() or 1
    threads = best_threads(settings, dataset)
    contenders: dict[str, tuple[Callable[[], float], int]] = {
        f"(a) bare torch loop, {threads} threads": (bare_job(settings, dataset, rounds), threads),
        f"(b) bfl simulate, {cores} threads": (bfl_job(settings), cores),
    }
    seconds: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    for _ in range(repeats):
        for name, (job, thread_count) in contenders.items():
            torch.set_num_threads(thread_count)
            with PeakMemory() as peak:
                seconds.setdefault(name, []).append(job() / rounds)
            peaks[name] = max(peaks.get(name, 0.0), peak.mb)
    if with_ray:
        name = "(c) Flower's Ray engine"
        with PeakMemory() as peak:
            seconds[name] = [ray_job(settings)() / rounds]
        peaks[name] = peak.mb
    return [(name, statistics.median(values), peaks[name]) for name, values in seconds.items()]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--default-allocator", action="store_true", help="let glibc give memory back, to see its cost")
    options = parser.parse_args()
    if options.default_allocator:
        simulation.keep_freed_memory = lambda: False  # type: ignore[attr-defined]
    else:
        keep_freed_memory()
    with_ray = not options.no_ray and importlib.util.find_spec("ray") is not None
    print(f"Jobs of {options.rounds} rounds, median of {options.repeats}; (c) once.\n")
    print("| devices | contender | s/round | bfl / it | peak MB |\n|---|---|---|---|---|")
    for devices in options.devices:
        rows = measure(devices, options.rounds, options.repeats, with_ray)
        ours = next(seconds for name, seconds, _ in rows if name.startswith("(b)"))
        for name, seconds, peak in rows:
            print(f"| {devices} | {name} | {seconds:.3f} | {ours / seconds:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
