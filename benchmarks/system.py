"""Seconds of a whole round on the chain, by phase, beside peers that do the same SGD in the same process and run.

    python -m benchmarks.system [--devices 10 100] [--rounds 20] [--repeats 3] [--no-ray] [--threads 0]

(a) bare: a sequential torch loop over the same training nodes with torch.optim.SGD and a FedAvg mean, at its best
    thread count, images already scaled in memory; nothing else.
(b) bfl: Algorithm 1 on the chain: plan, orders with proofs, training, signatures, ledger, gossip, replay, model,
    proof of work, block on disk; fixed plan (devices 0, 4, 5 of every ten offload), one shared node, fp16, phi 5.
(c) the same with the a2c planner; (d) with a node for every server; (f) as (b), without a filter.
    The column `filter` is what judging by the root set takes, by whoever judges first: others find it done.
(e) Flower's Ray engine running FedAvg over the same training nodes, one actor per core; start and loading included.

Evaluation is not part of any. (a)-(d) and (f) alternate; the middle of the repeats counts.
"""

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

import chain.node.access
import chain.node.node
import clients.signing
import edge_servers.learning.verdicts
import edge_servers.ledger.block_check
import edge_servers.ledger.referee
from benchmarks.round import bare_job, best_threads, ray_job
from benchmarks.stopwatch import Stopwatch
from bfl.config import RunSettings, read_settings
from bfl.simulation import run as simulation
from clients.data import load_dataset
from clients.memory import keep_freed_memory
from edge_servers.parameters import Settings
from edge_servers.round import ALGORITHM_1

COLUMNS = ("plan", "train", "sign", "ledger", "close", "filter", "gossip", "verify", "model", "seal", "persist")
Job = Callable[[], tuple[float, dict[str, float]]]


def system_job(settings: RunSettings, rounds: int) -> Job:
    """Seconds of `rounds` rounds, and where they went."""

    def job() -> tuple[float, dict[str, float]]:
        watch = Stopwatch()
        places = {
            (chain.node.access, "signed_transaction"): "sign",
            (clients.signing, "signed_gradient"): "sign",
            (chain.node.node.Node, "submit"): "ledger",
            (chain.node.node.Node, "_accept"): "persist",
            (chain.node.node.Node, "import_block"): "ledger",
            (edge_servers.learning.verdicts.Verdict, "passed"): "filter",
            (edge_servers.learning.verdicts.Verdict, "check"): "filter",
            (edge_servers.ledger.referee, "admitted_gradients"): "verify",
            (edge_servers.ledger.referee, "judged_round"): "verify",
            (edge_servers.ledger.referee, "iterate_offence"): "verify",
            (edge_servers.ledger.referee, "replayed_model"): "verify",
            (edge_servers.ledger.block_check.RoundChecker, "__call__"): "verify",
        }
        phases = tuple(watch.timed(phase.__name__, phase) for phase in ALGORITHM_1)
        with tempfile.TemporaryDirectory() as folder, watch.patched(places):
            ready = simulation.start(settings, Path(folder) / "run")
            ready = replace(ready, federation=replace(ready.federation, phases=phases))
            watch.seconds.clear()
            evaluation: list[float] = []
            start = time.perf_counter()
            simulation.run(ready, lambda report: evaluation.append(report.seconds["evaluate"]))
            whole = time.perf_counter() - start - sum(evaluation)
        return whole / rounds, {label: seconds / rounds for label, seconds in watch.seconds.items()}

    return job


def bare(settings: Settings, rounds: int, threads: int) -> Job:
    """The bare loop as a job of this table."""
    dataset = load_dataset("fashion-mnist", "", 0)
    job = bare_job(settings, dataset, rounds)

    def one() -> tuple[float, dict[str, float]]:
        torch.set_num_threads(threads)
        return job() / rounds, {}

    return one


def measure(devices: int, rounds: int, repeats: int, threads: int) -> list[tuple[str, float, dict[str, float]]]:
    """(name, seconds per round, by phase) of every contender, alternating."""
    flags = {"devices": devices, "rounds": rounds, "evaluate-every": 0, "planner": "fixed", "threads": threads}
    settings = read_settings(flags=flags)
    best = best_threads(settings, load_dataset("fashion-mnist", "", 0))
    contenders: dict[str, Job] = {
        f"(a) bare torch loop, {best} threads": bare(settings, rounds, best),
        "(b) bfl": system_job(settings, rounds),
        "(c) bfl, a2c plans": system_job(read_settings(flags=flags | {"planner": "a2c"}), rounds),
        "(d) bfl, a node per server": system_job(read_settings(flags=flags | {"nodes": 3}), rounds),
        "(f) bfl, no filter": system_job(read_settings(flags=flags | {"filter": "none"}), rounds),
    }
    found: dict[str, list[tuple[float, dict[str, float]]]] = {}
    for _ in range(repeats):
        for name, job in contenders.items():
            torch.set_num_threads(threads)
            found.setdefault(name, []).append(job())
    rows = []
    for name, runs in found.items():
        middle = statistics.median_low([seconds for seconds, _ in runs])
        rows.append((name, middle, next(parts for seconds, parts in runs if seconds == middle)))
    return rows


def ray_row(devices: int, rounds: int) -> tuple[str, float, dict[str, float]]:
    """(e)."""
    flags = {"devices": devices, "rounds": rounds, "evaluate-every": 0, "planner": "fixed", "scheme": "fedavg"}
    return "(e) Flower's Ray engine, FedAvg", ray_job(read_settings(flags=flags))() / rounds, {}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of our own training")
    parser.add_argument("--no-ray", action="store_true")
    options = parser.parse_args()
    keep_freed_memory()
    print(f"Jobs of {options.rounds} rounds, median of {options.repeats}; (e) once. Milliseconds per round.\n")
    print(f"| devices | contender | ms | / bare | {' | '.join(COLUMNS)} |\n|{'---|' * (4 + len(COLUMNS))}")
    for devices in options.devices:
        rows = measure(devices, options.rounds, options.repeats, options.threads)
        if not options.no_ray and importlib.util.find_spec("ray") is not None:
            rows.append(ray_row(devices, options.rounds))
        floor = rows[0][1]
        for name, seconds, parts in rows:
            cells = " | ".join(f"{1000 * parts[label]:.0f}" if label in parts else "" for label in COLUMNS)
            print(f"| {devices} | {name} | {1000 * seconds:.0f} | {seconds / floor:.2f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
