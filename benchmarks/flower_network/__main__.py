"""A network of ours beside stock Flower: seconds, CPU seconds and memory of a round, on this machine, one run of each.

    python -m benchmarks.flower_network [--rounds 6] [--dataset synthetic] [--out FOLDER] [--only ours|stock]

Ours: 3 edges and 6 devices as `bfl network lab` starts them, from kits, one command per machine; TLS, signatures,
gossip, replay, finality and mining included. The peer: one SuperLink and 6 SuperNodes as Flower ships them, without
TLS, and plain FedAvg. Both train the same network on the same mini-batches with the same code (nobody offloads), one
thread each, and evaluate every round's model on the same test set: FedAvg once, ours on each edge. All on loopback.

Rounds are counted after the first, which has the start of everything in it. CPU seconds are those of all processes
that were started, ended ones included. The machine's load average stands in the table: where others work beside,
CPU seconds tell more than seconds. Everything that it starts ends with it. Linux.
"""

import argparse
import ctypes
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.flower_network.stock import metrics_of, stock_network
from benchmarks.flower_network.tables import process_table, ratio_table
from benchmarks.flower_network.watching import Measured, watch
from bfl.network.lab.audits import audit_all
from bfl.network.lab.params import LabParams
from bfl.network.lab.rehearsal import open_lab
from edge_servers.parameters import Settings

EDGES, DEVICES = 3, 6
_PATIENCE_S, _ROUND_S = 300.0, 120.0
_PR_SET_CHILD_SUBREAPER = 36


def settings_of(dataset: str) -> dict[str, Any]:
    """Where the network differs from a lab's: everybody trains itself, on all it has."""
    return {"dataset": dataset, "planner": "fixed:none", "data-per-round": "all"}


def run_ours(folder: Path, rounds: int, dataset: str) -> Measured:
    """Our network."""
    params = LabParams(folder, EDGES, DEVICES, 1 + rounds, dataset, settings=settings_of(dataset))
    with open_lab(params) as lab:
        lab.prepare()
        lab.start()
        found = watch(lambda: min(lab.rounds().values()), rounds, _patience_s(rounds), _say("ours"))
        print(f"  ours: accuracy {100 * (lab.accuracy() or 0.0):.2f} %", file=sys.stderr)
        lab.end()
        if any(audit_all(params, lambda line: print(f"  {line}", file=sys.stderr)).values()):
            raise RuntimeError(f"an audit does not fit; see {folder}")
    return found


def run_stock(folder: Path, rounds: int, dataset: str) -> Measured:
    """The peer."""
    settings = Settings.read({**settings_of(dataset), "devices": DEVICES})
    with stock_network(folder, settings, 1 + rounds):
        found = watch(lambda: len(metrics_of(folder)) - 1, rounds, _patience_s(rounds), _say("stock"))
        print(f"  stock: accuracy {100 * metrics_of(folder)[-1]['accuracy']:.2f} %", file=sys.stderr)
    return found


def _patience_s(rounds: int) -> float:
    return _PATIENCE_S + rounds * _ROUND_S


def _say(name: str) -> Any:
    return lambda text: print(f"  {name}: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Run both, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="rounds after the first [6]")
    parser.add_argument("--dataset", default="synthetic", help="[synthetic]")
    parser.add_argument("--out", type=Path, help="folder in which kits, logs and chains stay; new or empty")
    parser.add_argument("--only", choices=("ours", "stock"), help="one of them")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"found --rounds {options.rounds}, expected 1 at least")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # who loses its parent stays below this process
    found = {}
    with ExitStack() as stack:
        out = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, run in (("ours", run_ours), ("stock", run_stock)):
            if options.only in (None, name):
                found[name] = run(out / name, options.rounds, options.dataset)
                print(f"\n{process_table(name, found[name])}", flush=True)
    if len(found) == 2:
        print(f"\n{ratio_table(found['ours'], found['stock'])}")


if __name__ == "__main__":
    main()
