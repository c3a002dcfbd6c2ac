"""Small sweeps for the tests of this folder."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bfl.sweeps.folder import count_rounds, runs_below
from bfl.sweeps.plan import make_plan
from bfl.sweeps.sweep import SweepRequest, SweepResult, run_sweep
from bfl.sweeps.sweep_file import SweepFile
from tests.bfl.runs import SMALL, environment

COMMON = {key: value for key, value in SMALL.items() if key != "scheme"}
SCHEMES = ("consensus-no-chain", "fedavg")
PATIENCE_S = 120.0


def small_file(**grid: tuple[object, ...]) -> SweepFile:
    """Two schemes unless something else is asked for, one seed."""
    return SweepFile((0,), COMMON | {"rounds": 3}, grid or {"scheme": SCHEMES})


def sweep_in(folder: Path, file: SweepFile, jobs: int = 1) -> tuple[SweepResult, str]:
    """A whole sweep from this process, and what it said."""
    said = io.StringIO()
    request = SweepRequest(make_plan(file, "sweep.toml"), file.text(), folder, jobs)
    return run_sweep(request, Console(file=said, width=200)), said.getvalue()


def begun_sweep(toml: Path, out: Path, *flags: str) -> "subprocess.Popen[str]":
    """`bfl sweep` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "bfl", "sweep", str(toml), "--out", str(out), *flags],
        cwd=toml.parent, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def rounds_made(folder: Path) -> int:
    """Of all runs of a sweep."""
    return sum(count_rounds(run / "metrics.jsonl") for run in runs_below(folder))


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Look, in bounds."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"waited {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


def children_of(process: "subprocess.Popen[str]") -> list[int]:
    """Its workers."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _parent_of(pid) == process.pid]


def _parent_of(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if fields[0] != "Z" else None


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    return _parent_of(pid) is not None


def kill(pid: int) -> None:
    """With -9."""
    os.kill(pid, signal.SIGKILL)
