"""A run folder that somebody else made: resuming it writes in it and nowhere else, and reads within bounds (Q4)."""

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bfl.config import read_toml
from bfl.errors import ConfigError, RunFolderError
from bfl.simulation import run as simulation
from bfl.simulation import run_folder
from bfl.simulation.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from bfl.simulation.run_folder import RunFolder
from edge_servers.founding.standing import Standing
from tests.bfl.runs import interrupt, small

pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run folder that nobody has open."""
    RunFolder.create(tmp_path / "run", small(), {}).release()
    return tmp_path / "run"


# --- links


@pytest.mark.parametrize("name", ["metrics.jsonl", "model.pt", "chain.db", "summary.json.part", ".lock", "plots/a.png"])
def test_a_link_is_refused_before_anything_is_written_through_it(path: Path, tmp_path: Path, name: str) -> None:
    """A run without a checkpoint begins by emptying metrics.jsonl."""
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(precious)
    with pytest.raises(RunFolderError, match="found a link, pipe or device, expected ordinary files only"):
        simulation.resume(path, None, True)
    assert precious.read_text() == "years of work"


def test_a_folder_of_plots_that_is_elsewhere_is_refused(path: Path, tmp_path: Path) -> None:
    (path / "plots").rmdir()
    (path / "plots").symlink_to(tmp_path)
    with pytest.raises(RunFolderError, match=r"plots: found a link, pipe or device"):
        RunFolder.open(path)


def test_a_pipe_is_refused(path: Path) -> None:
    os.mkfifo(path / "checkpoint.npz")
    with pytest.raises(RunFolderError, match=r"checkpoint\.npz: found a link, pipe or device"):
        RunFolder.open(path)


def test_the_folder_itself_may_be_a_link_of_the_person(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    RunFolder.open(tmp_path / "link").release()


# --- sizes


def test_a_configuration_is_at_most_64_kilobytes(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("#" * (1 << 16))
    assert read_toml(tmp_path / "mine.toml") == {}
    (tmp_path / "mine.toml").write_text("#" * ((1 << 16) + 1))
    with pytest.raises(
        ConfigError, match=r"mine\.toml: cannot be read \(found more than 65,536 bytes, expected at most"
    ):
        read_toml(tmp_path / "mine.toml")


@pytest.mark.parametrize("text", ["a = " + "[" * 60_000, f"a = {'9' * 60_000}", "a = {b" + ".b" * 20_000])
def test_a_configuration_that_would_end_the_parser_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ConfigError, match="is not TOML"):
        read_toml(tmp_path / "mine.toml")


def test_a_line_of_metrics_that_never_ends_is_refused(path: Path) -> None:
    os.truncate(path / "metrics.jsonl", 1 << 40)
    with pytest.raises(RunFolderError, match="or one of more than 1,048,576 bytes"):
        RunFolder(path).metrics()
    with pytest.raises(RunFolderError, match="or one of more than 1,048,576 bytes"):
        RunFolder(path).cut_metrics(1)


def test_more_lines_than_anybody_writes_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "MOST_LINES", 3)
    (path / "metrics.jsonl").write_text("{}\n" * 3)
    assert RunFolder(path).metrics() == [{}] * 3
    (path / "metrics.jsonl").write_text("{}\n" * 4)
    with pytest.raises(RunFolderError, match="found more than 3 lines"):
        RunFolder(path).metrics()


def test_brackets_in_brackets_are_damage(path: Path) -> None:
    (path / "metrics.jsonl").write_text("[" * 200_000 + "\n")
    assert RunFolder(path).cut_metrics(5) == 0
    (path / "metrics.jsonl").write_text("[" * 200_000 + "\n")
    with pytest.raises(RunFolderError, match="damaged"):
        RunFolder(path).metrics()
    (path / "summary.json").write_text("[" * 200_000)
    with pytest.raises(RunFolderError, match="damaged"):
        RunFolder(path).read_json("summary.json")


def test_a_summary_of_more_than_a_megabyte_is_damage(path: Path) -> None:
    (path / "summary.json").write_text(" " * ((1 << 20) + 1))
    with pytest.raises(RunFolderError, match="found more than 1,048,576 bytes"):
        RunFolder(path).read_json("summary.json")


def test_more_files_than_a_run_has_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "MOST_FILES", 5)
    for number in range(6):
        (path / f"{number}").touch()
    with pytest.raises(RunFolderError, match="found more than 5 files"):
        RunFolder.open(path)


# --- checkpoints


def npz(how: int = zipfile.ZIP_STORED, **arrays: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def npy(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


NOTE = npy(np.frombuffer(json.dumps({"standings": [], "metrics-bytes": 0, "wall-s": 0}).encode(), np.uint8))
MODELS = npy(np.ones((1, 4), np.float32))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npz(about=NOTE, models=header("(1, 1000000000000)")), "found 0 bytes of numbers, expected 4000000000000"),
        (npz(about=NOTE, models=header("(1, -4)")), "expected float32 in 2 dimensions"),
        (npz(about=NOTE, models=header("(1, 1)", "|O") + b"x"), "expected float32 in 2 dimensions"),
        (npz(about=NOTE, models=header("(4,)") + bytes(16)), "expected float32 in 2 dimensions"),
        (npz(about=NOTE, models=header("__import__('os')")), "."),
        (npz(about=NOTE, models=b"\x93NUMPY\x03\x00" + b"\xff" * 40), "expected 1.0"),
        (npz(about=NOTE, models=MODELS, more=MODELS), "expected about.npy and models.npy"),
        (npz(about=NOTE), "expected about.npy and models.npy"),
        (
            npz(zipfile.ZIP_DEFLATED, about=NOTE, models=npy(np.zeros((1, 1 << 22), np.float32))),
            "stored, not compressed",
        ),
        (npz(about=npy(np.frombuffer(b"[" * 200_000, np.uint8)), models=MODELS), "."),
        (npz(about=npy(np.zeros(1 << 21, np.uint8)), models=MODELS), "found a note of 2,097,152 bytes"),
        (npz(about=npy(np.frombuffer(b"[1]", np.uint8)), models=MODELS), "."),
    ],
)
def test_a_checkpoint_that_asks_for_more_than_it_has_is_damage(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(RunFolderError, match=rf"checkpoint\.npz: damaged \((.|\n)*{message}"):
        read_checkpoint(tmp_path / "checkpoint.npz")


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    standing = Standing(3, np.array([1, -0.0, 2.5], np.float32), bytes(32), None)
    write_checkpoint(tmp_path / "checkpoint.npz", Checkpoint((standing, standing), 5, 1.5))
    found = read_checkpoint(tmp_path / "checkpoint.npz")
    assert (found.round, found.metrics_bytes, found.wall_s, len(found.standings)) == (3, 5, 1.5, 2)
    np.testing.assert_array_equal(found.standings[1].model, standing.model)


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    interrupt(small(), tmp_path / "run", after=1)
    path = tmp_path / "run" / "checkpoint.npz"
    found = read_checkpoint(path)
    standing = Standing(1, np.ones(4, np.float32), found.standings[0].block_hash)
    write_checkpoint(path, Checkpoint((standing,), found.metrics_bytes, found.wall_s))
    with pytest.raises(RunFolderError, match="the checkpoint has models of 4 numbers, expected 21840"):
        simulation.resume(tmp_path / "run", None, False)
