"""A machine of a rehearsal: what ends is started again as a service would be, is counted, and leaves nothing behind."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bfl.errors import BflError
from bfl.network.lab import machines
from bfl.network.lab.machines import OUTLIVED, Machine, last_line
from bfl.network.lan import leftovers
from tests.bfl.network.supervised import happens

RUNS = "import time; print('here', flush=True); time.sleep(60)"
LEAVES = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); {RUNS}"


@contextmanager
def machine(tmp_path: Path, code: str) -> Iterator[Machine]:
    name = leftovers.new_name("labtest")
    env = {leftovers.MARK: f"{name}.edge-1"}
    (tmp_path / "kit").mkdir()
    try:
        yield Machine("edge-1", [sys.executable, "-c", code], env, tmp_path / "edge-1.out", tmp_path / "kit")
    finally:
        leftovers.remove(name)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "PAUSE_S", 0.1)


def pid_of(one: Machine, tmp_path: Path) -> int:
    """Once it says that it is here."""
    assert happens(lambda: last_line(tmp_path / "edge-1.out") == "here")
    assert one._process is not None
    return one._process.pid


def told_by(one: Machine) -> list[str]:
    """Until it runs again."""
    told: list[str] = []
    end = time.monotonic() + 20
    while time.monotonic() < end and not (told and one._process is not None):
        told += [line for line in (one.look(),) if line]
        time.sleep(0.02)
    return told


def test_what_is_killed_is_started_again_told_and_counted(tmp_path: Path) -> None:
    with machine(tmp_path, RUNS) as one:
        one.start()
        os.kill(pid_of(one, tmp_path), signal.SIGKILL)
        assert told_by(one) == ["edge-1 has ended (SIGKILL); it is started again in 0.1 s"]
        assert happens(lambda: (tmp_path / "edge-1.out").read_text().count("here") == 2)
        assert one.restarts() == {"edge-1": 1}


def test_what_outlives_its_command_is_ended_and_told(tmp_path: Path) -> None:
    with machine(tmp_path, LEAVES) as one:
        one.start()
        os.kill(pid_of(one, tmp_path), signal.SIGKILL)
        assert told_by(one)[-1] == f"edge-1: 1 processes {OUTLIVED} and were ended"


def test_a_machine_that_keeps_ending_is_given_up_with_its_last_word(tmp_path: Path) -> None:
    def look_until_it_is_given_up(one: Machine) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            one.look()
            time.sleep(0.02)

    with machine(tmp_path, "print('no such kit'); raise SystemExit(3)") as one:
        one.start()
        with pytest.raises(BflError, match=r"ended 5 times in a row \(exit code 3\), at last with: no such kit; all"):
            look_until_it_is_given_up(one)
        assert one.restarts() == {"edge-1": 5}


def test_parts_that_were_started_again_are_counted_over_its_runs(tmp_path: Path) -> None:
    def supervisor_says(pid: int, starts: int) -> None:
        parts = {"node": {"pid": 1, "starts": starts, "done": False}}
        (tmp_path / "kit" / "state.json").write_text(json.dumps({"pid": pid, "parts": parts}))

    with machine(tmp_path, RUNS) as one:
        one.start()
        first = pid_of(one, tmp_path)
        supervisor_says(first, 3)
        one.look()
        assert one.restarts() == {"edge-1 node": 2}
        os.kill(first, signal.SIGKILL)
        told_by(one)
        one.look()  # state.json is still of the run that was killed
        assert one.restarts() == {"edge-1 node": 2, "edge-1": 1}
        supervisor_says(pid_of(one, tmp_path), 2)
        one.look()
        assert one.restarts() == {"edge-1 node": 3, "edge-1": 1}
