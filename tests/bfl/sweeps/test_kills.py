"""kill -9 of a process of a sweep, and of the sweep itself: it goes on, and the numbers are those of quiet runs."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.sweeps.folder import count_rounds
from bfl.sweeps.processes import MOST_DEATHS
from tests.bfl.runs import bfl, metrics_without_seconds, run_through, small
from tests.bfl.sweeps.sweeps_made import (
    PATIENCE_S,
    begun_sweep,
    children_of,
    is_alive,
    kill,
    rounds_made,
    small_file,
    sweep_in,
    wait_until,
)  # fmt: skip

pytestmark = pytest.mark.kills
ROUNDS = 60


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    """Two schemes, one seed, rounds enough to be killed in."""
    file = small_file()
    path = tmp_path / "sweep.toml"
    path.write_text(replace(file, common={**file.common, "rounds": ROUNDS, "evaluate-every": 20}).text())
    return path


def test_a_killed_child_and_a_killed_sweep_go_on_to_the_numbers_of_quiet_runs(toml: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = begun_sweep(toml, out, "--jobs", "1")
    wait_until(lambda: rounds_made(out) > 3, "for the first rounds")
    (child,) = children_of(sweep)
    kill(child)
    wait_until(lambda: bool(set(children_of(sweep)) - {child}), "for another process")
    before = rounds_made(out)
    wait_until(lambda: rounds_made(out) > before, "for its rounds")
    (child,) = children_of(sweep)
    sweep.kill()
    said, _ = sweep.communicate(timeout=PATIENCE_S)
    assert "its process was ended by SIGKILL" in said
    wait_until(lambda: not is_alive(child), "for the process that is left behind")
    assert 0 < rounds_made(out) < 2 * ROUNDS
    again = bfl("sweep", str(toml), "--out", str(out), "--jobs", "2", folder=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    for scheme in ("consensus-no-chain", "fedavg"):
        alone = run_through(small(scheme=scheme, rounds=ROUNDS, evaluate_every=20), tmp_path / scheme)
        assert metrics_without_seconds(out / f"scheme={scheme}" / "seed=0") == alone


def test_ctrl_c_ends_every_run_after_its_round_and_says_how_to_go_on(toml: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = begun_sweep(toml, out, "--jobs", "2")
    wait_until(lambda: rounds_made(out) > 3, "for the first rounds")
    children = children_of(sweep)
    sweep.send_signal(signal.SIGINT)
    said, _ = sweep.communicate(timeout=PATIENCE_S)
    assert sweep.returncode == 130, said
    assert f"runs are left. Go on with: bfl sweep {toml} --out {out} --jobs 2" in said
    assert not [pid for pid in children if is_alive(pid)]
    assert (out / "table.md").is_file()


@pytest.mark.parametrize(
    ("body", "told"),
    [("os.kill(os.getpid(), 9)", "its process was ended by SIGKILL"), ("1 / 0", "ZeroDivisionError: division by zero")],
    ids=["killed", "raises"],
)
def test_a_run_whose_process_always_ends_is_given_up_and_the_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    (tmp_path / "mine.py").write_text(f"import os\ndef load(*given, **more):\n    {body}\n")
    (tmp_path / "sweep.toml").write_text(small_file(dataset=("mine:load", "synthetic")).text())
    done = bfl("sweep", "sweep.toml", "--out", "out", "--jobs", "1", "--allow-plugins", folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert told in done.stdout
    assert done.stdout.count("another one goes on with it") == (MOST_DEATHS - 1 if "kill" in body else 0)
    assert "1 of 2 runs failed. When the cause is gone, try them again with: bfl sweep sweep.toml" in done.stdout
    assert count_rounds(tmp_path / "out" / "dataset=synthetic" / "seed=0" / "metrics.jsonl") == 3


def test_a_folder_that_was_killed_before_it_was_a_run_is_made_anew(tmp_path: Path) -> None:
    half = tmp_path / "sweep" / "scheme=fedavg" / "seed=0"
    (half / "plots").mkdir(parents=True)
    (tmp_path / "sweep" / "sweep.toml").touch()
    (half / "config.toml.part").write_text("rounds = ")
    result, _ = sweep_in(tmp_path / "sweep", replace(small_file(), grid={"scheme": ("fedavg", "traditional")}))
    assert result.left == 0
