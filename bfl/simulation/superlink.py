"""The SuperLink that `flwr run` started by itself ends with the last run in it (D10).

Where no SuperLink runs, `flwr run` starts one and leaves it behind for the next run. A run of ours leaves a process
that outlives it, asks that SuperLink whether anything else runs in it, and ends it if not. What is known of runs stays
in the SuperLink's database. One that a person started is left alone.
"""

import itertools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from logging import INFO, WARNING
from pathlib import Path

from clients.errors import FlowerAwayError
from clients.flower import log
from clients.flower_tasks import Place, unfinished_runs

_LOG = ("local-superlink", "superlink.log")
"""The end of the `--log-file` of a SuperLink that `flwr` starts"""
_ASKED, _PAUSE_S = 5, 2.0
_ENDS_S = 30.0
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class SuperLink:
    """A SuperLink of this machine."""

    pid: int
    address: str
    """HOST:PORT."""


def end_superlink_after(run_id: int) -> None:
    """Have the SuperLink that `flwr run` started end when this process has ended, and no other run is in it."""
    try:
        superlink = started_superlink(os.getpid())
        if superlink is None:
            return
        handles = [os.pidfd_open(pid) for pid in (os.getpid(), superlink.pid)]
    except OSError as error:  # no Linux
        log(WARNING, "Found no way to the processes of this machine (%s): a SuperLink may stay; end it yourself", error)
        return
    paths = os.pathsep.join(filter(None, (str(_ROOT), os.getenv("PYTHONPATH"))))
    subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", __name__, superlink.address, str(run_id), *map(str, handles)],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        pass_fds=handles,
        start_new_session=True,
    )
    for handle in handles:
        os.close(handle)
    log(INFO, "The SuperLink at %s was started by `flwr run` and ends with its last run", superlink.address)


def started_superlink(pid: int) -> SuperLink | None:
    """The SuperLink that a process runs under, if `flwr` started it; None if a person did, or there is none."""
    for ancestor, command in _ancestors(pid):
        if any(Path(word).name == "flower-superlink" for word in command[:2]):  # [:2]: maybe after its interpreter
            options = dict(itertools.pairwise(command))
            address = f"{options.get('--host')}:{options.get('--port')}"
            return SuperLink(ancestor, address) if Path(options.get("--log-file", "")).parts[-2:] == _LOG else None
    return None


def _ancestors(pid: int) -> Iterator[tuple[int, list[str]]]:
    """The processes that a process descends from, nearest first, and their commands."""
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        pid = int(fields[1])
        if pid:  # 0: beyond this container
            yield pid, os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")


def end_when_idle(address: str, run_id: int, run: int, superlink: int) -> bool:
    """Wait for a run's process to end, then end the SuperLink unless it has other runs; whether it has ended.

    `run` and `superlink` are handles (pidfd): those of a dead process never come to mean another one.
    """
    select.select([run], [], [])
    if _others(address, run_id, superlink):
        return False
    _signal(superlink, signal.SIGTERM)  # it ends once all that it was asked is answered: nobody's log is cut short
    if not _has_ended(superlink, _ENDS_S):
        _signal(superlink, signal.SIGKILL)
    return _has_ended(superlink, _ENDS_S)


def _others(address: str, run_id: int, superlink: int) -> bool:
    """Are there other runs? Yes, where it does not say."""
    for _ in range(_ASKED):
        try:
            return bool(unfinished_runs(Place(address, b"")) - {run_id})
        except FlowerAwayError:
            if _has_ended(superlink, 0):
                return False
            time.sleep(_PAUSE_S)
    return True


def _has_ended(process: int, within_s: float) -> bool:
    return bool(select.select([process], [], [], within_s)[0])


def _signal(process: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        return


def main(arguments: Sequence[str]) -> None:
    """The process that outlives a run: ADDRESS RUN-ID, and the handles of the run and of the SuperLink."""
    address, *numbers = arguments
    run_id, run, superlink = map(int, numbers)
    end_when_idle(address, run_id, run, superlink)


if __name__ == "__main__":
    main(sys.argv[1:])
