"""The machines of a rehearsal, each with its own command as elsewhere: `bfl network edge KIT` or `device KIT`.

With namespaces (root) a machine has an address, a loopback and ports of its own; without, all are 127.0.0.1 and have
different ports. A machine's command that ends is started again, as its service would be (`bfl/network/units.py`).
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError
from bfl.network.kits import CONFIG
from bfl.network.lab.params import LabParams, describe
from bfl.network.lan import leftovers
from bfl.network.making import make_kits
from bfl.network.status import LOG, METRICS, STATE

PAUSE_S = 2.0
"""Before a machine's command is started again; its unit takes 5"""
MOST_IN_A_ROW = 5
OUTLIVED = "outlived its command"
"""Said of processes that should have ended with it"""
_WELL_S = 60.0
"""Who has run for so long is well"""
_WORK = 1 << 12
"""Of the keys' passwords, which are as old as the lab"""
_END_S = 40.0
_MOST_LINE_BYTES = 1 << 16


class Machine:
    """One command of a rehearsal, and what it had to do again."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str], out: Path, kit: Path) -> None:
        """`env` names it for `leftovers`; `out`: the file that has what the command itself says."""
        self.name, self._command, self._env, self._out, self._kit = name, command, env, out, kit
        self._process: subprocess.Popen[bytes] | None = None
        self._since_s = self._again_s = 0.0
        self._in_a_row = 0
        self._parts: dict[str, int] = {}
        self._again: dict[str, int] = {}

    def start(self) -> None:
        """As its owner would."""
        with self._out.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 - commands of ours
                self._command,
                env={"OMP_NUM_THREADS": "1", **os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._since_s = time.monotonic()

    def look(self) -> str:
        """Start it again where that is due; what has happened, if anything. `BflError` where it keeps ending."""
        self._note_parts()
        now = time.monotonic()
        if self._process is None:
            return self._started_again() if now >= self._again_s else ""
        code = self._process.poll()
        return "" if code is None else self._ended(code, now)

    def _ended(self, code: int, now: float) -> str:
        self._process, self._again_s = None, now + PAUSE_S
        self._in_a_row = 1 if now - self._since_s > _WELL_S else self._in_a_row + 1
        self._carry()
        self._again[self.name] = self._again.get(self.name, 0) + 1
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        if self._in_a_row >= MOST_IN_A_ROW:
            raise BflError(
                f"{self.name} has ended {self._in_a_row} times in a row ({how}), at last with: {self._said}; all that "
                f"it said is in {self._out}, what its parts said in {self._kit / LOG}"
            )
        return f"{self.name} has ended ({how}); it is started again in {PAUSE_S:g} s"

    def _started_again(self) -> str:
        left = leftovers.end_processes(self._env[leftovers.MARK])  # as systemd does
        self.start()
        return f"{self.name}: {left} processes {OUTLIVED} and were ended" if left else ""

    @property
    def _said(self) -> str:
        return last_line(self._out) or "nothing"

    def _note_parts(self) -> None:
        """How often this run of it has started its parts, while its supervisor tells."""
        path = self._kit / STATE
        if path.exists() and self._process is not None:
            state = read_json(path)
            if state.get("pid") == self._process.pid:  # not of one that was killed
                self._parts = {part: int(each["starts"]) for part, each in state["parts"].items()}

    def _carry(self) -> None:
        for name, count in self.restarts().items():
            self._again[name] = count
        self._parts = {}

    def restarts(self) -> dict[str, int]:
        """How often it, or a part of it, was started again."""
        found = dict(self._again)
        for part, starts in self._parts.items():
            name = f"{self.name} {part}"
            found[name] = found.get(name, 0) + starts - 1
        return {name: count for name, count in found.items() if count}

    def tell(self, number: signal.Signals) -> None:
        """A signal for it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def wait(self, seconds: float) -> None:
        """Until it has ended, which it is made to after so long."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            self.tell(signal.SIGKILL)
            self._process.wait()


def read_json(path: Path) -> dict[str, Any]:
    """A file that another process writes: nothing where it is not there, or not whole yet."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def last_line(path: Path) -> str:
    """Of a file that another process writes; nothing where it has none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_LINE_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return lines[-1] if lines else ""


class Lab:
    """The machines of a rehearsal, as long as they run."""

    def __init__(self, params: LabParams, inside: Mapping[str, Sequence[str]], mark: str) -> None:
        """`inside`: the words that start a command on a machine."""
        self.params, self._password = params, secrets.token_urlsafe(16)
        roles = {**dict.fromkeys(params.edge_names, "edge"), **dict.fromkeys(params.device_names, "device")}
        self.machines = [self._machine(role, name, inside[name], mark) for name, role in roles.items()]

    def _machine(self, role: str, name: str, inside: Sequence[str], mark: str) -> Machine:
        kit = (self.params.kits / name).absolute()
        command = [*inside, sys.executable, "-m", "bfl", "network", role, str(kit)]
        env = {PASSWORD_VARIABLE: self._password, leftovers.MARK: f"{mark}.{name}"}
        return Machine(name, command, env, self.params.out / f"{name}.out", kit)

    def prepare(self) -> None:
        """Kits, as an operator makes them."""
        description = self.params.out / "network.toml"
        description.write_text(describe(self.params), encoding="utf-8")
        make_kits(description, self.params.kits, self._password, time.time(), _WORK)
        for name in self.params.edge_names:
            config = self.params.kits / name / CONFIG
            text = config.read_text(encoding="utf-8")
            config.write_text(text.replace("rounds = 0\n", f"rounds = {self.params.rounds}\n"), encoding="utf-8")

    def start(self) -> None:
        """One command for each machine."""
        for machine in self.machines:
            machine.start()

    def look(self) -> list[str]:
        """Start again what has ended; what has happened."""
        return [told for machine in self.machines if (told := machine.look())]

    def rounds(self) -> dict[str, int]:
        """Rounds that each edge has told."""
        return {name: int(self._last(name).get("round", 0)) for name in self.params.edge_names}

    def accuracy(self) -> float | None:
        """After the last round that has been told."""
        told = [self._last(name) for name in self.params.edge_names]
        return max(told, key=lambda each: int(each.get("round", 0))).get("accuracy")

    def last_word(self) -> str:
        """Of the first edge's log: what is happening while no round is sealed yet."""
        return last_line(self.params.kits / self.params.edge_names[0] / LOG)[20:]

    def _last(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(last_line(self.params.kits / name / METRICS))
        except ValueError:  # none yet, or it is being written
            return {}
        return found

    def restarts(self) -> dict[str, int]:
        """How often machines and their parts were started again."""
        return {name: count for machine in self.machines for name, count in machine.restarts().items()}

    def end(self) -> None:
        """As Ctrl-C at each machine."""
        for machine in self.machines:
            machine.tell(signal.SIGTERM)
        end = time.monotonic() + _END_S
        for machine in self.machines:
            machine.wait(end - time.monotonic())
