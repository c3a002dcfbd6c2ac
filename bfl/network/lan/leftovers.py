"""What such a network leaves behind if whoever made it is killed, and how the next one finds and removes it.

Everything carries the network's name: namespaces in their name, disks as the source of their mount, folders in their
name, processes (and whatever they started) in their environment. The name says whose it is: a process id, and when that
process started, because ids are used again.
"""

import contextlib
import itertools
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

from bfl.network.lan.commands import LanError, run_tool

MARK = "LAN_MACHINE"  # not BFL_...: those are settings
_NAMESPACES = Path("/run/netns")
_ENDS_S = 10.0
_count = itertools.count()


def _started_ticks(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is no such process, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def new_name(prefix: str) -> str:
    """The name of one more network of this process."""
    if re.fullmatch(r"[a-z][a-z0-9]{0,15}", prefix) is None:
        raise LanError(f"found prefix {prefix!r}, expected up to 16 small letters and digits")
    return f"{prefix}-{os.getpid()}-{_started_ticks(os.getpid())}-{next(_count)}"


def is_part(text: str, name: str) -> bool:
    """Is this the name itself, or of something in it?"""
    return text == name or text.startswith(f"{name}.")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:  # it is gone
        return None
    return status.st_dev, status.st_ino


def mark_of(pid: int) -> str | None:
    """To what a process belongs: so says its environment or, if it wrote over that, the namespace it is in."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it ended, or belongs to somebody else
        return None
    mark = re.search(rb"(?:^|\0)" + MARK.encode() + rb"=([^\0]*)", environment)
    if mark is not None:
        return mark[1].decode(errors="replace")
    network = _identity(Path(f"/proc/{pid}/ns/net"))
    if network is None or network == _identity(Path("/proc/self/ns/net")):
        return None
    return next((each for each in namespaces() if _identity(_NAMESPACES / each) == network), None)


def _marks() -> list[tuple[int, str]]:
    """Processes that belong to a network, and what says to which machine of it."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [(pid, mark) for pid in pids if (mark := mark_of(pid)) is not None]


def _kill(pid: int, mark: str) -> None:
    """Kill exactly that process: should its id be another's by now, that one has another mark."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if mark_of(pid) == mark:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def end_processes(name: str) -> int:
    """End whatever carries this name as its mark, until nothing does: what is killed may just have started more. How
    many there were.
    """
    end, ended = time.monotonic() + _ENDS_S, set[int]()
    while left := [(pid, mark) for pid, mark in _marks() if is_part(mark, name)]:
        if time.monotonic() > end:
            raise LanError(f"processes {left} do not end, {_ENDS_S:g} s after SIGKILL")
        for pid, mark in left:
            _kill(pid, mark)
            ended.add(pid)
        time.sleep(0.01)
    return len(ended)


def _disks() -> list[tuple[str, Path]]:
    """What is mounted from something with a name like ours, and where."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    parts = [line.split(" - ") for line in lines]
    return [
        (source, Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4])))
        for before, _, source in ((before, *after.split()[:2]) for before, after in parts)
    ]


def namespaces() -> list[str]:
    """The names of all network namespaces of this machine."""
    return sorted(each.name for each in _NAMESPACES.iterdir()) if _NAMESPACES.is_dir() else []


def _disk_or_gone(place: Path) -> None:
    try:
        run_tool("umount", str(place))
    except LanError:  # somebody's sweep was faster, or a process that is just ending holds it
        if place.is_mount():
            run_tool("umount", "--lazy", str(place))


def _namespace_or_gone(namespace: str) -> None:
    try:
        run_tool("ip", "netns", "del", namespace)
    except LanError:
        if namespace in namespaces():
            raise


def remove(name: str) -> None:
    """Remove a network: processes, disks, namespaces (and with them every interface), its own folder."""
    end_processes(name)
    for place in [place for source, place in _disks() if is_part(source, name)]:
        _disk_or_gone(place)
    for namespace in [each for each in namespaces() if is_part(each, name)]:
        _namespace_or_gone(namespace)
    shutil.rmtree(Path(tempfile.gettempdir()) / name, ignore_errors=True)


def found(prefix: str) -> set[str]:
    """The names on all namespaces, disks, folders and processes of networks with this prefix, as far as they are ours.

    Root's namespaces and disks are visible to everybody, who can do nothing about them.
    """
    folders = [each for each in Path(tempfile.gettempdir()).glob(f"{prefix}-*") if _owner(each) == os.geteuid()]
    roots = [*namespaces(), *(source for source, _ in _disks())] if os.geteuid() == 0 else []
    names = [*roots, *(each.name for each in folders), *(mark for _, mark in _marks())]
    return {each for each in names if re.match(rf"{prefix}-\d+-\d+-\d+(\.|$)", each)}


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def sweep(prefix: str) -> list[str]:
    """Remove every network with this prefix whose harness is gone; their names."""
    removed = []
    for name in sorted({each.partition(".")[0] for each in found(prefix)}):
        _, pid, started, _ = name.split("-")
        if _started_ticks(int(pid)) != int(started):
            remove(name)
            removed.append(name)
    return removed
