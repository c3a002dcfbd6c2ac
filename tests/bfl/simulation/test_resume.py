"""Nothing that was finished is lost: Ctrl-C, kill -9, half-written files, and what may not be resumed."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from bfl.config import read_settings
from bfl.errors import RunFolderError
from bfl.simulation import run as simulation
from bfl.simulation.checkpoint import Checkpoint
from bfl.simulation.run_folder import RunFolder
from clients.evaluation import Scores
from edge_servers.federation import Federation
from tests.bfl.conftest import Command
from tests.bfl.runs import (
    SMALL,
    ctrl_c_after,
    environment,
    flags_of,
    go_on,
    ignore,
    interrupt,
    metrics_without_seconds,
    run_through,
    small,
)

pytestmark = pytest.mark.usefixtures("without_plots")


def files_of(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, to see that a refusal leaves it as it was."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def refusal_to_resume(folder: Path) -> str:
    """Why a run is not resumed. The lock of its folder is free again, as it is when a process has ended."""
    with pytest.raises(RunFolderError) as refused:
        simulation.resume(folder, None, False)
    told = str(refused.value)
    del refused  # with its traceback it would keep what `resume` had opened
    gc.collect()
    return told


# --- Ctrl-C and kill -9 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["consensus-no-chain", "traditional"])
def test_ctrl_c_leaves_a_complete_folder_that_resumes_to_the_same_end(tmp_path: Path, scheme: str) -> None:
    settings = small(scheme=scheme, rounds=5, phi="auto", planner="random:0.5")
    whole = run_through(settings, tmp_path / "whole")
    interrupt(settings, tmp_path / "run", after=2)
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.toml", "metrics.jsonl", "summary.json", "model.pt", "checkpoint.npz", "plots"} <= left
    assert metrics_without_seconds(tmp_path / "run") == whole[:2]
    assert go_on(tmp_path / "run") == whole
    for model in (tmp_path / "whole").glob("*.pt"):
        assert (tmp_path / "run" / model.name).read_bytes() == model.read_bytes()


def test_a_run_may_be_interrupted_after_every_round(tmp_path: Path) -> None:
    settings = small(rounds=4, data_per_round="state")
    whole = run_through(settings, tmp_path / "whole")
    interrupt(settings, tmp_path / "run", after=1)
    for round_ in (2, 3):
        simulation.run(simulation.resume(tmp_path / "run", None, False), ctrl_c_after(round_))
    assert go_on(tmp_path / "run") == whole


def test_a_run_that_was_stopped_before_its_first_round_starts_from_the_beginning(tmp_path: Path) -> None:
    settings = small(rounds=2)
    simulation.start(settings, tmp_path / "run")
    assert go_on(tmp_path / "run") == run_through(settings, tmp_path / "whole")


def test_ctrl_c_in_the_middle_of_a_round_leaves_the_model_of_the_last_recorded_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(rounds=3)
    interrupt(settings, tmp_path / "between", after=1)
    evaluate = Federation.evaluate

    def evaluate_disturbed(federation: Federation) -> Scores:
        if federation.round == 2:  # sealed by all servers, but not recorded
            raise KeyboardInterrupt
        return evaluate(federation)

    with monkeypatch.context() as patched:
        patched.setattr(Federation, "evaluate", evaluate_disturbed)
        summary = simulation.run(simulation.start(settings, tmp_path / "within"), ignore)
    assert (summary["status"], summary["rounds"]) == ("interrupted", 1)
    assert (tmp_path / "within" / "model.pt").read_bytes() == (tmp_path / "between" / "model.pt").read_bytes()
    assert go_on(tmp_path / "within") == go_on(tmp_path / "between")
    assert (tmp_path / "within" / "model.pt").read_bytes() == (tmp_path / "between" / "model.pt").read_bytes()


def test_the_summary_of_a_resumed_run_counts_all_its_rounds_and_all_its_time(tmp_path: Path) -> None:
    interrupt(small(rounds=3), tmp_path / "run", after=2)
    before = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    after = simulation.run(simulation.resume(tmp_path / "run", None, False), ignore)
    assert (before["status"], before["rounds"], before["rounds-planned"]) == ("interrupted", 2, 3)
    assert (after["status"], after["rounds"], after["rounds-planned"]) == ("finished", 3, 3)
    checkpointed = RunFolder.open(tmp_path / "run").load_checkpoint()
    assert checkpointed is not None
    assert after["wall-seconds"] == pytest.approx(checkpointed.wall_s, abs=1.0)
    assert after["wall-seconds"] > sum(sum(line["seconds"].values()) for line in RunFolder(tmp_path / "run").metrics())


def test_a_run_that_lost_its_checkpoint_is_refused_and_left_alone(tmp_path: Path) -> None:
    """One line of metrics may be ahead of it: a kill can come in between."""
    interrupt(small(rounds=4), tmp_path / "run", after=2)
    (tmp_path / "run" / "checkpoint.npz").unlink()
    lines = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match=r"metrics of 2 rounds, but checkpoint\.npz is missing or empty"):
        simulation.resume(tmp_path / "run", None, False)
    gc.collect()
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == lines
    (tmp_path / "run" / "metrics.jsonl").write_bytes(lines.splitlines(keepends=True)[0])
    assert len(go_on(tmp_path / "run")) == 4


def start_and_signal(folder: Path, number: signal.Signals) -> tuple[int, str]:
    """A real run that gets a signal once it has shown its second round; exit code and output."""
    flags = flags_of(SMALL | {"rounds": 100_000})
    process = subprocess.Popen(
        [sys.executable, "-m", "bfl", "simulate", *flags, "--out", "run"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # CI may have it ignored
    )
    assert process.stdout is not None
    shown = []
    try:
        for line in process.stdout:
            shown.append(line)
            if line.startswith("round 2/"):
                break
        process.send_signal(number)
        rest, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    return process.returncode, "".join(shown) + rest


def check_that_it_resumes_to_the_same_end(folder: Path) -> None:
    """Two rounds more than the killed run had are those of a run that nobody disturbed."""
    checkpoint = RunFolder.open(folder / "run").load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.round >= 2
    rounds = checkpoint.round + 2
    assert go_on(folder / "run", rounds) == run_through(small(rounds=rounds), folder / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_real_interruption_says_how_to_go_on_and_that_works(tmp_path: Path, number: signal.Signals) -> None:
    code, shown = start_and_signal(tmp_path, number)
    assert code == 130
    assert "Traceback" not in shown
    told = re.search(r"^Interrupted after round (\d+)\. Go on with: bfl simulate --resume run$", shown, re.MULTILINE)
    assert told is not None
    assert int(told[1]) == len(metrics_without_seconds(tmp_path / "run"))
    check_that_it_resumes_to_the_same_end(tmp_path)


@pytest.mark.kills
def test_kill_9_at_any_moment_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    code, _ = start_and_signal(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    check_that_it_resumes_to_the_same_end(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_a_round_is_written_waits_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, number: signal.Signals
) -> None:
    save = RunFolder.save_checkpoint

    def save_disturbed(folder: RunFolder, checkpoint: Checkpoint) -> None:
        if checkpoint.round == 2:
            os.kill(os.getpid(), number)
        save(folder, checkpoint)

    monkeypatch.setattr(RunFolder, "save_checkpoint", save_disturbed)
    answer = command("simulate", *flags_of(SMALL), "--out", str(tmp_path / "run"))
    assert answer.code == 130
    assert "Interrupted after round 2." in answer.out
    checkpoint = RunFolder.open(tmp_path / "run").load_checkpoint()
    assert checkpoint is not None
    assert checkpoint.round == 2


@pytest.mark.parametrize("torn", [b'{"round": 3, "accu', b"\x00" * 100, b'{"round": 3}\n', b"\n"])
def test_what_was_written_of_an_unfinished_round_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    settings = small(rounds=3)
    interrupt(settings, tmp_path / "run", after=2)
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(torn)
    assert go_on(tmp_path / "run") == run_through(settings, tmp_path / "whole")


def test_a_half_written_first_line_without_a_checkpoint_is_cut_off(tmp_path: Path) -> None:
    settings = small(rounds=1)
    simulation.start(settings, tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"round": 1, "acc', encoding="utf-8")
    (tmp_path / "run" / "checkpoint.partial").write_bytes(b"PK")
    assert go_on(tmp_path / "run") == run_through(settings, tmp_path / "whole")


# --- more rounds ------------------------------------------------------------------------------------------------


def test_a_finished_run_is_not_resumed_unless_more_rounds_are_asked_for(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    run_through(small(rounds=2), out)
    before = files_of(out)
    refused = command("simulate", "--resume", str(out))
    assert (refused.code, refused.out) == (2, f"resuming {out}; loading ...\n")
    assert refused.err == f"error: {out} has finished 2 rounds, 2 are asked for; ask for more with --rounds\n"
    assert files_of(out) == before
    assert go_on(out, rounds=4) == run_through(small(rounds=4), tmp_path / "whole")


@pytest.mark.parametrize("scheme", ["consensus-no-chain", "traditional"])
def test_a_run_killed_after_its_last_round_but_before_its_end_only_writes_its_end(tmp_path: Path, scheme: str) -> None:
    out = tmp_path / "run"
    whole = run_through(small(rounds=2, scheme=scheme), out)
    summary, model = RunFolder(out).read_json("summary.json"), (out / "model.pt").read_bytes()
    for name in ("summary.json", "model.pt"):
        (out / name).unlink()
    assert go_on(out) == whole
    assert (out / "model.pt").read_bytes() == model
    written = RunFolder(out).read_json("summary.json")
    assert {**written, "wall-seconds": 0} == {**summary, "wall-seconds": 0}
    assert refusal_to_resume(out) == f"{out} has finished 2 rounds, 2 are asked for; ask for more with --rounds"


def test_a_run_killed_before_the_end_of_the_rounds_it_was_asked_for_later_writes_that_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder still has the summary of the first end, which says `finished`."""
    run_through(small(rounds=2), tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(simulation, "finish", killed)
        with pytest.raises(SystemExit):
            go_on(tmp_path / "run", rounds=3)
    gc.collect()
    assert go_on(tmp_path / "run") == run_through(small(rounds=3), tmp_path / "whole")
    assert RunFolder(tmp_path / "run").read_json("summary.json")["rounds"] == 3
    assert (tmp_path / "run" / "model.pt").read_bytes() == (tmp_path / "whole" / "model.pt").read_bytes()


def killed(*arguments: object) -> NoReturn:
    """The end of a process, as far as one can have it in a test."""
    raise SystemExit


def test_fewer_rounds_than_are_done_are_refused(tmp_path: Path) -> None:
    interrupt(small(rounds=4), tmp_path / "run", after=2)
    before = files_of(tmp_path / "run")
    with pytest.raises(RunFolderError, match="has finished 2 rounds, 1 are asked for; ask for more with --rounds"):
        simulation.resume(tmp_path / "run", 1, False)
    assert files_of(tmp_path / "run") == before


def test_rounds_that_were_asked_for_at_a_resume_are_remembered_by_the_next(tmp_path: Path) -> None:
    run_through(small(rounds=2), tmp_path / "run")
    simulation.run(simulation.resume(tmp_path / "run", 4, False), ctrl_c_after(3))
    assert read_settings(tmp_path / "run" / "config.toml") == small(rounds=4)
    assert go_on(tmp_path / "run") == run_through(small(rounds=4), tmp_path / "whole")


# --- what may not be resumed ------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A run of three rounds, stopped after one."""
    interrupt(small(rounds=3), tmp_path / "run", after=1)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--seed 3", "--seed"),
        ("--rounds 9 --phi 3 --graph ring", "--graph, --phi"),
        ("--config my.toml", "--config"),
        ("--out other", "--out"),
    ],
)
def test_a_resumed_run_keeps_its_own_settings(interrupted: Path, command: Command, flags: str, named: str) -> None:
    before = files_of(interrupted)
    answer = command("simulate", "--resume", str(interrupted), *flags.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"error: --resume goes on with the run's own settings; found {named} beside it, expected only --rounds\n"
    )
    assert files_of(interrupted) == before


def test_variables_of_the_environment_do_not_change_a_resumed_run(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BFL_SEED", "7")
    assert simulation.resume(interrupted, None, False).settings == small(rounds=3)


def test_a_folder_that_is_no_run_is_not_resumed(tmp_path: Path, command: Command) -> None:
    answer = command("simulate", "--resume", str(tmp_path))
    assert (answer.code, answer.err) == (2, f"error: {tmp_path} is not a run folder: it has no config.toml\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_not_resumed(tmp_path: Path, command: Command) -> None:
    answer = command("simulate", "--resume", str(tmp_path / "nowhere"))
    assert answer.code == 2
    assert "nowhere is not a run folder: it has no config.toml" in answer.err
    assert not (tmp_path / "nowhere").exists()


def test_a_run_without_its_metrics_is_not_resumed(interrupted: Path) -> None:
    (interrupted / "metrics.jsonl").unlink()
    with pytest.raises(RunFolderError, match=r"is not a run folder: it has no metrics\.jsonl$"):
        simulation.resume(interrupted, None, False)


@pytest.mark.parametrize("damage", ["garbage", "cut", "flipped", "empty"])
def test_a_damaged_checkpoint_is_refused_by_its_name(interrupted: Path, damage: str) -> None:
    path = interrupted / "checkpoint.npz"
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "garbage": b"no zip at all",
            "cut": content[:middle],
            "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "empty": b"",
        }[damage]
    )
    with pytest.raises(RunFolderError, match=rf"^{re.escape(str(path))}: damaged \(.*\); start the run anew$"):
        simulation.resume(interrupted, None, False)


def test_metrics_that_lack_lines_are_refused_with_found_and_expected(interrupted: Path) -> None:
    path = interrupted / "metrics.jsonl"
    size = path.stat().st_size
    os.truncate(path, 10)
    message = f"{path}: found 10 bytes, expected at least {size} for 1 rounds; lines are missing"
    with pytest.raises(RunFolderError, match=f"^{re.escape(message)}$"):
        simulation.resume(interrupted, None, False)


def test_another_environment_is_refused_by_name_and_accepted_with_the_flag(interrupted: Path) -> None:
    path = interrupted / "environment.json"
    recorded = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(recorded | {"threads": 64, "torch": "1.0"}), encoding="utf-8")
    refused = refusal_to_resume(interrupted)
    assert "threads: the run has 64, this process 1" in refused
    assert f"torch: the run has 1.0, this process {recorded['torch']}" in refused
    assert "chunk" not in refused
    assert "--allow-other-environment" in refused
    assert [line["round"] for line in go_on(interrupted, allow_other_environment=True)] == [1, 2, 3]


def test_a_damaged_environment_is_refused_by_its_name(interrupted: Path) -> None:
    (interrupted / "environment.json").write_text('{"threads": ', encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"environment\.json: damaged"):
        simulation.resume(interrupted, None, False)
