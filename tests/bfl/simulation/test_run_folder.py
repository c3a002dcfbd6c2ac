"""A run on disk: one writer at a time, files that are whole or old, and metrics that every program can read."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfl.config import read_settings
from bfl.errors import RunFolderError
from bfl.simulation.checkpoint import Checkpoint
from bfl.simulation.run_folder import RunFolder, metrics_of
from chain.wire.address import Address
from clients.evaluation import Scores
from edge_servers.founding.standing import Standing, Tenure
from edge_servers.learning.gradients import Refusal
from edge_servers.report import RoundReport
from tests.bfl.conftest import Command
from tests.bfl.runs import small

REPORT = RoundReport(
    round=1, leader=2, phi=5, training_nodes=3, samples=30, divergence=0.1, consensus_error=0.0, winner=None,
    refused=(Refusal("device 4", "late", "no answer within 600 s"),), scores=Scores(0.75, 1.5),
    seconds={"train": 1.23456789, "evaluate": 0.5}, offloaded=2, assignment=(1, -1, 0),
)  # fmt: skip


def standing(round_: int, value: float = 0.5) -> Standing:
    """Where a server stands after a round, with a model of four values."""
    return Standing(round_, np.full(4, value, np.float32), bytes(range(32)), 3, Tenure(Address(b"\x07" * 20), 2), 0.25)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run folder that nobody has open."""
    RunFolder.create(tmp_path / "run", small(), {"threads": 1})
    return tmp_path / "run"


# --- one writer at a time ---------------------------------------------------------------------------------------

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "wb")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def in_use(path: Path) -> str:
    return f"{path} is in use by another process; wait for it, or stop it"


def test_a_run_that_another_process_writes_is_refused_until_that_process_ends(path: Path, command: Command) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        answer = command("simulate", "--resume", str(path))
        other.kill()
    assert (answer.code, answer.out, answer.err) == (2, f"resuming {path}; loading ...\n", f"error: {in_use(path)}\n")
    assert RunFolder.open(path).path == path


def test_a_run_is_not_opened_twice(path: Path) -> None:
    first = RunFolder.open(path)
    with pytest.raises(RunFolderError) as caught:
        RunFolder.open(first.path)
    assert str(caught.value) == in_use(path)


def test_a_run_that_was_just_made_is_in_use(tmp_path: Path) -> None:
    made = RunFolder.create(tmp_path / "run", small(), {})
    with pytest.raises(RunFolderError) as caught:
        RunFolder.open(made.path)
    assert str(caught.value) == in_use(tmp_path / "run")


def test_two_runs_are_open_side_by_side(tmp_path: Path) -> None:
    one, other = (RunFolder.create(tmp_path / name, small(), {}) for name in ("one", "other"))
    assert (one.settings(), other.settings()) == (small(), small())


# --- whole or old -----------------------------------------------------------------------------------------------


def no_space(*arguments: object) -> NoReturn:
    raise OSError("No space left on device")


def test_a_file_that_cannot_be_replaced_keeps_its_old_content(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.open(path)
    folder.write_json("summary.json", {"status": "interrupted"})
    folder.save_checkpoint(Checkpoint((standing(0),), 0, 1.0))
    monkeypatch.setattr(Path, "replace", no_space)  # as if the process ended between writing and replacing
    with pytest.raises(OSError, match="No space left"):
        folder.write_json("summary.json", {"status": "finished"})
    with pytest.raises(OSError, match="No space left"):
        folder.write_settings(small(rounds=99))
    with pytest.raises(OSError, match="No space left"):
        folder.save_checkpoint(Checkpoint((standing(1),), 0, 2.0))
    assert folder.read_json("summary.json") == {"status": "interrupted"}
    assert folder.settings() == small()
    checkpoint = folder.load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.round == 0


def test_what_was_written_on_the_way_does_not_stay(path: Path) -> None:
    folder = RunFolder.open(path)
    folder.write_json("summary.json", {"status": "finished"})
    folder.write_settings(small(rounds=99))
    folder.append_round(REPORT, 1.0, [standing(1)])
    assert [left.name for left in path.iterdir() if "partial" in left.name] == []
    assert read_settings(path / "config.toml") == small(rounds=99)


def test_a_checkpoint_is_read_as_it_was_written(path: Path) -> None:
    folder = RunFolder.open(path)
    written = (standing(1, 0.5), replace(standing(1, -2.0), winner=None))
    folder.append_round(REPORT, 12.5, written)
    found = folder.load_checkpoint()
    assert found is not None
    assert (found.round, found.wall_s, found.metrics_bytes) == (1, 12.5, (path / "metrics.jsonl").stat().st_size)
    for one, other in zip(found.standings, written, strict=True):
        np.testing.assert_array_equal(one.model, other.model)
        assert replace(one, model=other.model) == other


# --- metrics that every program can read ------------------------------------------------------------------------


def strict(text: str) -> object:
    """JSON as its standard has it, which knows neither NaN nor infinity."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"found {constant}, which is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_line_of_metrics_tells_a_round() -> None:
    line = metrics_of(REPORT)
    assert (line["round"], line["accuracy"], line["loss"], line["leader"], line["winner"]) == (1, 0.75, 1.5, 2, None)
    assert line["refused"] == [{"node": "device 4", "reason": "late", "detail": "no answer within 600 s"}]
    assert line["seconds"] == {"train": 1.234568, "evaluate": 0.5}
    assert (line["offloaded"], line["assignment"]) == (2, [1, -1, 0])


def test_a_round_without_evaluation_has_neither_accuracy_nor_loss() -> None:
    line = metrics_of(replace(REPORT, scores=None))
    assert (line["accuracy"], line["loss"]) == (None, None)


@given(loss=st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_a_loss_that_is_no_number_is_null(loss: float) -> None:
    line = metrics_of(replace(REPORT, scores=Scores(0.1, loss)))
    assert (line["accuracy"], line["loss"]) == (0.1, None)
    assert strict(json.dumps(line)) == line


def test_recorded_rounds_are_read_back(path: Path) -> None:
    folder = RunFolder.open(path)
    reports = [replace(REPORT, round=round_, scores=Scores(0.5, float("nan"))) for round_ in (1, 2, 3)]
    for report in reports:
        folder.append_round(report, 1.0, [standing(report.round)])
    assert folder.metrics() == [metrics_of(report) for report in reports]


@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl"])
def test_a_folder_without_its_files_is_no_run(path: Path, name: str) -> None:
    (path / name).unlink()
    with pytest.raises(RunFolderError) as caught:
        RunFolder.open(path)
    assert str(caught.value) == f"{path} is not a run folder: it has no {name}"


def test_a_json_file_that_is_not_there_is_empty_and_a_damaged_one_is_refused(path: Path) -> None:
    folder = RunFolder.open(path)
    assert folder.read_json("summary.json") == {}
    (path / "summary.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"summary\.json: damaged \("):
        folder.read_json("summary.json")


def test_a_file_where_the_folder_should_be_is_told_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(RunFolderError, match="run is a file, expected a folder or nothing there; choose another --out"):
        RunFolder.create(tmp_path / "run", small(), {})
