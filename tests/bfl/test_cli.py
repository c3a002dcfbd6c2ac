"""The command line: what it says, what it refuses, and what a run leaves behind."""

import json
import re
import tomllib
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NoReturn

import numpy as np
import pytest
import torch

from bfl.config import all_fields, read_settings
from bfl.simulation import run as simulation
from clients.data import dataset_of
from clients.evaluation import evaluate_model
from clients.models import network_for, to_vector
from tests.bfl.conftest import Command
from tests.bfl.runs import ROOT, SMALL, bfl, flags_of, png_size

PHASES = ["plan", "train", "close", "gossip", "verify", "model", "seal"]


# --- what it says -----------------------------------------------------------------------------------------------


def test_version_is_the_one_in_pyproject(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    done = bfl("--version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"bfl {project['version']}\n")


def test_without_arguments_it_explains_its_commands(tmp_path: Path) -> None:
    done = bfl(folder=tmp_path)
    shown = done.stdout + done.stderr
    assert "simulate" in shown
    assert "doctor" in shown
    assert "Traceback" not in shown


def test_help_explains_every_setting_with_its_default(tmp_path: Path) -> None:
    done = bfl("simulate", "--help", folder=tmp_path, COLUMNS="300", TERMINAL_WIDTH="300")
    assert done.returncode == 0
    shown = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stdout).split())
    for key, field in all_fields().items():
        default = f" (default: {field.default})" if field.default != "" else ""
        assert f"--{key} " in shown
        assert " ".join((field.metadata["help"] + default).split()) in shown
    assert all(flag in shown for flag in ("--config", "--out", "--resume", "--allow-other-environment"))


def only_the_first_line(shown: str) -> bool:
    """What a run says before it loads anything, and nothing more."""
    return re.fullmatch(r"simulating [\d,]+ rounds of .*; loading \.\.\.\n", shown) is not None


# --- what it refuses --------------------------------------------------------------------------------------------


def test_an_unknown_flag_names_the_nearest_one(tmp_path: Path) -> None:
    done = bfl("simulate", "--round", "3", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr == 'error: no such option: --round (did you mean "--rounds"?); see: bfl simulate --help\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("simulat", 'no such command: simulat (did you mean "simulate"?); see: bfl --help'),
        ("audit chek", 'no such command: chek (did you mean "check"?); see: bfl audit --help'),
        ("audit xyz", "no such command: xyz; see: bfl audit --help"),
        (
            "simulate --rounds few",
            "invalid value for '--rounds': 'few' is not a valid integer; see: bfl simulate --help",
        ),
        ("chain block", "missing argument 'NUMBER'; see: bfl chain block --help"),
    ],
)
def test_a_slip_on_the_command_line_is_one_line_and_names_what_was_meant_once(
    command: Command, arguments: str, message: str
) -> None:
    answer = command(*arguments.split())
    assert (answer.code, answer.out, answer.err) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--phi", "five"], 'phi: found "five", expected a whole number or auto'),
        (["--config", "missing.toml"], "missing.toml: cannot be read (No such file or directory)"),
    ],
)
def test_a_refusal_is_one_line_on_stderr_and_exit_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = bfl("simulate", *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--graph 0-1",
            "graph 0-1: found 2 components {0, 1} and {2}, expected one: consensus never crosses a gap; "
            "add an edge between them",
        ),
        (
            "--graph lin",
            'graph: found "lin", expected line, ring, star, complete or edges such as 0-1,1-2 (did you mean "line"?)',
        ),
        ("--graph 0-1,1-3", "graph: found edge 1-3, expected two different servers of 0 to 2"),
        (
            "--planner fixd",
            'planner: found "fixd", expected one of fixed, random, a2c, random-action, all-local, all-offload, '
            'greedy-channel, threshold, near-optimum or your own as module:function (did you mean "fixed"?)',
        ),
        ("--planner fixed:4", 'planner: found "fixed:4": expected devices of 0 to 3'),
        (
            "--scheme bfl-no-consens",
            'scheme: found "bfl-no-consens", expected one of bfl, bfl-no-consensus, consensus-no-chain, '
            "no-consensus-no-chain, traditional, fedavg or your own as module:function "
            '(did you mean "bfl-no-consensus"?)',
        ),
        (
            "--filter norm-clp",
            'filter: found "norm-clp", expected none, median, norm-clip, krum, trimmed-mean, nnm, centred-clip, '
            "direction, harm, loss, your own as module:function, or some joined by + "
            '(did you mean "norm-clip"?)',
        ),
        (
            "--reputation 4 --filter median",
            "reputation: found filter median, which takes nobody out, expected one that",
        ),
        ("--nodes 2", "nodes: found 2, expected 1 (shared) or 3 (one per edge server)"),
        ("--codec fp8", 'codec: found "fp8", expected one of fp16, fp32, int8'),
        (
            "--partition noniid",
            'partition: found "noniid", expected one of iid, non-iid, dirichlet, by-group, quantity or your own as '
            'module:function (did you mean "non-iid"?)',
        ),
        (
            "--dataset nosuch",
            'dataset: found "nosuch", expected fashion-mnist, svhn, synthetic, cifar-10, csv, image-folder or your own '
            "as module:function",
        ),
        ("--model nosuch:make", "model \"nosuch:make\": cannot import nosuch (No module named 'nosuch')"),
        ("--hidden 50,none", "hidden: found '50,none', expected positive whole numbers such as 50 or 256,72"),
        ("--rounds 0", "rounds: found 0, expected at least 1"),
        ("--gradient-bound 128", "gradient-bound: found 128.0, expected less than 128"),
    ],
)
def test_what_cannot_work_is_refused_with_found_and_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, flags: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("simulate", *flags_of(SMALL), *flags.split())
    assert answer.code == 2
    assert answer.out == "" or only_the_first_line(answer.out)
    assert answer.err.startswith(f"error: {message}")
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_is_missing_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("simulate", "--data-dir", "missing")
    assert answer.code == 2
    assert only_the_first_line(answer.out)
    assert answer.err.startswith("error: ")
    assert "missing" in answer.err
    assert "train-images-idx3-ubyte" in answer.err


TEN_IMAGES = """
from dataclasses import replace

import torch

from clients.data import synthetic


def make(folder, seed):
    whole = synthetic(folder, seed)
    return replace(whole, name="ten", train=whole.train.select(torch.arange(10)))
"""


def test_more_devices_than_images_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ten_images.py").write_text(TEN_IMAGES, encoding="utf-8")
    answer = command("simulate", "--dataset", "ten_images:make", "--devices", "11")
    assert answer.code == 2
    assert only_the_first_line(answer.out)
    assert re.match(r"error: iid partition.*11 devices", answer.err)


def test_a_seed_too_large_for_the_random_streams_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("simulate", *flags_of(SMALL | {"seed": 2**64}))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: seed: found {2**64}, expected")


def test_a_folder_that_holds_something_is_never_written_into(tmp_path: Path, command: Command) -> None:
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf-8")
    answer = command("simulate", *flags_of(SMALL), "--out", str(tmp_path))
    assert answer.code == 2
    assert answer.err == (
        f"error: {tmp_path} exists and is not empty; choose another --out, or go on with --resume {tmp_path}\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_folder_that_cannot_be_made_is_refused_by_its_name(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    out = tmp_path / "file" / "run"
    answer = command("simulate", *flags_of(SMALL), "--out", str(out))
    assert (answer.code, answer.err) == (2, f"error: {out}: cannot be made (Not a directory)\n")


def test_ctrl_c_before_the_first_round_ends_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    def pressed(*arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulation, "start", pressed)
    answer = command("simulate", *flags_of(SMALL), "--out", str(tmp_path / "run"))
    assert answer.code == 130
    assert only_the_first_line(answer.out.splitlines(keepends=True)[0])
    assert answer.out.endswith("Interrupted before the run began: nothing was written. Give the same command again.\n")
    assert answer.err == ""


# --- what a run leaves behind -----------------------------------------------------------------------------------

Finished = tuple[Path, CompletedProcess[str]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run of six rounds, its settings from all four sources, its output in a pipe."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "my.toml").write_text("rounds = 9\nseed = 9\nbatch = 10\niterations = 2\n", encoding="utf-8")
    flags = ["--config", "my.toml", "--rounds", "6", "--dataset", "synthetic", "--out", "runs/mine"]
    flags += ["--scheme", "consensus-no-chain", "--planner", "fixed"]
    done = bfl("simulate", *flags, folder=folder, BFL_ROUNDS="8", BFL_SEED="3", BFL_DEVICES="4")
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "mine", done


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def summary_of(run: Path) -> dict[str, Any]:
    """The content of summary.json."""
    content: dict[str, Any] = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return content


def test_the_run_records_the_settings_it_ran_with(finished: Finished) -> None:
    run, _ = finished
    settings = read_settings(run / "config.toml")
    found = (settings.rounds.rounds, settings.data.seed, settings.data.devices, settings.training.batch)
    assert found == (6, 3, 4, 10)
    assert settings.rounds.scheme == "consensus-no-chain"


def test_output_in_a_pipe_is_plain_lines_one_per_round(finished: Finished) -> None:
    run, done = finished
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    assert lines[0] == (
        "simulating 6 rounds of consensus-no-chain: 4 devices, 3 edge servers, synthetic, iid; loading ..."
    )
    assert re.fullmatch("data: synthetic, 6,000 samples, .*made from seed 3", lines[1])
    assert lines[2] == "run folder: runs/mine"
    for metrics, line in zip(metrics_of(run), lines[3:9], strict=True):
        told = f"round {metrics['round']}/6  accuracy {100 * metrics['accuracy']:.2f} %  loss {metrics['loss']:.4f}  "
        assert line.startswith(told)
        assert re.fullmatch(r"\d+\.\d\d s", line.removeprefix(told))
    assert f"{100 * summary_of(run)['accuracy']:.2f} % (mean of the last five evaluations)" in done.stdout
    assert "metrics: runs/mine/metrics.jsonl" in done.stdout
    assert done.stderr == ""


def test_metrics_hold_one_object_per_round_with_its_phases_in_the_order_of_the_protocol(finished: Finished) -> None:
    run, _ = finished
    metrics = metrics_of(run)
    assert [line["round"] for line in metrics] == [1, 2, 3, 4, 5, 6]
    for line in metrics:
        assert [phase for phase in line["seconds"] if phase != "evaluate"] == PHASES
        assert min(line["seconds"].values()) >= 0
        assert 0 <= line["accuracy"] <= 1
        assert line["loss"] > 0
        assert line["refused"] == []
        assert (line["phi"], line["training-nodes"]) == (5, 4)  # devices 1, 2, 3 and server 0 with the data of device 0
    assert metrics[-1]["accuracy"] > metrics[0]["accuracy"]


def test_the_summary_averages_the_last_five_evaluations(finished: Finished) -> None:
    run, _ = finished
    metrics, summary = metrics_of(run), summary_of(run)
    told = {key: summary[key] for key in ("scheme", "seed", "rounds", "status", "devices", "edges", "parameters")}
    assert told == {
        "scheme": "consensus-no-chain", "seed": 3, "rounds": 6, "status": "finished", "devices": 4, "edges": 3,
        "parameters": 21_840,
    }  # fmt: skip
    assert summary["accuracy"] == pytest.approx(sum(line["accuracy"] for line in metrics[1:]) / 5)
    assert summary["loss"] == pytest.approx(sum(line["loss"] for line in metrics[1:]) / 5)
    assert summary["wall-seconds"] >= sum(line["seconds"]["train"] for line in metrics)


def test_the_model_loads_without_pickle_and_has_the_recorded_accuracy(finished: Finished) -> None:
    run, _ = finished
    settings = read_settings(run / "config.toml")
    dataset = dataset_of(settings.data)
    network = network_for(dataset, settings.training, settings.data.seed)
    network.load_state_dict(torch.load(run / "model.pt", weights_only=True))
    scores = evaluate_model(network, to_vector(network), dataset.test)
    last = metrics_of(run)[-1]
    assert scores.accuracy == last["accuracy"]
    assert scores.loss == pytest.approx(last["loss"], rel=1e-5)


@pytest.mark.parametrize("name", ["accuracy.png", "loss.png", "partition.png"])
def test_every_plot_is_a_picture_of_sensible_size_with_something_on_it(finished: Finished, name: str) -> None:
    from matplotlib.image import imread

    path = finished[0] / "plots" / name
    width, height = png_size(path)
    assert 300 <= width <= 2000
    assert 200 <= height <= 2000
    pixels = imread(path)
    assert pixels.shape[:2] == (height, width)
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 10


def test_a_file_of_somebody_else_moves_no_cursor_in_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text('[common]\n"ro\\u001b]0;own\\u0007" = 3\n')
    done = bfl("sweep", "sweep.toml", folder=tmp_path)
    assert done.returncode == 2
    assert 'unknown key "ro\ufffd]0;own\ufffd"' in done.stderr
