"""kill -9 of any one process of a rehearsal: does `bfl network lab` still end well, and is nobody accused?

    python -m benchmarks.lab_kills [--part PART ...] [--per-lab 2] [--seed 0] [--namespaces] [--out FILE]
                                   [--labs FOLDER]
    python -m benchmarks.lab_kills --show FILE ...

Each lab is the command that a person would type: three edges, four devices, synthetic data. In it a few processes are
killed one after the other, each at a random moment of a round: a supervisor, or one of its parts, of a machine that is
drawn by lot. A kill is followed by the next one only when the network has recovered from it: what was killed
runs again, every edge has sealed two rounds more than the furthest had at the kill, and a device whose part was killed
(but for its miner) has answered an order of a later round.

Columns: when it was killed; how many rounds the furthest edge had sealed when the network had recovered, and after how
many seconds that was; then of the whole lab: its exit code, rounds at every edge, accusations, exclusions and pairs of
signatures that convict, audits that fit, and processes that outlived their supervisor.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bfl.network.lab.machines import OUTLIVED, last_line, read_json
from bfl.network.lan import leftovers

EDGES, DEVICES = 3, 4
SUPERVISOR = "supervisor"
PARTS = {
    "edge": (SUPERVISOR, "node", "superlink", "edge-server"),
    "device": (SUPERVISOR, "supernode", "device", "miner"),
}
_FIRST_ROUNDS, _ROUNDS_OF_A_KILL, _MORE = 3, 12, 2
_LONGEST_WAIT_S, _MOST_S = 4.0, 240.0
_LOOK_S = 0.2
_ANSWERED = re.compile(r" device +round (\d+): (?!refused)")


@dataclass(frozen=True)
class Kill:
    """A process that was killed, and what came of it."""

    part: str
    machine: str
    round: int = 0
    """In which it was killed."""
    into_s: float = 0.0
    """After the round before was seen sealed."""
    sealed: int = 0
    """By the furthest edge, when all had recovered."""
    seconds: float = 0.0
    missed: str = ""
    """Why it does not count."""
    lab: dict[str, object] = field(default_factory=dict)
    """What came of the lab that it was in."""


class RunningLab:
    """`bfl network lab` as somebody would start it, and what its folder tells while it runs."""

    def __init__(self, out: Path, rounds: int, words: Sequence[str]) -> None:
        self._out, self._said, self.rounds = out, out.with_suffix(".said"), rounds
        own = ["--edges", str(EDGES), "--devices", str(DEVICES), "--rounds", str(rounds), "--out", str(out)]
        with self._said.open("wb") as said:
            command = [sys.executable, "-m", "bfl", "network", "lab", *own, *words]
            self._process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def sealed(self) -> dict[str, int]:
        """Rounds by edge, as far as their servers have told them."""
        names = [f"edge-{m + 1}" for m in range(EDGES)]
        lines = {name: last_line(self._out / "kits" / name / "metrics.jsonl") for name in names}
        return {name: json.loads(line)["round"] if line.endswith("}") else 0 for name, line in lines.items()}

    def pid(self, machine: str, part: str) -> int | None:
        """None while it does not run."""
        state = read_json(self._out / "kits" / machine / "state.json")
        found = state.get("pid") if part == SUPERVISOR else state.get("parts", {}).get(part, {}).get("pid")
        is_ours = (leftovers.mark_of(found) or "").startswith(f"lab-{self._process.pid}-") if found else False
        return int(found) if found and is_ours else None

    def answered(self, machine: str) -> int:
        """The last round in which a device has trained or handed over its data."""
        log = self._out / "kits" / machine / "log"
        said = _ANSWERED.findall(log.read_text(errors="replace")) if log.exists() else []
        return max(map(int, said), default=0)

    def is_back(self, kill: Kill, pid: int) -> bool:
        """Whether what had this id runs again, and does its work."""
        is_asked = kill.machine.startswith("device") and kill.part != "miner"
        works = not is_asked or self.answered(kill.machine) > kill.round
        return works and self.pid(kill.machine, kill.part) not in (None, pid)

    def wait_for(self, round_: int) -> str:
        """Until every edge has sealed it; why not."""
        sealed = until(lambda: min(self.sealed().values()) >= round_, self)
        return "" if sealed else f"round {round_} was not sealed everywhere"

    def outcome(self) -> dict[str, object]:
        """When it has ended by itself."""
        code = self._process.wait(_MOST_S + self.rounds * 60)
        summary, said = read_json(self._out / "summary.json"), self._said.read_text(errors="replace")
        return {
            "exit": code,
            "rounds": sorted(set(summary.get("rounds", {}).values())),
            "accused": sum(map(len, summary.get("accused", {}).values())),
            "fits": sum(not each for each in summary.get("audits", {}).values()),
            "outlived": said.count(OUTLIVED),
            "restarts": summary.get("restarts", {}),
            "faults": summary.get("faults", said.strip().splitlines()[-1:]),
        }

    def end(self) -> None:
        """As Ctrl-C does."""
        if self.is_running:
            self._process.terminate()
        self._process.wait(_MOST_S)


def strike(lab: RunningLab, kill: Kill, rng: random.Random) -> Kill:
    """Kill it at a random moment, and wait until the network has recovered."""
    if not until(lambda: lab.pid(kill.machine, kill.part) is not None, lab):
        return replace(kill, missed="it did not run")
    before = max(lab.sealed().values())
    wait_s = rng.uniform(0.0, _LONGEST_WAIT_S)
    time.sleep(wait_s)
    pid = lab.pid(kill.machine, kill.part)
    if pid is None:
        return replace(kill, missed="it did not run")
    struck, began = max(lab.sealed().values()), time.monotonic()
    os.kill(pid, signal.SIGKILL)
    kill = replace(kill, round=struck + 1, into_s=round(wait_s, 1) if struck == before else 0.0)
    missed = lab.wait_for(struck + _MORE)
    if not missed and not until(lambda: lab.is_back(kill, pid), lab):
        missed = "it was not back"
    seconds = round(time.monotonic() - began, 1)
    return replace(kill, sealed=max(lab.sealed().values()), seconds=seconds, missed=missed)


def until(is_so: Callable[[], bool], lab: RunningLab) -> bool:
    """Whether it comes to be so while the lab runs, and in time."""
    end = time.monotonic() + _MOST_S
    while not (found := is_so()) and lab.is_running and time.monotonic() < end:
        time.sleep(_LOOK_S)
    return found


def run_lab(parts: Sequence[tuple[str, str]], rng: random.Random, out: Path, words: Sequence[str]) -> list[Kill]:
    """A lab in which these are killed, one after the other."""
    lab = RunningLab(out, _FIRST_ROUNDS + _ROUNDS_OF_A_KILL * len(parts), words)
    kills: list[Kill] = []
    places = {"edge": rng.sample(range(EDGES), EDGES), "device": rng.sample(range(DEVICES), DEVICES)}
    try:
        trouble = lab.wait_for(_FIRST_ROUNDS - 1)
        for role, part in parts:
            places[role].append(places[role].pop(0))  # each machine once, then again
            kill = Kill(part, f"{role}-{places[role][-1] + 1}", missed=trouble)
            kill = kill if trouble else strike(lab, kill, rng)
            kills.append(kill)
            _say(f"{kill.machine} {part}: {kill.missed or f'round {kill.round}, recovered in {kill.seconds:.0f} s'}")
        outcome = lab.outcome()
    finally:
        lab.end()
    _say(f"the lab: {outcome}")
    return [replace(kill, lab=outcome) for kill in kills]


def table(kills: Sequence[Kill]) -> str:
    """For people."""
    columns = "part killed | machine | moment | rounds sealed when all had recovered | seconds until then"
    lines = [f"| {columns} | lab: exit code | rounds | accused | audits that fit | outlived |", f"|{'---|' * 10}"]
    for kill in kills:
        moment = f"round {kill.round}, {kill.into_s:.1f} s into it" if kill.round else "-"
        came = f"{kill.sealed} | {kill.seconds:.0f}" if not kill.missed else f"MISSED: {kill.missed} | -"
        told, rounds = kill.lab, "/".join(map(str, _listed(kill.lab.get("rounds")))) or "none"
        lines.append(
            f"| {kill.part} | {kill.machine} | {moment} | {came} | {told['exit']} | {rounds} | {told['accused']} | "
            f"{told['fits']} of {EDGES} | {told['outlived']} |"
        )
    return "\n".join(lines)


def _listed(found: object) -> list[object]:
    return found if isinstance(found, list) else []


def read(paths: Sequence[Path]) -> list[Kill]:
    """What earlier runs have kept."""
    return [Kill(**json.loads(line)) for path in paths for line in path.read_text().splitlines()]


def is_bad(kill: Kill) -> bool:
    """Whether it did what the lab promises not to."""
    return bool(kill.missed or kill.lab["exit"] or kill.lab["accused"] or kill.lab["outlived"])


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main() -> None:
    """Measure, and print the table."""
    named = [f"{role}:{part}" for role, parts in PARTS.items() for part in parts]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=named, help="may be repeated (default: all)")
    parser.add_argument("--per-lab", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--namespaces", action="store_true", help="machines with addresses of their own (root)")
    parser.add_argument("--out", type=Path, help="file to which every lab's kills are appended as it ends")
    parser.add_argument("--labs", type=Path, help="folder in which the labs stay")
    parser.add_argument("--show", type=Path, nargs="+", metavar="FILE", help="print the table of such files")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    if options.show:
        print(table(read(options.show)))
        return
    parts = [(role, part) for role, _, part in (each.partition(":") for each in options.part or named)]
    words, found = ["--namespaces"] if options.namespaces else [], list[Kill]()
    with tempfile.TemporaryDirectory(prefix="lab-kills-") as folder:
        for first in range(0, len(parts), options.per_lab):
            out = (options.labs or Path(folder)) / f"lab-{options.seed}-{parts[first][0]}-{parts[first][1]}"
            out.parent.mkdir(parents=True, exist_ok=True)
            rng = random.Random(f"{options.seed}.{first}")
            kills = run_lab(parts[first : first + options.per_lab], rng, out, words)
            found += kills
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(asdict(kill)) + "\n" for kill in kills)
    print(table(found))
    raise SystemExit(any(map(is_bad, found)))


if __name__ == "__main__":
    main()
