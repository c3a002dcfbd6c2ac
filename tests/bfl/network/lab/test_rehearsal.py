"""A rehearsal with real processes: it ends well though a part is killed, says so, and leaves nothing but its folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bfl.errors import BflError
from bfl.network.lab.machines import OUTLIVED, read_json
from bfl.network.lab.params import LabParams
from bfl.network.lab.rehearsal import open_lab
from bfl.network.lan import leftovers

SECONDS = 400.0


def lab(out: Path, *words: str) -> list[str]:
    own = ["--edges", "1", "--devices", "1", "--set", "hidden=8", "--set", "iterations=2", "--set", "phi=1"]
    return [sys.executable, "-m", "bfl", "network", "lab", "--out", str(out), *own, *words]


@pytest.mark.kills
def test_a_lab_ends_well_though_what_trains_and_the_whole_machine_are_killed(tmp_path: Path) -> None:
    out = tmp_path / "lab"
    with (tmp_path / "said").open("wb") as said:
        running = subprocess.Popen(lab(out, "--rounds", "4"), stdout=said, stderr=subprocess.STDOUT)
    try:
        wait_for_round(1, out, running)
        os.kill(state(out)["parts"]["device"]["pid"], signal.SIGKILL)
        wait_for_round(2, out, running)
        os.kill(state(out)["pid"], signal.SIGKILL)
        code = running.wait(SECONDS)
    finally:
        running.terminate()
        running.wait(60)
    told = (tmp_path / "said").read_text()
    assert code == 0, told
    assert "WELL: 4 rounds at every edge, one head, every audit fits, nobody accused or excluded" in told
    assert "device-1 has ended (SIGKILL); it is started again" in told
    assert OUTLIVED not in told
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["rounds"], summary["well"], summary["accused"]) == ({"edge-1": 4}, True, {"edge-1": []})
    # Flower takes a SuperNode that was killed again after up to a minute; until then it is tried again and again.
    restarts = summary["restarts"]
    assert {name for name in restarts if restarts[name] == 1} >= {"device-1", "device-1 device"}
    assert restarts["device-1 supernode"] >= 1
    assert len(restarts) == 3
    assert "fits" in (out / "audit-edge-1.txt").read_text()
    assert not [mark for _, mark in leftovers._marks() if str(running.pid) in mark]


def wait_for_round(round_: int, out: Path, running: "subprocess.Popen[bytes]") -> None:
    end, metrics = time.monotonic() + SECONDS, out / "kits" / "edge-1" / "metrics.jsonl"
    while time.monotonic() < end and running.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= round_ and state(out):
            return
        time.sleep(0.2)
    raise AssertionError(f"round {round_} was not sealed")


def state(out: Path) -> dict[str, Any]:
    """Of the device, as its supervisor tells it."""
    return read_json(out / "kits" / "device-1" / "state.json")


def test_a_folder_that_is_not_empty_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(BflError, match="is not empty; choose another --out"), open_lab(LabParams(tmp_path)):
        pass


def test_a_setting_without_a_value_is_told(tmp_path: Path) -> None:
    command = [*lab(tmp_path / "lab"), "--set", "planner"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode != 0
    assert "expected KEY=VALUE" in ran.stdout + ran.stderr
