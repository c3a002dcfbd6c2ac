"""A running network that faults are let loose on: what to hit, and what came of it."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.faults.records import CALM, DeadLeader, Run
from tests.lan.network import LanNetwork
from tests.lan.process import MachineProcess
from tests.lan.watching import AWAY, PHASES, RoundWatcher

MOST_S = 240.0
"""After so long without a round a network is stuck"""
CALM_ROUNDS = 4
EDGE_PARTS = ("node", "edge-server")


@dataclass
class Struck:
    """What a strike has to tell of itself."""

    missed: str = ""
    leader: DeadLeader | None = None
    note: dict[str, Any] = field(default_factory=dict)


Strike = Callable[["Arena"], Struck | None]


class StuckError(Exception):
    """The network does not go on."""


class Arena:
    """A network, the random moments at which it is struck, and what it was like before."""

    def __init__(self, net: LanNetwork, rng: random.Random) -> None:
        self.net, self.rng, self.watch = net, rng, RoundWatcher(net)
        self.calm_s = 5.0
        self.phase_s: dict[str, float] = dict.fromkeys(PHASES, 0.2)
        """How long the phases of a calm round take."""
        self._offsets = dict.fromkeys(net.edge_names, 0.0)
        self._known: dict[int, str] = {}

    # --- without a fault

    def settle(self) -> Run:
        """Wait until the network runs, and see what calm rounds are like; nobody may be accused or end in them."""
        self.wait_for_round(2)
        died = self.revive()
        first = self.net.final(self.net.edge_names[0])
        began, seen = time.monotonic(), dict[str, list[float]]()
        phase, since = "", began
        while self.net.safe_final(self.net.edge_names[0]) < first + CALM_ROUNDS:
            sight = self.watch.wait(lambda: self.watch.sight(self.net.edge_names[0]), MOST_S)
            if sight is None or time.monotonic() - began > CALM_ROUNDS * MOST_S:
                raise StuckError(f"{CALM_ROUNDS} calm rounds took more than {CALM_ROUNDS * MOST_S:g} s")
            if sight.phase != phase:
                now = time.monotonic()
                seen.setdefault(phase, []).append(now - since)
                phase, since = sight.phase, now
        self.calm_s = (time.monotonic() - began) / CALM_ROUNDS
        self.phase_s |= {phase: statistics.median(seen[phase]) for phase in PHASES if phase in seen}
        self.wait_for_round(first + CALM_ROUNDS - 1)
        last, died = first + CALM_ROUNDS, died + self.revive()
        return Run(
            CALM,
            calm_s=round(self.calm_s, 2),
            attempts=self.passed_over(1, last),
            accused=self.accusations(),
            lost=self.lost(1, last),
            died=tuple(died),
        )

    def wait_for_round(self, round_: int, edges: Sequence[str] | None = None, most_s: float = MOST_S) -> float:
        """Until a round is final at these edges (all of them)."""
        try:
            return self.net.wait_for_round(round_, most_s, list(edges or self.net.edge_names))
        except AssertionError as stuck:
            raise StuckError(str(stuck)) from stuck

    # --- what to hit

    def leader(self) -> str:
        """The edge that leads the attempt that is running."""
        edges = self.net.edge_names
        found = self.watch.wait(lambda: self.watch.sight(self.rng.choice(edges)), MOST_S)
        if found is None:
            raise StuckError("no node tells who leads")
        return found.leader

    def others(self, edge: str) -> list[str]:
        """The other edges."""
        return [each for each in self.net.edge_names if each != edge]

    def some_edge(self) -> str:
        return self.rng.choice(self.net.edge_names)

    def some_device(self) -> str:
        return self.rng.choice(self.net.device_names)

    def moment(self) -> None:
        """A random moment of a round."""
        time.sleep(self.rng.uniform(0, self.calm_s))

    def parts(self, machine: str, *parts: str) -> list[MachineProcess]:
        """Processes of a machine."""
        return [self.net.processes[f"{machine} {part}"] for part in parts]

    def with_devices(self, edges: Sequence[str]) -> set[str]:
        """Edges with the devices whose home they are."""
        homes = {name: self.net.home_of(name) for name in self.net.device_names}
        return {*edges, *(device for device, home in homes.items() if home in edges)}

    # --- what to do to it

    def kill(self, processes: Sequence[MachineProcess]) -> None:
        """All of them in one moment: stopped first, as killing one takes a while."""
        for process in processes:
            if process.is_alive:
                process.stop()
        for process in processes:
            process.kill()

    def hit(self, processes: Sequence[MachineProcess], away_s: float) -> None:
        """Kill, and start again after a while."""
        self.kill(processes)
        time.sleep(away_s)
        for process in processes:
            process.restart()

    def skew(self, edge: str, seconds: float) -> None:
        """From its next start on an edge's clock is so much further ahead."""
        self._offsets[edge] += seconds
        self.net.lan[edge].skew(self._offsets[edge])

    # --- what came of it

    def run(self, row: str, strike: Strike) -> Run:
        """Strike once, and wait until the network has sealed two more rounds everywhere."""
        net = self.net
        first = max(map(net.safe_final, net.edge_names))
        accused, began = self.accusations(), time.monotonic()
        self.note_final()
        struck = strike(self) or Struck()
        self.note_final()
        last = max(map(net.safe_final, net.edge_names)) + 2
        self.wait_for_round(last - 1)
        took = time.monotonic() - began
        died = self.revive()
        return Run(
            row,
            calm_s=round(self.calm_s, 2),
            seconds=round(max(0.0, took - (last - first) * self.calm_s), 2),
            attempts=self.passed_over(first, last),
            accused=self.accusations() - accused,
            lost=self.lost(first, last),
            died=tuple(died),
            missed=struck.missed,
            leader=struck.leader,
            note=struck.note,
        )

    def accusations(self) -> int:
        """Flags that are sealed or pending anywhere, and pairs of signatures that would convict somebody."""
        net = self.net
        return net.count_events("Flagged") + max(len(net.ask(edge, "bfl_contradictions")) for edge in net.edge_names)

    def passed_over(self, first: int, last: int) -> int:
        """Leaders that were passed over in the rounds after a block."""
        return sum(self.watch.ended_in(self.net.edge_names[0], number) for number in range(first + 1, last + 1))

    def note_final(self) -> None:
        """Remember the last final block of each node that answers: it must stay."""
        for edge in self.net.edge_names:
            try:
                final = self.net.ask(edge, "eth_getBlockByNumber", "finalized", False)
            except AWAY:
                continue
            self._known.setdefault(int(final["number"], 16), str(final["hash"]))

    def lost(self, first: int, last: int) -> int:
        """Blocks that were final at some node and are not the same everywhere now."""
        count = 0
        for number in range(max(2, first), last + 1):
            hashes = {self.net.hash_of(edge, number) for edge in self.net.edge_names}
            count += len(hashes | {self._known.setdefault(number, min(hashes))}) > 1
        return count

    def revive(self) -> list[str]:
        """Start again what has ended by itself; its names."""
        ended = [name for name, process in self.net.processes.items() if not process.is_alive]
        for name in ended:
            print(f"    {name} has ended by itself; it said:\n{self.net.processes[name].tail}", flush=True)
            self.net.processes[name].restart()
        return ended
