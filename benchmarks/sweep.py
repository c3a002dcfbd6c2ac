"""What a sweep costs beside its runs: the same runs as `bfl simulate` one after the other, in a sweep, on all cores.

    python -m benchmarks.sweep --runs 4 --rounds 20

CPU seconds are of all processes and hold on a busy machine too; seconds on the wall only on a quiet one.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

COMMON = {"dataset": "synthetic", "scheme": "fedavg", "planner": "fixed", "iterations": 10, "threads": 1}


@dataclass(frozen=True)
class Took:
    """What a way of making the runs took."""

    wall_s: float
    cpu_s: float


def measured(work: Callable[[], None]) -> Took:
    """Of this process's children."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(time.perf_counter() - began, cpu)


def bfl(*words: str, folder: Path) -> None:
    """`bfl ...`, which has to succeed."""
    command = [sys.executable, "-m", "bfl", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def bare(runs: int, rounds: int, folder: Path) -> None:
    """One `bfl simulate` after the other."""
    settings = {**COMMON, "rounds": rounds}
    flags = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    for seed in range(runs):
        bfl("simulate", *flags, "--seed", str(seed), "--out", f"bare-{seed}", folder=folder)


def swept(runs: int, rounds: int, jobs: int, folder: Path) -> None:
    """The same as a sweep."""
    lines = [f"{key} = {value!r}" for key, value in {**COMMON, "rounds": rounds}.items()]
    text = "\n".join([f'seeds = "0-{runs - 1}"', "[common]", *lines]) + "\n"
    (folder / "sweep.toml").write_text(text, encoding="utf-8")
    bfl("sweep", "sweep.toml", "--jobs", str(jobs), "--out", f"sweep-{jobs}", folder=folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bfl-sweep-") as name:
        folder = Path(name)
        ways = {"bfl simulate, one after the other": partial(bare, given.runs, given.rounds, folder)}
        for jobs in dict.fromkeys((1, cores)):
            ways[f"bfl sweep --jobs {jobs}"] = partial(swept, given.runs, given.rounds, jobs, folder)
        took = {told: measured(work) for told, work in ways.items()}
    floor = next(iter(took.values()))
    print(f"{given.runs} runs of {given.rounds} rounds, {cores} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| way | CPU s | of bare | wall s | speed-up |\n|---|---:|---:|---:|---:|")
    for told, each in took.items():
        ratio, speed = each.cpu_s / floor.cpu_s, floor.wall_s / each.wall_s
        print(f"| {told} | {each.cpu_s:.1f} | {ratio:.2f} | {each.wall_s:.1f} | {speed:.2f} |")


if __name__ == "__main__":
    main()
