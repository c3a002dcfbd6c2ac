"""Whether synthetic data tell schemes apart: `python -m benchmarks.synthetic [--seeds 3] [--hardness 0 0.5 1]`.

Ten devices with two labels each, three servers, everything else as `bfl simulate --dataset synthetic` has it. Prints
the accuracy after so many rounds, mean and standard deviation over the seeds, the gap to fedavg of the same seed, and
that gap in its own standard errors: beyond 2 or 3 it is no chance.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bfl.config import read_settings
from bfl.simulation import run as simulation

SCHEMES = ("fedavg", "bfl", "bfl-no-consensus", "traditional")


def accuracy(scheme: str, seed: int, rounds: int, hardness: float, partition: str) -> float:
    """In percent, of the last round."""
    flags: dict[str, object] = {"dataset": "synthetic", "scheme": scheme, "seed": seed, "rounds": rounds, "threads": 1}
    flags |= {"hardness": hardness, "partition": partition, "evaluate-every": 0}
    found: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        ready = simulation.start(read_settings(flags=flags), Path(scratch) / "run")
        simulation.run(ready, lambda report: found.extend([report.scores.accuracy] if report.scores else []))
    return 100 * found[-1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--hardness", type=float, nargs="*", default=[0.0, 0.5, 1.0])
    parser.add_argument("--partition", default="non-iid")
    options = parser.parse_args()
    print(f"{options.rounds} rounds, {options.partition}, {options.seeds} seeds\n")
    print("| hardness | scheme | accuracy (%) | gap to fedavg | in standard errors |\n|---|---|---|---|---|")
    for hardness in options.hardness:
        by_scheme: dict[str, NDArray[np.float64]] = {}
        for scheme in SCHEMES:
            runs = [
                accuracy(scheme, seed, options.rounds, hardness, options.partition) for seed in range(options.seeds)
            ]
            by_scheme[scheme] = np.array(runs)
            gaps = by_scheme[scheme] - by_scheme["fedavg"]
            error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            cells = "- | -" if scheme == "fedavg" else f"{gaps.mean():+.1f} | {abs(gaps.mean()) / max(error, 1e-9):.1f}"
            spread = by_scheme[scheme].std(ddof=1) if len(gaps) > 1 else 0.0
            print(f"| {hardness:g} | {scheme} | {by_scheme[scheme].mean():.1f} ± {spread:.1f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
