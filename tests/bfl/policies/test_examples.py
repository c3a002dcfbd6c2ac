"""The examples of docs/agents.md: trained, scored, and put in charge of a run."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policy.evaluation import evaluate_agent
from policy.own_agents import OwnAgent
from policy.parameters import LatencyParams
from policy.rivals.heuristics import all_local
from tests.bfl.conftest import Command
from tests.bfl.runs import ROOT

EXAMPLES = ROOT / "docs" / "examples"
MOST_LINES = 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the examples in it as modules that nobody has imported."""
    for name in ("sb3_agent", "cleanrl_agent"):
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """What a program prints that is run in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def scores(command: Command, agent: str) -> dict[str, float]:
    """T/N by agent, with rules beside it."""
    flags = f"--agents {agent},random,all-local --devices 10 --servers 3 --states 50 --out scores"
    answer = command("policy", "evaluate", *flags.split())
    assert answer.code == 0, answer.err
    return {row["agent"]: float(row["mean_s"]) for row in csv.DictReader(Path("scores/evaluation.csv").open())}


def test_an_agent_of_stable_baselines3_is_trained_and_scored_in_few_lines(folder: Path, command: Command) -> None:
    lines = (folder / "sb3_agent.py").read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) < MOST_LINES
    run(folder, "-c", "import sb3_agent; sb3_agent.train(rounds=2500)")
    found = scores(command, "sb3_agent:make")
    assert found["sb3_agent:make"] < 0.93 * found["random"]


def test_an_agent_in_one_file_is_trained_scored_and_plans_a_run(folder: Path, command: Command) -> None:
    assert "update 20: reward" in run(folder, "cleanrl_agent.py", "--updates", "20")
    found = scores(command, "cleanrl_agent:make")
    assert found["cleanrl_agent:make"] < 0.93 * found["random"]
    flags = "--rounds 1 --dataset synthetic --iterations 1 --difficulty 10 --out run"
    answer = command("simulate", "--planner", "cleanrl_agent:make", *flags.split())
    assert answer.code == 0, answer.err
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert (summary["planner"], summary["rounds"]) == ("cleanrl_agent:make", 1)


@pytest.mark.experiment
def test_the_example_of_stable_baselines3_learns_to_beat_training_everywhere(folder: Path, command: Command) -> None:
    run(folder, "-c", "import sb3_agent; sb3_agent.train(rounds=40_000)")
    found = scores(command, "sb3_agent:make")
    assert found["sb3_agent:make"] < found["all-local"]


def test_what_the_guide_says_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    assert {"sb3_agent.py", "cleanrl_agent.py"} <= set(re.findall(r"examples/(\w+\.py)", text))
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        names: dict[str, Any] = {}
        exec(compile(block, "docs/agents.md", "exec"), names)  # noqa: S102 - our own document
        if "make" in names:
            agent = OwnAgent("of the guide", names["make"])
            found = evaluate_agent("of the guide", agent, LatencyParams(devices=3), 2)
            assert found.per_state_s.tolist() == evaluate_agent("it", all_local, found.params, 2).per_state_s.tolist()
    said = capsys.readouterr().out
    assert re.fullmatch(r"T \S+ s, reward \S+\nmine: T/N 1\.\d\d .*\nrandom: T/N [23]\.\d\d .*\n", said)
