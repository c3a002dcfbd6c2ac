"""`bfl policy ...`: training with checkpoints, tables beside the near-optimum, learning curves."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.policies import training as policy_training
from policy import agents
from policy import cache as agent_cache
from policy.actor.planner import Policy
from policy.parameters import LatencyParams
from policy.training.learner import SharedLearner
from policy.training.settings import LearningParams
from tests.bfl.conftest import Command


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of a second: few rows, few devices, a short record."""
    little = LearningParams(devices=(4, 6), rows=24, samples=2, passes=2)
    learners = {
        "a2c": little,
        "a2c-vanilla": replace(little, step=agents.VANILLA),
        "a2c-paper": LearningParams(architecture="paper", devices=(3,), rows=24, samples=2),
    }
    for module in (agents, agent_cache, policy_training):
        monkeypatch.setattr(module, "LEARNERS", learners)
    for module in (agent_cache, policy_training):
        monkeypatch.setattr(module, "UPDATES", dict.fromkeys(learners, 3))
    monkeypatch.setattr(policy_training, "RECORD_DEVICES", (5,))
    monkeypatch.setattr(policy_training, "RECORD_STATES", 4)
    monkeypatch.setattr(policy_training, "CHECKPOINT_EVERY", 2)


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the one training whose results the tests of this file copy."""
    return tmp_path_factory.mktemp("trained-once")


@pytest.fixture
def weights(tmp_path: Path, command: Command, small: None, trained_once: Path) -> Path:
    """Weights after three updates."""
    if not any(trained_once.iterdir()):
        assert command("policy", "train", "--out", str(trained_once)).code == 0
    shutil.copytree(trained_once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "a2c-seed0" / "weights.json"


def test_training_leaves_weights_with_their_record_a_curve_and_a_picture(weights: Path) -> None:
    record = json.loads(weights.read_text())["record"]
    assert record["command"] == "bfl policy train --agent a2c --seed 0 --updates 3"
    assert record["seed"] == 0
    assert record["figures"]["states"] == 4
    assert "T/N at N = 5, s" in record["figures"]
    rows = list(csv.DictReader((weights.parent / "curve.csv").open()))
    assert [int(row["update"]) for row in rows] == [3]
    assert (weights.parent / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert Policy.trained(LatencyParams(devices=7), weights).params.devices == 7


def test_a_training_that_was_interrupted_goes_on_and_ends_with_the_same_weights(
    tmp_path: Path, command: Command, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = SharedLearner.update

    def interrupted(self: SharedLearner, number: int) -> object:
        if number == 2:
            raise KeyboardInterrupt
        return update(self, number)

    out = tmp_path / "again"
    with monkeypatch.context() as patch:
        patch.setattr(SharedLearner, "update", interrupted)
        answer = command("policy", "train", "--out", str(out))
    assert answer.code == 130
    assert "2 updates are kept" in answer.out
    assert "--resume" in answer.out
    assert not (out / "a2c-seed0" / "weights.json").exists()
    assert command("policy", "train", "--out", str(out), "--resume").code == 0
    found, expected = (json.loads(p.read_text())["weights"] for p in (out / "a2c-seed0" / "weights.json", weights))
    assert found == expected


def test_a_training_is_not_overwritten(weights: Path, command: Command, tmp_path: Path) -> None:
    answer = command("policy", "train", "--out", str(tmp_path))
    assert answer.code == 2
    assert "--resume" in answer.err


def test_a_finished_training_that_is_resumed_keeps_its_settled_network(
    tmp_path: Path, command: Command, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = replace(agents.LEARNERS["a2c"], settle_at=1, settled_passes=3)
    monkeypatch.setattr(agents, "LEARNERS", {"a2c": settled})
    assert command("policy", "train", "--out", str(tmp_path)).code == 0
    path = tmp_path / "a2c-seed0" / "weights.json"
    first = json.loads(path.read_text())
    assert first["sizes"]["passes"] == 3
    assert command("policy", "train", "--out", str(tmp_path), "--seeds", "2", "--resume").code == 0
    assert json.loads(path.read_text())["sizes"] == first["sizes"]
    assert (tmp_path / "a2c-seed1" / "weights.json").exists()
    answer = command("policy", "train", "--out", str(tmp_path), "--resume", "--updates", "2")
    assert answer.code == 2
    assert "at least the 3 that are done" in answer.err


def test_every_seed_has_a_folder(tmp_path: Path, command: Command, small: None) -> None:
    assert command("policy", "train", "--out", str(tmp_path), "--seeds", "2", "--updates", "1").code == 0
    found = [json.loads((tmp_path / f"a2c-seed{seed}" / "weights.json").read_text()) for seed in (0, 1)]
    assert found[0]["weights"] != found[1]["weights"]


def test_evaluation_sets_agents_beside_the_near_optimum(tmp_path: Path, command: Command, weights: Path) -> None:
    assert command("policy", "train", "--out", str(tmp_path), "--seed", "1").code == 0
    other = str(tmp_path / "a2c-seed1" / "weights.json")
    arguments = (
        "policy", "evaluate", "--weights", str(weights), "--weights", other, "--devices", "3,5", "--states", "6",
        "--agents", "a2c,threshold,near-optimum", "--out", str(tmp_path / "out"),
    )  # fmt: skip
    answer = command(*arguments)
    assert answer.code == 0, answer.err
    assert "evaluate near-optimum, N = 5" in answer.out
    again = command(*arguments)
    assert "evaluate near-optimum" not in again.out
    assert again.out.endswith(answer.out.partition("T/N in s")[2])
    rows = list(csv.DictReader((tmp_path / "out" / "evaluation.csv").open()))
    assert [(row["agent"], row["devices"], row["seed"]) for row in rows] == [
        ("near-optimum", "3", "0"), ("near-optimum", "5", "0"), ("a2c", "3", "0"), ("a2c", "3", "1"),
        ("a2c", "5", "0"), ("a2c", "5", "1"), ("threshold", "3", "0"), ("threshold", "5", "0"),
    ]  # fmt: skip
    assert all(float(row["over_optimum"]) >= 1 for row in rows)
    text = (tmp_path / "out" / "evaluation.md").read_text()
    assert "| near-optimum | 1.000 ± 0.000 | 1.000 ± 0.000 |" in text
    assert (tmp_path / "out" / "evaluation.png").exists()


def test_an_agent_for_one_number_of_devices_is_evaluated_there_only(
    tmp_path: Path, command: Command, small: None
) -> None:
    answer = command(
        "policy", "evaluate", "--devices", "3,5", "--states", "4", "--agents", "a2c-paper,a2c-vanilla",
        "--agents-dir", str(tmp_path / "agents"), "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert answer.code == 0, answer.err
    rows = list(csv.DictReader((tmp_path / "out" / "evaluation.csv").open()))
    assert [(row["agent"], row["devices"]) for row in rows] == [
        ("a2c-paper", "3"), ("a2c-vanilla", "3"), ("a2c-vanilla", "5"),
    ]  # fmt: skip


def test_comparison_draws_the_curves_of_those_that_learn(tmp_path: Path, command: Command, small: None) -> None:
    answer = command(
        "policy", "compare", "--agents", "a2c,a2c-vanilla,random", "--seeds", "2",
        "--agents-dir", str(tmp_path / "agents"), "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert answer.code == 0, answer.err
    rows = list(csv.DictReader((tmp_path / "out" / "comparison.csv").open()))
    assert {(row["agent"], row["seed"]) for row in rows} == {
        (name, seed) for name in ("a2c", "a2c-vanilla") for seed in "01"
    }
    assert (tmp_path / "out" / "comparison.png").exists()


def test_agents_are_listed(command: Command) -> None:
    shown = command("policy", "agents").out
    assert all(name in shown for name in agents.NAMES)


def test_what_cannot_be_is_refused_in_one_line(
    subtests: pytest.Subtests, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: list[tuple[list[str], str]] = [
        (["train", "--agent", "random"], "expected one of a2c, a2c-vanilla"),
        (["train", "--agent", "nobody"], "expected one of a2c, a2c-vanilla"),
        (["train", "--seeds", "0"], "at least 1"),
        (["train", "--seed", "-1"], "at least 0"),
        (["train", "--agent", "dqn"], "trained by evaluate and compare"),
        (["evaluate", "--devices", "ten"], "whole numbers"),
        (["evaluate", "--devices", "0"], "at least 1"),
        (["evaluate", "--states", "1"], "at least 2"),
        (["evaluate", "--servers", "0"], "servers"),
        (["evaluate", "--agents", "nobody"], "expected one of"),
        (["evaluate", "--weights", "nowhere.json"], "no weights at"),
        (["compare", "--agents", "rules"], "one that learns"),
        (["compare", "--seeds", "0"], "at least 1"),
    ]
    for arguments, told in cases:
        with subtests.test(arguments=arguments, told=told):
            monkeypatch.chdir(tmp_path)
            answer = command("policy", *arguments)
            assert answer.code == 2
            assert told in answer.err
            assert answer.err.count("\n") == 1
