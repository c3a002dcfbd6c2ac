"""A rehearsal (D6): the kits of a network in one folder, and every machine as processes of this computer.

Each machine runs the command that it would run elsewhere, `bfl network edge KIT` or `device KIT`. With namespaces
(root) it has an address, a loopback and ports of its own; without, all are 127.0.0.1 and have different ports.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError
from bfl.network.kits import CONFIG, DATABASE
from bfl.network.lan import leftovers
from bfl.network.lan.switch import Switch
from bfl.network.making import make_kits
from bfl.network.status import METRICS, STATE
from chain.audit.archive import open_archive
from chain.protocol.turns import FOUNDING_BLOCK
from policy.files import read_bounded_text

PREFIX = "lab"
_PORTS_OF_AN_EDGE = ("node-port", "owner-port", "devices-port", "edge-port", "link-port")
_HASHES_PER_S = 2000
_WORK = 1 << 12
"""Of the keys' passwords, which are as old as the lab"""
_LOOK_S = 0.5
_END_S = 40.0
_AUDIT_S = 600.0
_MOST_METRICS = 64 << 20
Progress = Callable[[int, str], None]
"""Hears how many rounds are sealed, and a word about the last one"""


@dataclass(frozen=True)
class LabParams:
    """What is rehearsed."""

    out: Path
    edges: int = 3
    devices: int = 4
    rounds: int = 10
    dataset: str = "synthetic"
    namespaces: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the network, beside those."""
    most_s: float = 0.0
    """After so long it is given up; 0: a minute for each round, and four more."""

    @property
    def patience_s(self) -> float:
        """Until it is given up."""
        return self.most_s or 240.0 + 60.0 * self.rounds


@dataclass(frozen=True)
class LabResult:
    """What came of it."""

    rounds: Mapping[str, int]
    """Sealed, by edge."""
    heads: Mapping[str, str]
    seconds: float
    """From the start of the machines to the last round."""
    accuracy: float | None
    restarts: Mapping[str, int]
    """Parts that were started more than once."""
    audits: Mapping[str, int]
    """Exit code of `bfl audit check`, by edge."""

    def is_well(self, rounds: int) -> bool:
        """Whether every edge has the rounds, the same head, and an audit that fits."""
        sealed = all(count >= rounds for count in self.rounds.values())
        return sealed and len(set(self.heads.values())) == 1 and not any(self.audits.values())


def edge_names(params: LabParams) -> list[str]:
    """edge-1, edge-2, ..."""
    return _numbered("edge", params.edges)


def device_names(params: LabParams) -> list[str]:
    """device-1, device-2, ..."""
    return _numbered("device", params.devices)


def _numbered(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number + 1}" for number in range(count)]


def describe(params: LabParams) -> str:
    """The lab's `network.toml`."""
    edges, devices = edge_names(params), device_names(params)
    free = _free_ports(len(_PORTS_OF_AN_EDGE) * len(edges) + len(devices))
    rows: list[dict[str, Any]] = []
    for index, name in enumerate(edges):
        if params.namespaces:
            rows.append({"name": name, "address": _address(index)})
        else:
            rows.append({"name": name, "address": "127.0.0.1", **{port: free.pop() for port in _PORTS_OF_AN_EDGE}})
    settings = {"dataset": params.dataset, "deadline-s": 30.0, "phi": "4", **params.settings}
    own: list[dict[str, Any]] = []
    for index, name in enumerate(devices):
        row = {"name": name, "home": edges[index % len(edges)], "hashes-per-s": _HASHES_PER_S}
        own.append(row if params.namespaces else {**row, "node-port": free.pop()})
    chain = {"difficulty": _HASHES_PER_S * len(devices), "retarget": False}
    return tomli_w.dumps({"name": "lab", "settings": settings, "chain": chain, "edges": rows, "devices": own})


def _address(index: int) -> str:
    return f"10.78.0.{1 + index}"


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in found]


class Lab:
    """The machines of a rehearsal, as long as they run."""

    def __init__(self, params: LabParams, inside: Mapping[str, Sequence[str]], mark: str) -> None:
        """`inside`: the words that start a command on a machine."""
        self.params, self._inside, self._mark = params, inside, mark
        self.kits = params.out / "kits"
        self._password = secrets.token_urlsafe(16)
        self._machines: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(self) -> None:
        """Kits, as an operator makes them."""
        description = self.params.out / "network.toml"
        description.write_text(describe(self.params), encoding="utf-8")
        make_kits(description, self.kits, self._password, time.time(), _WORK)
        for name in edge_names(self.params):
            config = self.kits / name / CONFIG
            text = config.read_text(encoding="utf-8")
            config.write_text(text.replace("rounds = 0\n", f"rounds = {self.params.rounds}\n"), encoding="utf-8")

    def start(self) -> None:
        """One command for each machine."""
        for role, names in (("edge", edge_names(self.params)), ("device", device_names(self.params))):
            for name in names:
                self._machines[name] = self._started(role, name)

    def _started(self, role: str, name: str) -> "subprocess.Popen[bytes]":
        bfl = [sys.executable, "-m", "bfl", "network"]
        command = [*self._inside[name], *bfl, role, str((self.kits / name).absolute())]
        env = {**os.environ, PASSWORD_VARIABLE: self._password, leftovers.MARK: f"{self._mark}.{name}"}
        with (self.params.out / f"{name}.out").open("wb") as out:
            return subprocess.Popen(  # noqa: S603 - commands of ours
                command,
                env={"OMP_NUM_THREADS": "1", **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, progress: Progress) -> None:
        """Until every edge has its rounds, or patience is over, or a machine's command has ended."""
        end = time.monotonic() + self.params.patience_s
        told = -1
        while time.monotonic() < end:
            counts = self.rounds()
            least = min(counts.values())
            if max(counts.values()) != told:
                told = max(counts.values())
                progress(told, self.last_word())
            if least >= self.params.rounds:
                return
            ended = [name for name, machine in self._machines.items() if machine.poll() is not None]
            if ended:
                raise BflError(f"{ended[0]} has ended: {self._said(ended[0])}")
            time.sleep(_LOOK_S)

    def _said(self, name: str) -> str:
        lines = read_bounded_text(self.params.out / f"{name}.out", _MOST_METRICS).strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def rounds(self) -> dict[str, int]:
        """Rounds that each edge has told."""
        return {name: int(self._last(name).get("round", 0)) for name in edge_names(self.params)}

    def last_word(self) -> str:
        """Of the edge that is furthest."""
        last = max((self._last(name) for name in edge_names(self.params)), key=lambda each: int(each.get("round", 0)))
        return f"accuracy {100 * last['accuracy']:.1f} %" if last.get("accuracy") is not None else ""

    def accuracy(self) -> float | None:
        """After the last round that the first edge has told."""
        return self._last(edge_names(self.params)[0]).get("accuracy")

    def _last(self, name: str) -> dict[str, Any]:
        path = self.kits / name / METRICS
        lines = read_bounded_text(path, _MOST_METRICS).splitlines() if path.exists() else []
        try:
            found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        except ValueError:  # it is being written
            return {}
        return found

    def restarts(self) -> dict[str, int]:
        """Parts that were started more than once; asked while machines run."""
        found: dict[str, int] = {}
        for name in self._machines:
            path = self.kits / name / STATE
            parts = json.loads(path.read_text(encoding="utf-8"))["parts"] if path.exists() else {}
            found |= {f"{name} {part}": each["starts"] for part, each in parts.items() if each["starts"] > 1}
        return found

    def end(self) -> None:
        """As Ctrl-C at each machine."""
        for machine in self._machines.values():
            if machine.poll() is None:
                os.killpg(machine.pid, signal.SIGTERM)
        end = time.monotonic() + _END_S
        for machine in self._machines.values():
            try:
                machine.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(machine.pid, signal.SIGKILL)
                machine.wait()

    def audit(self, name: str) -> int:
        """`bfl audit check` of an edge's chain; its verdict stays in the folder."""
        command = [sys.executable, "-m", "bfl", "audit", "check", str(self.kits / name / DATABASE)]
        with (self.params.out / f"audit-{name}.txt").open("wb") as out:
            ended = subprocess.run(  # noqa: S603 - a command of ours
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=_AUDIT_S
            )
        return ended.returncode

    def head(self, name: str) -> str:
        """Of an edge's chain, when it has ended."""
        with closing(open_archive(self.kits / name / DATABASE)) as archive:
            last = min(self.params.rounds + FOUNDING_BLOCK, archive.head().block_number)
            return "0x" + archive.header(last).hash.hex()


@contextmanager
def open_lab(params: LabParams) -> Iterator[Lab]:
    """The machines of a lab, not started yet; whatever happens, nothing stays but the folder."""
    if params.out.exists() and any(params.out.iterdir()):
        raise BflError(f"{params.out} is not empty; choose another --out")
    params.out.mkdir(parents=True, exist_ok=True)
    leftovers.sweep(PREFIX)
    mark = leftovers.new_name(PREFIX)
    names = [*edge_names(params), *device_names(params)]
    with ExitStack() as undo:
        undo.callback(leftovers.remove, mark)
        inside: dict[str, Sequence[str]] = dict.fromkeys(names, ())
        if params.namespaces:
            if os.geteuid() != 0:
                raise BflError("found --namespaces without root; leave it out, or run it as root")
            switch = Switch(f"{mark}.switch")
            for index, name in enumerate(names):
                switch.connect(f"{mark}.{name}", _address(index))
                inside[name] = ["nsenter", f"--net=/run/netns/{mark}.{name}", "--"]
        lab = Lab(params, inside, mark)
        undo.callback(lab.end)
        yield lab


def run_lab(params: LabParams, say: Callable[[str], None], progress: Progress) -> LabResult:
    """Rehearse it; what came of it is also in `summary.json`."""
    with open_lab(params) as lab:
        say("making keys, certificates and the founding block")
        lab.prepare()
        began = time.monotonic()
        lab.start()
        say(f"{params.edges} edges and {params.devices} devices start; their logs are {lab.kits}/NAME/log")
        lab.wait(progress)
        seconds, restarts = time.monotonic() - began, lab.restarts()
        rounds, accuracy = lab.rounds(), lab.accuracy()
        say("ending the machines")
        lab.end()
        say("auditing every edge's chain")
        audits = {name: lab.audit(name) for name in edge_names(params)}
        heads = {name: lab.head(name) for name in edge_names(params)}
    result = LabResult(rounds, heads, seconds, accuracy, restarts, audits)
    (params.out / "summary.json").write_text(json.dumps(vars(result), indent=1) + "\n", encoding="utf-8")
    return result
