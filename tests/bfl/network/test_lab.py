"""A rehearsal with real processes: it ends well though a part is killed, says so, and leaves nothing but its folder."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bfl.errors import BflError
from bfl.network.description import read_description
from bfl.network.lab import LabParams, LabResult, describe, open_lab
from bfl.network.lan import leftovers

SECONDS = 400.0


def lab(out: Path, *words: str) -> list[str]:
    own = ["--edges", "1", "--devices", "1", "--set", "hidden=8", "--set", "iterations=2", "--set", "phi=1"]
    return [sys.executable, "-m", "bfl", "network", "lab", "--out", str(out), *own, *words]


@pytest.mark.kills
def test_a_lab_ends_well_though_what_trains_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "lab"
    with (tmp_path / "said").open("wb") as said:
        running = subprocess.Popen(lab(out, "--rounds", "3"), stdout=said, stderr=subprocess.STDOUT)
    try:
        os.kill(wait_for_pid(out, running), signal.SIGKILL)
        code = running.wait(SECONDS)
    finally:
        running.kill()
        running.wait()
    told = (tmp_path / "said").read_text()
    assert code == 0, told
    assert "fits" in told
    assert "device-1 device (2 starts)" in " ".join(told.split())
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rounds"] == {"edge-1": 3}
    assert "fits" in (out / "audit-edge-1.txt").read_text()
    assert not [mark for _, mark in leftovers._marks() if str(running.pid) in mark]


def wait_for_pid(out: Path, running: "subprocess.Popen[bytes]") -> int:
    """Of what trains, once a round has been sealed."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and running.poll() is None:
        metrics, state = out / "kits" / "edge-1" / "metrics.jsonl", out / "kits" / "device-1" / "state.json"
        if metrics.exists() and metrics.read_text().count("\n") >= 1 and state.exists():
            return int(json.loads(state.read_text())["parts"]["device"]["pid"])
        time.sleep(0.2)
    raise AssertionError("no round was sealed")


def test_what_it_describes_is_a_network(tmp_path: Path) -> None:
    for namespaces in (False, True):
        path = tmp_path / f"{namespaces}.toml"
        path.write_text(describe(LabParams(tmp_path, 3, 4, namespaces=namespaces, settings={"planner": "all-local"})))
        found = read_description(path)
        assert [edge.name for edge in found.edges] == ["edge-1", "edge-2", "edge-3"]
        assert [device.home for device in found.devices] == ["edge-1", "edge-2", "edge-3", "edge-1"]
        assert found.settings.rounds.planner == "all-local"
        assert len({edge.address for edge in found.edges}) == (3 if namespaces else 1)


def test_a_folder_that_is_not_empty_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(BflError, match="is not empty; choose another --out"), open_lab(LabParams(tmp_path)):
        pass


def test_it_ended_well_only_with_all_rounds_one_head_and_audits_that_fit() -> None:
    rounds, heads, audits = {"a": 3, "b": 3}, {"a": "0x1", "b": "0x1"}, {"a": 0, "b": 0}
    assert LabResult(rounds, heads, 1.0, None, {}, audits).is_well(3)
    assert not LabResult({**rounds, "b": 2}, heads, 1.0, None, {}, audits).is_well(3)
    assert not LabResult(rounds, {**heads, "b": "0x2"}, 1.0, None, {}, audits).is_well(3)
    assert not LabResult(rounds, heads, 1.0, None, {}, {**audits, "a": 1}).is_well(3)


def test_a_setting_without_a_value_is_told(tmp_path: Path) -> None:
    command = [*lab(tmp_path / "lab"), "--set", "planner"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode != 0
    assert "expected KEY=VALUE" in ran.stdout + ran.stderr
