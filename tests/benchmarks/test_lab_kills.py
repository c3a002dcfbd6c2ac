"""What the benchmark of killed labs keeps and shows, and what it calls bad."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.lab_kills import PARTS, Kill, is_bad, read, table
from bfl.network.kits import read_device_kit, read_edge_kit
from bfl.network.lab.params import LabParams, describe
from bfl.network.making import make_kits
from bfl.network.parts import device_parts, edge_parts

WELL: dict[str, object] = {"exit": 0, "rounds": [35], "accused": 0, "fits": 3, "outlived": 0}
KILL = Kill("node", "edge-2", round=5, into_s=1.2, sealed=8, seconds=21.4, lab=WELL)


def test_every_part_of_a_machine_is_killed(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(describe(LabParams(tmp_path, 1, 1)))
    make_kits(tmp_path / "network.toml", tmp_path / "kits", "of a test", 0.0, work=2)
    edge = edge_parts(read_edge_kit(tmp_path / "kits" / "edge-1"), "")
    device = device_parts(read_device_kit(tmp_path / "kits" / "device-1"), "")
    assert {
        "edge": ("supervisor", *(part.name for part in edge)),
        "device": ("supervisor", *(part.name for part in device)),
    } == PARTS


def test_what_was_kept_is_read_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "kills.jsonl"
    path.write_text(json.dumps(asdict(KILL)) + "\n")
    assert read([path]) == [KILL]
    assert table([KILL]).splitlines()[-1] == (
        "| node | edge-2 | round 5, 1.2 s into it | 8 | 21 | 0 | 35 | 0 | 3 of 3 | 0 |"
    )


def test_it_is_bad_if_anything_was_not_as_promised() -> None:
    assert not is_bad(KILL)
    assert is_bad(replace(KILL, missed="it was not started again"))
    assert all(is_bad(replace(KILL, lab=WELL | {what: 1})) for what in ("exit", "accused", "outlived"))
