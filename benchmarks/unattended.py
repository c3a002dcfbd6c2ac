"""A network of processes that nobody looks after: does it stay the same, and what does a round cost beyond simulation?

    python -m benchmarks.unattended [--rounds 30] [--seeds 3] [--phi 2] [--logs FOLDER] [--short]

Three edge servers with their nodes and six devices with their miners run as processes in network namespaces of their
own (root; see tests/lan), with the deadlines of a deployment (docs/network.md; `--short`: those of the tests). After so
many rounds all nodes must have the same head, `bfl audit check` must fit on each node's chain, and nobody may have been
absent, passed over or accused (but in round 1, which began with the founding, before anybody was there). Accuracy
stands beside `bfl simulate` with the same settings and some seeds, the first of them the network's own; seconds per
round beside the same rounds in that simulation, the search for nonces apart: retargeting lengthens it until blocks are
`block-s` apart, however fast the rest of a round is.

Memory, open files, threads and folders are looked at every few rounds: their growth per round in the first and in the
last third, by kind of process. *Flat*: the last third added less than 2 %; of folders, which keep the chain, *steady*:
a round of the last third added no more than one of the first. Exit code 1 if anything is not as it must be.
"""

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.processes import ONE, Taken, folder_mb, growth, taken_by
from edge_servers.parameters import RoundParams, Settings
from tests.lan.lan import Lan
from tests.lan.network import SHORT, LanNetwork

EDGES, DEVICES = 3, 6
_DISK_MB, _SAMPLES, _STARTS_S, _ROUND_S = 1024, 30, 300.0, 240.0
_LOOK_S = 1.0
_READY = "Ctrl-C stops it"
_DEFAULTS = RoundParams()
DEPLOYMENT: dict[str, Any] = {
    **{name: getattr(_DEFAULTS, name) for name in SHORT if name.endswith("_s")},
    "deadline_s": 60.0,
}
"""The deadlines of docs/network.md"""


@dataclass
class Watched:
    """What was seen while the network ran."""

    rounds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    processes: list[dict[str, Taken]] = field(default_factory=list)
    folders: list[dict[str, float]] = field(default_factory=list)

    def look(self, net: LanNetwork, round_: int) -> None:
        """One sample of everything."""
        found = taken_by(process.pid for process in net.processes.values())
        self.rounds.append(round_)
        self.seconds.append(time.monotonic())
        self.processes.append({name: found[process.pid] for name, process in net.processes.items()})
        names = [*net.edge_names, *net.device_names]
        self.folders.append({name: folder_mb(net.lan[name].folder) for name in names})

    @property
    def round_s(self) -> float:
        """Seconds of a round."""
        return (self.seconds[-1] - self.seconds[0]) / (self.rounds[-1] - self.rounds[0])


def run_network(net: LanNetwork, rounds: int) -> Watched:
    """Run the rounds, and look every few of them."""
    watched, every = Watched(), max(1, rounds // _SAMPLES)
    _start(net)
    net.wait_for_round(1, _STARTS_S)
    watched.look(net, 1)
    for round_ in [*range(1 + every, rounds, every), rounds]:
        net.wait_for_round(round_, every * _ROUND_S, look_s=_LOOK_S)
        if round_ < rounds:  # when the last one is over, servers end
            watched.look(net, round_)
            print(f"  round {round_}: {watched.round_s:.2f} s each", flush=True)
    for edge in net.edge_names:
        net.processes[f"{edge} edge-server"].wait(_ROUND_S)  # it reads and evaluates its last block
    return watched


def _start(net: LanNetwork) -> None:
    """Servers last and together: one that comes late to round 1 is absent in it."""
    nodes = [net.start(name, "node") for name in net.edge_names]
    for node in nodes:
        node.wait_for(_READY, _STARTS_S)
    devices = [net.start(name, part) for name in net.device_names for part in ("device-stub", "miner")]
    for device in devices:
        device.wait_for(_READY, _STARTS_S)
    for name in net.edge_names:
        net.start(name, "edge-server")


# --- what must be


def faults_of(net: LanNetwork, rounds: int) -> list[str]:
    """Everything that is not as it must be on a network that has run its rounds."""
    heads = {net.hash_of(edge, rounds + 1) for edge in net.edge_names}
    found = [f"{len(heads)} different blocks of round {rounds}"] * (len(heads) > 1)
    found += [f"{count} flags" for count in (net.count_events("Flagged"),) if count]
    for edge in net.edge_names:
        pairs = net.ask(edge, "bfl_contradictions")
        found += [f"{edge} has {len(pairs)} contradictions"] * bool(pairs)
        found += [f"{edge}: {fault}" for line in metrics(net.lan[edge].folder) for fault in faults_in(line)]
    return found


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a server's or a run's metrics."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def faults_in(line: dict[str, Any]) -> list[str]:
    """What a server says of a round that should not have been."""
    expected = _ACCUSED if line["round"] == 1 else (*_ACCUSED, *_MISSED)
    told = [f"round {line['round']}: {what} {line[what]}" for what in expected if line[what]]
    return told + [f"round {line['round']}: {line['training-nodes']} gradients"] * (line["training-nodes"] != DEVICES)


_ACCUSED = ("offences", "excluded", "refused")
_MISSED = ("absent", "failed-leaders")


def mined_s(net: LanNetwork, rounds: Sequence[float]) -> float:
    """Seconds that a nonce was searched for, per round, by those who led them."""
    told = "".join(net.processes[f"{edge} edge-server"].said for edge in net.edge_names)
    found = {int(round_): float(seconds) for round_, seconds in _MINED.findall(told)}
    wanted = [found[each] for each in found if rounds[0] < each <= rounds[-1]]
    return statistics.fmean(wanted)


_MINED = re.compile(r"round (\d+): mined in ([0-9.]+) s")


def stop_all(net: LanNetwork) -> list[str]:
    """End every process as systemd does; what did not end as it should."""
    wrong = []
    for name, process in net.processes.items():
        code = process.terminate(30) if process.is_alive else process.wait(0)
        wrong += [f"{name} ended with {code}"] * (code != 0)
    return wrong


def audit_all(net: LanNetwork) -> list[str]:
    """`bfl audit check` of every node's chain; what does not fit."""
    wrong = []
    for edge in net.edge_names:
        database = net.lan[edge].folder / "chain.db"
        checked = _bfl("audit", "check", str(database), check=False)
        is_right = checked.returncode == 0 and "nobody misbehaved" in checked.stdout
        if not is_right or "was absent" in checked.stdout:
            wrong.append(f"audit of {edge}: exit code {checked.returncode}\n{checked.stdout}{checked.stderr}")
        print(f"audit of {edge}: {'fits, nobody misbehaved' if is_right else 'DOES NOT FIT'}", flush=True)
    return wrong


def _bfl(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bfl", *words], capture_output=True, text=True, check=check)


# --- beside a simulation


@dataclass(frozen=True)
class Simulated:
    """The same rounds in one process."""

    accuracy: float
    round_s: float


def simulate(settings: Settings, rounds: int, seed: int) -> Simulated:
    """`bfl simulate` with these settings."""
    wanted = replace(
        settings, rounds=replace(settings.rounds, rounds=rounds), data=replace(settings.data, seed=seed)
    ).flat()
    ours = {key: value for key, value in wanted.items() if value != Settings().flat()[key]}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = [word for key, value in ours.items() for word in (f"--{key}", str(value))]
        _bfl("simulate", "--out", str(out), *words)
        lines = metrics(out)
    return Simulated(lines[-1]["accuracy"], statistics.fmean(sum(line["seconds"].values()) for line in lines[1:]))


# --- tables


def growth_table(watched: Watched) -> tuple[str, list[str]]:
    """Growth per round by kind of process, and what is not flat."""
    lines = ["| process | of it | at the end | a round adds, first third | last third | |", "|---|---|---|---|---|---|"]
    wrong = []
    kinds = sorted({name.split()[1] for name in watched.processes[0]})
    for kind in kinds:
        for what in ("resident_mb", "files", "threads"):
            values = [_mean(taken, kind, what) for taken in watched.processes]
            found = growth(watched.rounds, values, 0.0 if what == "resident_mb" else ONE)
            lines.append(_row(kind, what, found.at_end, found.first, found.last, "flat" if found.is_flat else "GROWS"))
            wrong += [f"{kind}: {what} grows"] * (not found.is_flat)
    for kind in ("edge", "device"):
        mean = [statistics.fmean(v for name, v in each.items() if name.startswith(kind)) for each in watched.folders]
        found = growth(watched.rounds, mean)
        word = "flat" if found.is_flat else "steady" if found.is_steady else "GROWS FASTER"
        lines.append(_row(f"folder, {kind}", "MB", mean[-1], found.first, found.last, word))
        wrong += [f"folders of {kind}s grow faster and faster"] * (not found.is_steady)
    return "\n".join(lines), wrong


def _row(kind: str, what: str, at_end: float, first: float, last: float, word: str) -> str:
    return f"| {kind} | {what} | {at_end:.1f} | {first:+.4f} | {last:+.4f} | {word} |"


def _mean(taken: dict[str, Taken], kind: str, what: str) -> float:
    return statistics.fmean(getattr(each, what) for name, each in taken.items() if name.split()[1] == kind)


def cpu_table(watched: Watched) -> str:
    """CPU seconds of a round, by kind of process, all processes of a kind together."""
    first, last = watched.processes[0], watched.processes[-1]
    rounds = watched.rounds[-1] - watched.rounds[0]
    spent: dict[str, float] = {}
    for name, taken in last.items():
        kind = name.split()[1]
        spent[kind] = spent.get(kind, 0.0) + (taken.cpu_s - first[name].cpu_s) / rounds
    parts = [f"{kind} {seconds:.2f}" for kind, seconds in sorted(spent.items())]
    return f"CPU seconds of a round: {sum(spent.values()):.2f} ({', '.join(parts)})"


def accuracy_line(found: Sequence[float], simulated: Sequence[Simulated]) -> str:
    """The network's accuracy beside that of the simulation."""
    mine = ", ".join(sorted({f"{100 * each:.2f} %" for each in found}))
    theirs = ", ".join(f"{100 * each.accuracy:.2f} %" for each in simulated)
    return f"accuracy of the last model: network {mine} (its own seed is the first); simulation {theirs}"


def main() -> None:
    """Run, check, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--phi", default="2", help="gossip steps: with many, who leads makes no difference [2]")
    parser.add_argument("--logs", type=Path, help="folder in which what all processes said stays")
    parser.add_argument("--short", action="store_true", help="the short deadlines of the tests")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    if options.rounds < 4:
        parser.error(f"found --rounds {options.rounds}, expected 4 at least")
    names = [*(f"edge-{m}" for m in range(EDGES)), *(f"device-{n}" for n in range(DEVICES))]
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
    with Lan.open(names, folder=options.logs, disk_mb=_DISK_MB) as lan:
        deadlines = {} if options.short else DEPLOYMENT
        net = LanNetwork.found(lan, EDGES, DEVICES, rounds=options.rounds, phi=options.phi, **deadlines)
        watched = run_network(net, options.rounds)
        checks: list[Callable[[], list[str]]] = [
            lambda: faults_of(net, options.rounds),
            lambda: stop_all(net),
            lambda: audit_all(net),
        ]
        wrong = [fault for check in checks for fault in check()]
        accuracies = [metrics(net.lan[edge].folder)[-1]["accuracy"] for edge in net.edge_names]
        settings, mining_s = net.settings, mined_s(net, watched.rounds)
    simulated = [simulate(settings, options.rounds, seed) for seed in range(options.seeds)]
    table, growing = growth_table(watched)
    round_s, own = watched.round_s, simulated[0].round_s
    beside_s = round_s - mining_s
    print(f"\n{table}\n\n{cpu_table(watched)}\n{accuracy_line(accuracies, simulated)}")
    print(
        f"a round takes {round_s:.2f} s, {mining_s:.2f} s of it mining, in simulation {own:.2f} s: "
        f"{round_s - own:.2f} s more, {beside_s - own:.2f} s without mining"
    )
    for each in [*wrong, *growing]:
        print(f"WRONG: {each}")
    sys.exit(1 if wrong or growing else 0)


if __name__ == "__main__":
    main()
