"""What a test network leaves behind if its harness is killed, and how the next one finds and removes it.

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
from collections.abc import Iterator
from pathlib import Path

from tests.lan.commands import LanError, run_tool

MARK = "TEST_LAN"  # not BFL_...: those are settings
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


def _marks() -> Iterator[tuple[int, str]]:
    """Processes that belong to a network, and the mark that says to which machine of it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended, or belongs to somebody else
                mark = re.search(rb"(?:^|\0)" + MARK.encode() + rb"=([^\0]*)", (entry / "environ").read_bytes())
                if mark is not None:
                    yield int(entry.name), mark[1].decode(errors="replace")


def _kill(pid: int, mark: str) -> None:
    """Kill exactly that process: should its id be another's by now, that one has another mark."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def end_processes(name: str) -> None:
    """End whatever carries this name as its mark, until nothing does: what is killed may just have started more."""
    end = time.monotonic() + _ENDS_S
    while left := [(pid, mark) for pid, mark in _marks() if is_part(mark, name)]:
        if time.monotonic() > end:
            raise LanError(f"processes {left} do not end, {_ENDS_S:g} s after SIGKILL")
        for pid, mark in left:
            _kill(pid, mark)
        time.sleep(0.01)


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
    for source, place in _disks():
        if is_part(source, name):
            _disk_or_gone(place)
    for namespace in namespaces():
        if is_part(namespace, name):
            _namespace_or_gone(namespace)
    shutil.rmtree(Path(tempfile.gettempdir()) / name, ignore_errors=True)


def found(prefix: str) -> set[str]:
    """The names on all namespaces, disks, folders and processes of networks with this prefix."""
    names = [
        *namespaces(),
        *(source for source, _ in _disks()),
        *(each.name for each in Path(tempfile.gettempdir()).iterdir()),
        *(mark for _, mark in _marks()),
    ]
    return {each for each in names if re.match(rf"{prefix}-\d+-\d+-\d+(\.|$)", each)}


def sweep(prefix: str) -> list[str]:
    """Remove every network with this prefix whose harness is gone; their names."""
    removed = []
    for name in sorted({each.partition(".")[0] for each in found(prefix)}):
        _, pid, started, _ = name.split("-")
        if _started_ticks(int(pid)) != int(started):
            remove(name)
            removed.append(name)
    return removed
