"""Accuracy of the schemes (L15) on Fashion-MNIST, IID and non-IID, over several seeds.

    python -m benchmarks.accuracy [--seeds 3] [--rounds 100] [--out runs/accuracy]

Whole shares, devices 0, 4, 5 offload, three servers in a line, phi 5. Every run is an ordinary `bfl simulate` in a
folder of its own; finished ones are not run again, interrupted ones are resumed. Ends with a Markdown table.
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

SCHEMES = ("fedavg", "consensus-no-chain", "no-consensus-no-chain", "traditional")
PARTITIONS = ("iid", "non-iid")
# Independent reference run of one seed (shared/spec/learning.md); the paper gives curves and two gaps, no table.
REFERENCE = {
    ("fedavg", "iid"): 85.4,
    ("fedavg", "non-iid"): 79.6,
    ("consensus-no-chain", "iid"): 85.4,
    ("consensus-no-chain", "non-iid"): 79.4,
    ("no-consensus-no-chain", "iid"): 84.4,
    ("no-consensus-no-chain", "non-iid"): 71.6,
    ("traditional", "iid"): 84.1,
    ("traditional", "non-iid"): 50.4,
}


def run(scheme: str, partition: str, seed: int, rounds: int, out: Path) -> float:
    """Accuracy of one run in percent, from its summary."""
    folder = out / f"{scheme}-{partition}-{rounds}-rounds-seed-{seed}"
    summary = folder / "summary.json"
    if not (summary.exists() and json.loads(summary.read_text())["status"] == "finished"):
        flags = ["--resume", str(folder)]
        if not (folder / "config.toml").exists():
            flags = ["--scheme", scheme, "--partition", partition, "--seed", str(seed), "--rounds", str(rounds)]
            flags += ["--data-per-round", "all", "--planner", "fixed:0,4,5", "--filter", "none"]
            flags += ["--threads", "1", "--out", str(folder)]
        command = [sys.executable, "-m", "bfl", "simulate", *flags]
        finished = subprocess.run(command, capture_output=True, text=True)
        if finished.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{finished.stderr}")
    accuracy = 100 * float(json.loads(summary.read_text())["accuracy"])
    print(f"{scheme:24} {partition:8} seed {seed}: {accuracy:.2f} %", file=sys.stderr, flush=True)
    return accuracy


def table(results: dict[tuple[str, str], list[float]]) -> str:
    """Mean and range over the seeds, beside the reference."""
    lines = [
        "| scheme | " + " | ".join(f"{p} (min-max) | reference" for p in PARTITIONS) + " |",
        "|---|" + "---|" * 2 * len(PARTITIONS),
    ]
    for scheme in SCHEMES:
        cells = []
        for partition in PARTITIONS:
            values = results[scheme, partition]
            cells += [f"{np.mean(values):.2f} ({min(values):.2f}-{max(values):.2f})"]
            cells += [f"{REFERENCE[scheme, partition]:.1f}"]
        lines.append(f"| {scheme} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, two at a time where there are two cores, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/accuracy"))
    options = parser.parse_args()
    jobs = list(product(SCHEMES, PARTITIONS, range(options.seeds)))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        accuracies = list(pool.map(lambda job: run(job[0], job[1], job[2], options.rounds, options.out), jobs))
    results: dict[tuple[str, str], list[float]] = {}
    for (scheme, partition, _), accuracy in zip(jobs, accuracies, strict=True):
        results.setdefault((scheme, partition), []).append(accuracy)
    print(f"Mean test accuracy in percent of the last five of {options.rounds} rounds, {options.seeds} seeds\n")
    print(table(results))


if __name__ == "__main__":
    main()
