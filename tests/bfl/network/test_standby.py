"""A device of real processes whose home is killed: its machine takes it to its standby, and home again (D6)."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bfl.network.lab.audits import audit_all
from bfl.network.lab.machines import Lab
from bfl.network.lab.params import LabParams
from bfl.network.lab.rehearsal import open_lab
from bfl.network.status import last_lines, parts_of

pytestmark = [pytest.mark.slow, pytest.mark.kills, pytest.mark.experiment]  # five minutes; tests/lan has it with stubs
HOME, STANDBY, OTHER, DEVICE = "edge-1", "edge-2", "edge-3", "device-1"
_SECONDS = 300.0
_SHORT: dict[str, Any] = {
    "hidden": "8", "iterations": 2, "phi": "1", "planner": "random:0.5", "deadline-s": 12.0, "plan-s": 4.0,
    "close-s": 3.0, "gossip-s": 2.0, "verify-s": 2.0, "model-s": 2.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with open_lab(LabParams(tmp_path_factory.mktemp("lab") / "out", 3, 3, 10_000, settings=_SHORT)) as opened:
        opened.prepare()
        opened.start()
        yield opened


def happens(look: Callable[[], bool], lab: Lab) -> None:
    end = time.monotonic() + _SECONDS
    while not look():
        told = (
            [*last_lines(lab.params.kits / DEVICE, 20), *last_lines(lab.params.kits / OTHER, 20)]
            if time.monotonic() > end
            else []
        )
        assert not told, "\n".join(told)
        time.sleep(0.3)


def reports(lab: Lab) -> list[dict[str, Any]]:
    path: Path = lab.params.kits / OTHER / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()[:-1]] if path.exists() else []


def supernode(lab: Lab) -> str:
    return next((part.word for part in parts_of(lab.params.kits / DEVICE) if part.name == "supernode"), "")


def answered(lab: Lab) -> int:
    lines = last_lines(lab.params.kits / DEVICE, 10_000, "device")
    return sum("; trained on" in line or "; handed over" in line for line in lines)


def moves(lab: Lab) -> list[str]:
    return [line for line in last_lines(lab.params.kits / DEVICE, 10_000, "supernode") if "from now on" in line]


def serves_three_rounds(lab: Lab) -> None:
    """The device has answered three orders from now on, and everybody's data count."""
    before = answered(lab)
    happens(lambda: answered(lab) >= before + 3, lab)


def test_a_device_goes_to_its_standby_and_home_again(lab: Lab) -> None:
    happens(lambda: len(reports(lab)) >= 2, lab)
    assert "at edge-1, its home" in supernode(lab)
    home = next(machine for machine in lab.machines if machine.name == HOME)
    home.tell(signal.SIGKILL)
    home.wait(_SECONDS)
    happens(lambda: "at edge-2, its standby" in supernode(lab), lab)
    assert [line[33:] for line in moves(lab)] == [
        "home, edge-1, is dormant, most of the edges say: from now on at edge-2, its standby"
    ]
    serves_three_rounds(lab)
    home.start()
    happens(lambda: "at edge-1, its home" in supernode(lab), lab)
    assert "edge-1 is no longer dormant" in moves(lab)[-1]
    serves_three_rounds(lab)
    assert len(moves(lab)) == 2


def test_every_chain_fits_and_nobody_is_accused(lab: Lab) -> None:
    assert [offence for each in reports(lab) for offence in each["offences"] if offence["kind"] != "absent"] == []
    lab.end()
    assert not any(audit_all(lab.params, print).values())
    for name in lab.params.edge_names:
        assert "nobody misbehaved" in (lab.params.out / f"audit-{name}.txt").read_text()
