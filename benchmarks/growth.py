"""Cost of growth: seconds per device and peak memory of a round, from 10 to 1,000 devices.

    python -m benchmarks.growth [--devices 10 30 100 300 1000] [--rounds 5] [--chain]

Training and gossip alone (scheme consensus-no-chain), or with `--chain` the whole system (scheme bfl, one node); plans
are fixed in both. Each size is a process of its own, so that its peak memory is its own. Seconds are the middle of the
rounds, without evaluation; the ratio is to the first row.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def one(devices: int, rounds: int, chain: bool) -> None:
    """Run one size in this process; its numbers as JSON on the last line."""
    from bfl.config import read_settings
    from bfl.simulation import run as simulation

    with tempfile.TemporaryDirectory() as folder:
        flags: dict[str, object] = {"devices": devices, "rounds": rounds, "evaluate-every": 0}
        flags |= {"scheme": "bfl" if chain else "consensus-no-chain", "planner": "fixed", "filter": "none"}
        settings = read_settings(flags=flags)
        ready = simulation.start(settings, Path(folder) / "run")
        summary = simulation.run(ready, lambda _: None)
        nodes = ready.federation.servers[0].current.closed
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": summary["seconds-per-round"], "nodes": len(nodes), "peak-mb": peak_mb}))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chain", action="store_true", help="the whole system instead of training alone")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.rounds, options.chain)
        return
    print("| devices | training nodes | s/round | ms per device | ratio | peak MB |\n|---|---|---|---|---|---|")
    first = None
    for devices in options.devices:
        command = [sys.executable, "-m", "benchmarks.growth", "--one", str(devices), "--rounds", str(options.rounds)]
        command += ["--chain"] * options.chain
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        each = 1000 * row["seconds"] / devices
        first = first or each
        numbers = f"{row['seconds']:.3f} | {each:.2f} | {each / first:.2f} | {row['peak-mb']:.0f}"
        print(f"| {devices} | {row['nodes']} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
