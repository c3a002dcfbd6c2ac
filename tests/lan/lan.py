"""A local network of machines, each a network namespace, joined by a bridge.

    with Lan.open(["edge-0", "edge-1", "device-0"]) as lan:
        node = lan["edge-0"].start("node", [sys.executable, "-m", "bfl", "network", "node", ...])
        lan.partition({"edge-0"}, {"edge-1"})
        ask(lan["device-0"], f"http://{lan['edge-0'].address}:8545/")

Without root machines are addresses 127.x.y.z of this computer: processes start, hang and die as well, and what needs
cables or disks raises `NeedsNamespacesError`. Whatever happens, nothing stays behind; what a killed harness left, the
next `open` removes.
"""

import functools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bfl.network.lan import leftovers
from bfl.network.lan.commands import LanError, run_tool
from bfl.network.lan.switch import Switch
from tests.lan.machine import Machine, NeedsNamespacesError

PREFIX = "bfl"
_MOST_MACHINES = 64
_DISK_MB = 64
_ROWS = ("partition", "limit", "lose", "unplug", "fill_disk")


@functools.cache
def find_obstacle() -> str:
    """Why machines cannot be namespaces here; empty if they can. It tries, and removes what it made."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = leftovers.new_name(PREFIX)
    place = Path(tempfile.gettempdir()) / name
    try:
        switch = Switch(f"{name}.switch")
        switch.connect(f"{name}.machine", "10.77.0.1")
        switch.lose(0, 1.0)
        switch.limit(0, "1mbit")
        place.mkdir()
        run_tool("mount", "-t", "tmpfs", "-o", "size=64k", name, str(place))
        run_tool("nsenter", f"--net=/run/netns/{name}.machine", "--", "true")
    except LanError as error:
        return f"network namespaces cannot be made here: {error}"
    finally:
        leftovers.remove(name)
    return ""


class Lan:
    """Machines by name, and what goes wrong between them."""

    def __init__(self, name: str, folder: Path, machines: dict[str, Machine], switch: Switch | None) -> None:
        self.name, self.folder, self.machines = name, folder, machines
        self._switch = switch

    def __getitem__(self, name: str) -> Machine:
        if name not in self.machines:
            raise LanError(f"found no machine {name!r}, expected one of {sorted(self.machines)}")
        return self.machines[name]

    @property
    def cannot(self) -> tuple[str, ...]:
        """What this network cannot do: on 127.0.0.x everything that needs cables or disks."""
        return () if self._switch is not None else _ROWS

    @classmethod
    @contextmanager
    def open(
        cls,
        names: Sequence[str],
        prefix: str = PREFIX,
        *,
        namespaces: bool | None = None,
        folder: Path | None = None,
        disk_mb: int = _DISK_MB,
    ) -> Iterator["Lan"]:
        """Build the network, and take it down whatever happens.

        `namespaces`: None takes them where they can be made. Logs are `logs/MACHINE.PROCESS.log` in `folder`, which is
        the caller's and stays; without one they go with the rest, and an error that ends a test has their last lines.
        """
        wrong = [name for name in names if re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) is None]
        if wrong or not 1 <= len(names) <= _MOST_MACHINES or len(set(names)) != len(names):
            raise LanError(f"found machines {list(names)}, expected 1 to {_MOST_MACHINES} different names like edge-0")
        if namespaces and find_obstacle():
            raise NeedsNamespacesError(find_obstacle())
        leftovers.sweep(prefix)
        name = leftovers.new_name(prefix)
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, (folder or Path(tempfile.gettempdir())) / name, ignore_errors=True)
            undo.callback(leftovers.remove, name)
            lan = cls._built(name, names, namespaces is not False and not find_obstacle(), folder, disk_mb)
            undo.callback(lan._kill)
            undo.push(lan._note_tails)
            yield lan

    def _kill(self) -> None:
        for machine in self.machines.values():
            for process in machine.processes.values():
                process.kill()

    def _note_tails(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """What ends a test has the last lines of the logs with it."""
        if error is not None:
            error.add_note(self.tails)

    @classmethod
    def _built(cls, name: str, names: Sequence[str], is_namespaced: bool, folder: Path | None, disk_mb: int) -> "Lan":
        root = (folder or Path(tempfile.gettempdir())) / name
        root.mkdir(mode=0o700)
        logs = (folder or root) / "logs"
        logs.mkdir(exist_ok=True)
        switch = Switch(f"{name}.switch") if is_namespaced else None
        machines: dict[str, Machine] = {}
        for index, each in enumerate(names):
            place = root / each
            place.mkdir()
            mark, address, port = f"{name}.{each}", _loopback(name, index), None
            if switch is not None:
                address = f"10.77.0.{1 + index}"
                port = (switch, switch.connect(mark, address))
                run_tool("mount", "-t", "tmpfs", "-o", f"size={disk_mb}m,mode=0700", name, str(place))
            machines[each] = Machine(each, address, place, logs, mark, port)
        return cls(name, root, machines, switch)

    def partition(self, *groups: set[str]) -> None:
        """Machines of different groups do not reach each other; one in no group reaches all. Replaces what was."""
        if self._switch is None:
            raise NeedsNamespacesError("machines are addresses of this computer: a partition needs namespaces")
        named = [name for group in groups for name in group]
        if len(set(named)) != len(named) or not set(named) <= set(self.machines):
            raise LanError(f"found groups {groups}, expected each machine at most once, of {sorted(self.machines)}")
        indices = {name: index for index, name in enumerate(self.machines)}
        self._switch.sever([{indices[name] for name in group} for group in groups])

    def heal(self) -> None:
        """Everybody reaches everybody again."""
        self.partition()

    @property
    def tails(self) -> str:
        """The last lines of every process."""
        parts = [
            f"--- {machine.name}, {name} ({'alive' if process.is_alive else 'ended'}):\n{process.tail}"
            for machine in self.machines.values()
            for name, process in machine.processes.items()
        ]
        return "\n".join(parts)

    @staticmethod
    def sweep(prefix: str = PREFIX) -> list[str]:
        """Remove what killed harnesses left behind; the names of their networks."""
        return leftovers.sweep(prefix)


def _loopback(name: str, index: int) -> str:
    """An address that no other network of the last few thousand processes has."""
    _, pid, _, count = name.split("-")
    network = (int(pid) * 16 + int(count) % 16) % (254 * 254)
    return f"127.{1 + network // 254}.{1 + network % 254}.{1 + index}"
