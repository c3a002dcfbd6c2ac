"""Faults in a network of processes: what each costs, who is accused (nobody may be), and what is lost (nothing may be).

    python -m benchmarks.faults [--row NAME ...] [--by-phase] [--runs 10] [--seed 0] [--devices 6]
                                [--out FILE] [--logs FOLDER]
    python -m benchmarks.faults --show FILE ...

Three edge servers with their nodes and six devices with their miners run as processes in network namespaces of their
own (root; see tests/lan). Each run of a row strikes at a random moment of a running round, or where the row says so at
the leader in a phase of it; mends what it broke, and waits until the network has sealed two more rounds at every node.
Deadlines have short offsets (tests/lan/network.py, SHORT), so a failed attempt costs seconds. With n runs without an
accusation the chance of one per fault is below 3 / n (95 %).

Every run is a line of `--out` as soon as it is over; started again with the same file, only what is missing of `--runs`
is done. A network that is stuck is told with the last lines of all its processes, and founded anew, as is one that has
run for long.

Columns: attempts lost (leaders that were passed over), seconds more than the same number of rounds took before the
faults began, participants accused (flags, and pairs of signatures that would convict), final blocks that were lost. By
phase: what a dead leader costs, from the kill to the next final block less a calm round; the others miss it at a
deadline, which counts from the beginning of the attempt.
"""

import argparse
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults import leaders, records, strikes
from benchmarks.faults.arena import Arena, Strike, StuckError
from benchmarks.faults.records import CALM, Run
from tests.lan.lan import Lan
from tests.lan.network import LanNetwork
from tests.lan.watching import AWAY

EDGES, DEVICES = 3, 6
ROWS: dict[str, Strike] = {**strikes.ROWS, **leaders.ROWS}
_ROUNDS_OF_A_NETWORK = 150
_DISK_MB = 128
_MISSES = 5
"""Of a run, before it is given up"""


class Measurement:
    """The runs that are to be done, and what came of them."""

    def __init__(
        self, rows: list[str], runs: int, seed: int, out: Path | None, logs: Path | None, devices: int = DEVICES
    ) -> None:
        self.rows, self._runs, self._out, self._logs, self._devices = rows, runs, out, logs, devices
        self.found = records.read([out] if out else [])
        self._rng, self._misses, self._networks = random.Random(f"{seed}.{len(self.found)}"), 0, 0

    def next_row(self) -> str | None:
        """The first row that is not done."""
        return next((row for row in self.rows if records.done(self.found, row) < self._runs), None)

    def do_all(self) -> None:
        """Network after network, until every row is done."""
        while self.next_row() is not None:
            with self._network() as arena:
                self._use(arena)

    @contextmanager
    def _network(self) -> Iterator[Arena]:
        names = [*(f"edge-{m}" for m in range(EDGES)), *(f"device-{n}" for n in range(self._devices))]
        self._networks += 1
        logs = None if self._logs is None else self._logs / f"network-{os.getpid()}-{self._networks}"
        if logs is not None:
            logs.mkdir(parents=True)
        with Lan.open(names, folder=logs, disk_mb=_DISK_MB) as lan:
            net = LanNetwork.found(lan, EDGES, self._devices)
            net.start_all()
            yield Arena(net, self._rng)

    def _use(self, arena: Arena) -> None:
        """Run after run, until the network is stuck or has run for long."""
        try:
            calm = arena.settle()
        except (StuckError, *AWAY) as stuck:
            self._tell_stuck(arena, f"without a fault: {stuck}")
            self._keep(Run(CALM, stuck=str(stuck)[:500]))
            return
        self._keep(calm)
        phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in arena.phase_s.items())
        _say(f"a round without a fault takes {arena.calm_s:.1f} s ({phases}), load {os.getloadavg()[0]:.1f}")
        while (row := self.next_row()) is not None:
            run = self._one(arena, row)
            self._keep(run)
            if run.stuck or max(map(arena.net.safe_final, arena.net.edge_names)) > _ROUNDS_OF_A_NETWORK:
                return

    def _one(self, arena: Arena, row: str) -> Run:
        try:
            return arena.run(row, ROWS[row])
        except (StuckError, *AWAY) as stuck:
            self._tell_stuck(arena, f"{row}: {stuck}")
            return Run(row, calm_s=round(arena.calm_s, 2), stuck=f"{type(stuck).__name__}: {stuck}"[:500])

    def _keep(self, run: Run) -> None:
        self._misses = self._misses + 1 if run.missed else 0
        if self._misses > _MISSES:
            _say(f"{run.row}: given up, missed {self._misses} times in a row")
            self.rows.remove(run.row)
            self._misses = 0
        self.found.append(run)
        if self._out is not None:
            records.append(self._out, run)
        _say(f"{run.row}, run {records.done(self.found, run.row)}: {records.told(run)}")

    def _tell_stuck(self, arena: Arena, why: str) -> None:
        _say(f"STUCK, {why}")
        print(arena.net.lan.tails, flush=True)


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def show(runs: list[Run]) -> None:
    """The tables."""
    print(f"\n{records.fault_table(runs, [CALM, *ROWS])}")
    if any(run.leader is not None for run in runs):
        print(f"\n{records.phase_table(runs, leaders.KILLED_IN)}")


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=ROWS, help="may be repeated (default: all)")
    parser.add_argument("--by-phase", action="store_true", help="only the rows of leaders that die in a phase")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", type=int, default=DEVICES)
    parser.add_argument("--out", type=Path, help="file to which every run is appended, and whose runs count")
    parser.add_argument("--logs", type=Path, help="folder in which what all processes said stays")
    parser.add_argument(
        "--show", type=Path, nargs="+", metavar="FILE", help="print the tables of such files, run nothing"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    if options.show:
        show(records.read(options.show))
        return
    rows = options.row or (leaders.BY_PHASE if options.by_phase else list(ROWS))
    measurement = Measurement(list(rows), options.runs, options.seed, options.out, options.logs, options.devices)
    try:
        measurement.do_all()
    finally:
        show(measurement.found)


if __name__ == "__main__":
    main()
