"""Two checkouts beside each other: seconds of a round, from one command, run in turn so that both meet the same noise.

    python -m benchmarks.versions --tree OLD --tree NEW [--devices 10] [--rounds 20] [--repeats 5] [--dataset synthetic]

Each run is a `bfl simulate` in a process of its own (one thread of torch); what counts is the median round of a run
(`seconds-per-round` of summary.json, without evaluation), and over the repeats their median. The head must be the same.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def simulate(tree: Path, flags: list[str]) -> tuple[float, str]:
    """Seconds per round of one run of this tree, and its head."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "bfl", "simulate", "--out", str(run), *flags]
        subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        return float(summary["seconds-per-round"]), str(summary["head"])


def main() -> None:
    """Print a row per tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, action="append", required=True)
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dataset", default="synthetic")
    parser.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args()
    flags = {"devices": options.devices, "rounds": options.rounds, "dataset": options.dataset, "nodes": options.nodes}
    given = [part for key, value in flags.items() for part in (f"--{key}", str(value))]
    given += ["--planner", "fixed", "--evaluate-every", "0", "--threads", "1"]
    found: dict[Path, list[tuple[float, str]]] = {tree: [] for tree in options.tree}
    for repeat in range(options.repeats):
        for tree in options.tree if repeat % 2 == 0 else reversed(options.tree):
            found[tree].append(simulate(tree.resolve(), given))
    floor = statistics.median(seconds for seconds, _ in found[options.tree[0]])
    print(f"{options.devices} devices, {options.rounds} rounds, {options.repeats} repeats, {options.dataset}\n")
    print("| tree | s per round | least | times the first | head |\n|---|---|---|---|---|")
    for number, tree in enumerate(options.tree):
        seconds = [each for each, _ in found[tree]]
        heads = {head for _, head in found[tree]}
        median = statistics.median(seconds)
        print(f"| {number} | {median:.4f} | {min(seconds):.4f} | {median / floor:.3f} | {', '.join(heads)[:18]} |")


if __name__ == "__main__":
    main()
