"""A machine of the test network: an address, a disk, a clock, a cable, and processes."""

import contextlib
import ctypes
import errno
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from bfl.network.lan.commands import LanError
from bfl.network.lan.switch import Switch
from tests.lan.process import MachineProcess

CLOCK_VARIABLE = "BFL_CLOCK_OFFSET_S"
"""Seconds (with a sign and a fraction) by which the clock of a machine's processes is wrong"""

_REPOSITORY = Path(__file__).resolve().parents[2]
_CLONE_NEWNET = 0x40000000
_MOST_PROCESSES = 32
_BALLAST = ".ballast"
_INSIDE_S = 60.0
Result = TypeVar("Result")


class NeedsNamespacesError(LanError):
    """On 127.0.0.x there are no cables, and no disk of a machine's own."""


class Machine:
    """What a test does to one machine. Made by `Lan.open`."""

    def __init__(
        self, name: str, address: str, folder: Path, log_folder: Path, mark: str, switch: tuple[Switch, int] | None
    ) -> None:
        self.name, self.address, self.folder = name, address, folder
        self._log_folder, self._mark, self._switch = log_folder, mark, switch
        self._offset_s = 0.0
        self.processes: dict[str, MachineProcess] = {}

    def _wire(self, what: str) -> tuple[Switch, int]:
        if self._switch is None:
            raise NeedsNamespacesError(f"{self.name} is {self.address} of this computer: {what} needs namespaces")
        return self._switch

    @property
    def _namespace(self) -> Path | None:
        return None if self._switch is None else Path("/run/netns") / self._mark

    def start(
        self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None, log: Path | None = None
    ) -> MachineProcess:
        """Start a command here, in this machine's folder.

        It has the environment of the tests without settings of ours, `env`, and this checkout's packages.
        """
        is_new = name not in self.processes and len(self.processes) < _MOST_PROCESSES
        if not is_new or re.fullmatch(r"[a-z][a-z0-9-]*", name) is None:
            raise LanError(
                f"found {name!r} beside {sorted(self.processes)} on {self.name}, expected at most {_MOST_PROCESSES} "
                "processes, each with a name of its own like node"
            )
        inside = [] if self._namespace is None else ["nsenter", f"--net={self._namespace}", "--"]

        def environment() -> Mapping[str, str]:
            clock = {CLOCK_VARIABLE: repr(self._offset_s)} if self._offset_s else {}
            inherited = {key: value for key, value in os.environ.items() if not key.startswith("BFL_")}
            return {**inherited, "PYTHONPATH": str(_REPOSITORY), **(env or {}), **clock}

        log = log or self._log_folder / f"{self.name}.{name}.log"
        made = MachineProcess(f"{self._mark}/{name}", [*inside, *command], environment, self.folder, log)
        self.processes[name] = made
        return made

    def skew(self, seconds: float) -> None:
        """From the next start on, processes here are told a clock that is so much ahead (or behind)."""
        self._offset_s = float(seconds)

    def inside(self, function: Callable[[], Result], timeout_s: float = _INSIDE_S) -> Result:
        """Call a function on this machine's network. A socket made there stays there, whoever uses it afterwards."""
        results: list[Result] = []
        errors: list[BaseException] = []

        def call() -> None:
            try:
                self._enter()
                results.append(function())
            except BaseException as error:  # noqa: BLE001  it is raised below, in the thread that asked
                errors.append(error)

        # A thread of its own, because it cannot go back: a namespace belongs to the thread that entered it.
        thread = threading.Thread(target=call, name=f"inside {self.name}", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if errors:
            raise errors[0]
        if not results:
            raise LanError(f"a call inside {self.name} did not end within {timeout_s:g} s")
        return results[0]

    def _enter(self) -> None:
        if self._namespace is None:
            return
        with self._namespace.open("rb") as handle:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), _CLONE_NEWNET) != 0:
                raise LanError(f"cannot enter {self._namespace}: {os.strerror(ctypes.get_errno())}")

    def limit(self, rate: str | None) -> None:
        """At most this rate, as `tc` writes it (`2mbit`), in each direction; None: as fast as it goes."""
        switch, index = self._wire("a rate")
        switch.limit(index, rate)

    def lose(self, percent: float) -> None:
        """Lose this share of the frames, in each direction; 0: none."""
        switch, index = self._wire("loss")
        switch.lose(index, percent)

    def unplug(self) -> None:
        """Pull the cable."""
        switch, index = self._wire("a cable")
        switch.plug(index, is_in=False)

    def plug(self) -> None:
        """Put the cable in again."""
        switch, index = self._wire("a cable")
        switch.plug(index, is_in=True)

    def fill_disk(self) -> None:
        """Leave no room in this machine's folder: what is written there fails with ENOSPC."""
        self._wire("a full disk")
        with (self.folder / _BALLAST).open("ab") as ballast:
            block = 1 << 20
            while block >= 1:
                try:
                    os.write(ballast.fileno(), bytes(block))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    block //= 2

    def empty_disk(self) -> None:
        """What filled the disk is gone again; what processes wrote stays."""
        with contextlib.suppress(FileNotFoundError):
            (self.folder / _BALLAST).unlink()
