"""Faults in a network of processes: what each costs, who is accused (nobody may be), and what is lost (nothing may be).

    python -m benchmarks.faults [--row NAME ...] [--runs 10] [--seed 0]

Three edge servers with their nodes and six devices with their miners run as processes in network namespaces of their
own (root; see tests/lan). Each run of a row strikes at a random moment of a running round, mends what it broke, and
waits until the network has sealed two more rounds at every node. Deadlines have short offsets (tests/lan/network.py,
SHORT), so a failed attempt costs seconds. With n runs without an accusation the chance of one per fault is below 3 / n
(95 %).

Columns: attempts lost (leaders that were passed over), seconds more than the same number of rounds took before the
faults began, participants flagged, final blocks that were lost.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.lan.lan import Lan
from tests.lan.network import LanNetwork

EDGES, DEVICES = 3, 6
_MOST_S = 240.0
_CALM_ROUNDS = 5
Strike = Callable[["Arena"], None]


@dataclass
class Found:
    """What the runs of a row came to."""

    attempts: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accused: int = 0
    lost: int = 0
    stuck: int = 0


class Arena:
    """A running network that faults are let loose on."""

    def __init__(self, net: LanNetwork, rng: random.Random) -> None:
        self.net, self.rng = net, rng
        self.calm_s = 5.0
        self._seen: dict[int, str] = {}

    # --- what to hit

    def leader(self) -> str:
        """The edge whose server leads the running round at attempt 0."""
        edge = self.net.edge_names[0]
        servers = self.net.ask(edge, "bfl_getBlockSummary", hex(self.net.final(edge)))
        home = servers.get("leader", "")
        return next((name for name in self.net.edge_names if self.net.addresses[name] == home), edge)

    def some_edge(self) -> str:
        return self.rng.choice(self.net.edge_names)

    def some_device(self) -> str:
        return self.rng.choice(self.net.device_names)

    def moment(self) -> None:
        """A random moment of a round."""
        time.sleep(self.rng.uniform(0, 1.2 * self.calm_s))

    def hit(self, machine: str, *parts: str, away_s: float) -> None:
        """Kill parts of a machine, and start them again after a while."""
        processes = [self.net.processes[f"{machine} {part}"] for part in parts]
        for process in processes:
            process.kill()
        time.sleep(away_s)
        for process in processes:
            process.restart()

    # --- what came of it

    def run(self, strike: Strike, found: Found) -> None:
        """Strike once, and wait until the network has got over it."""
        net = self.net
        first = max(net.final(edge) for edge in net.edge_names)
        flags, attempts, began = self.flags(), self.attempts(), time.monotonic()
        self.moment()
        strike(self)
        last = max(net.safe_final(edge) for edge in net.edge_names) + 2
        try:
            net.wait_for_round(last - 1, _MOST_S)
        except AssertionError as stuck:
            found.stuck += 1
            print(f"    stuck: {stuck}", flush=True)
            return
        took = time.monotonic() - began
        found.seconds.append(max(0.0, took - (last - first) * self.calm_s))
        found.attempts.append(self.attempts() - attempts)
        found.accused += self.flags() - flags
        found.lost += self.lost(last)

    def flags(self) -> int:
        """Accusations that are sealed or pending anywhere."""
        return self.net.count_events("Flagged")

    def attempts(self) -> int:
        """Attempts that were begun with a certificate, in sealed blocks."""
        return self.net.count_events("AttemptBegun")

    def lost(self, last: int) -> int:
        """Blocks that were final at some node and are not the same everywhere now."""
        count = 0
        for number in range(2, last + 1):
            hashes = {self.net.hash_of(edge, number) for edge in self.net.edge_names}
            known = self._seen.setdefault(number, min(hashes))
            count += len(hashes | {known}) > 1
        return count


def kill_edge_server(arena: Arena) -> None:
    arena.hit(arena.some_edge(), "edge-server", away_s=arena.rng.uniform(0, 8))


def kill_node(arena: Arena) -> None:
    arena.hit(arena.some_edge(), "node", away_s=arena.rng.uniform(0, 8))


def kill_machine(arena: Arena) -> None:
    arena.hit(arena.some_edge(), "node", "edge-server", away_s=arena.rng.uniform(0, 8))


def kill_two(arena: Arena) -> None:
    first, second = arena.rng.sample(arena.net.edge_names, 2)
    arena.hit(first, "edge-server", away_s=0.5)
    arena.hit(second, "node", "edge-server", away_s=arena.rng.uniform(0, 5))


def kill_device(arena: Arena) -> None:
    arena.hit(arena.some_device(), "device-stub", away_s=arena.rng.uniform(0, 10))


def kill_miner(arena: Arena) -> None:
    arena.hit(arena.some_device(), "miner", away_s=arena.rng.uniform(0, 10))


def stop_server(arena: Arena) -> None:
    """A server that is stopped for 30 s and goes on: slow, not dead; its late words must harm nobody."""
    process = arena.net.processes[f"{arena.some_edge()} edge-server"]
    process.stop()
    time.sleep(30)
    process.go_on()


def stop_node(arena: Arena) -> None:
    process = arena.net.processes[f"{arena.some_edge()} node"]
    process.stop()
    time.sleep(30)
    process.go_on()


def partition_one(arena: Arena) -> None:
    """One edge away for about three rounds."""
    edge = arena.some_edge()
    others = {name for name in arena.net.edge_names if name != edge}
    arena.net.lan.partition({edge}, others)
    time.sleep(3 * arena.calm_s + 5)
    arena.net.lan.heal()


def partition_all(arena: Arena) -> None:
    """No majority anywhere: the network pauses."""
    arena.net.lan.partition(*({name} for name in arena.net.edge_names))
    time.sleep(20)
    arena.net.lan.heal()


def lose_packets(arena: Arena) -> None:
    machines = [arena.net.lan[name] for name in arena.net.edge_names]
    for machine in machines:
        machine.lose(2)
    time.sleep(2 * arena.calm_s)
    for machine in machines:
        machine.lose(0)


def slow_device(arena: Arena) -> None:
    machine = arena.net.lan[arena.some_device()]
    machine.limit("2mbit")
    time.sleep(2 * arena.calm_s)
    machine.limit(None)


def skewed_clock(arena: Arena) -> None:
    """An edge whose clock is 2 s off."""
    edge = arena.some_edge()
    arena.net.lan[edge].skew(arena.rng.choice((-2.0, 2.0)))
    arena.hit(edge, "node", "edge-server", away_s=0.5)
    time.sleep(2 * arena.calm_s)
    arena.net.lan[edge].skew(0.0)
    arena.hit(edge, "node", "edge-server", away_s=0.5)


def full_disk(arena: Arena) -> None:
    edge = arena.some_edge()
    arena.net.lan[edge].fill_disk()
    time.sleep(2 * arena.calm_s)
    arena.net.lan[edge].empty_disk()
    arena.hit(edge, "node", "edge-server", away_s=0.5)


def lose_signed(arena: Arena) -> None:
    """`signed.db` is gone: the key signs nothing until a round that began after this start."""
    edge = arena.some_edge()
    process = arena.net.processes[f"{edge} edge-server"]
    process.kill()
    for path in arena.net.lan[edge].folder.glob("signed.db*"):
        path.unlink()
    process.restart()


ROWS: dict[str, Strike] = {
    "kill an edge server": kill_edge_server,
    "kill a node": kill_node,
    "kill a machine (node and server)": kill_machine,
    "kill two at once": kill_two,
    "kill a device": kill_device,
    "kill a miner": kill_miner,
    "stop a server for 30 s": stop_server,
    "stop a node for 30 s": stop_node,
    "one edge partitioned for 3 rounds": partition_one,
    "everybody partitioned for 20 s": partition_all,
    "2 % of packets lost": lose_packets,
    "a device with 2 Mbit/s": slow_device,
    "a clock 2 s off": skewed_clock,
    "a full disk on one edge": full_disk,
    "signed.db lost": lose_signed,
}


def measure(rows: list[str], runs: int, seed: int, logs: Path | None = None) -> dict[str, Found]:
    """Run the rows one after the other on one network; a network that is stuck is started anew."""
    table = {name: Found() for name in rows}
    names = [*(f"edge-{m}" for m in range(EDGES)), *(f"device-{n}" for n in range(DEVICES))]
    with Lan.open(names, folder=logs) as lan:
        net = LanNetwork.found(lan, EDGES, DEVICES)
        net.start_all()
        net.wait_for_round(2, _MOST_S)
        arena = Arena(net, random.Random(seed))
        arena.calm_s = net.wait_for_round(2 + _CALM_ROUNDS, _MOST_S) / _CALM_ROUNDS
        print(f"a round without a fault takes {arena.calm_s:.1f} s", flush=True)
        for name in rows:
            for run in range(runs):
                arena.run(ROWS[name], table[name])
                print(f"  {name}: run {run + 1} of {runs}, {_told(table[name])}", flush=True)
    return table


def _told(found: Found) -> str:
    worst = max(found.seconds, default=0.0)
    return f"worst {worst:.0f} s, {found.accused} accused, {found.lost} lost, {found.stuck} stuck"


def show(table: dict[str, Found]) -> None:
    """The table."""
    print("\n| fault | n | attempts lost | seconds lost, median (worst) | accused | blocks lost | stuck |")
    print("|---|---|---|---|---|---|---|")
    for name, found in table.items():
        seconds = found.seconds or [0.0]
        lost = f"{statistics.median(seconds):.0f} ({max(seconds):.0f})"
        cells = (len(found.seconds), sum(found.attempts), lost, found.accused, found.lost, found.stuck)
        print(f"| {name} | {' | '.join(map(str, cells))} |")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=ROWS, help="may be repeated (default: all)")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, help="folder in which what all processes said stays")
    options = parser.parse_args()
    show(measure(options.row or list(ROWS), options.runs, options.seed, options.logs))


if __name__ == "__main__":
    main()
