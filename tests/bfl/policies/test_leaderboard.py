"""The board: everybody beside the near-optimum, scored once, and again only if something has changed."""

import csv
import json
from pathlib import Path

import pytest

from bfl.policies import leaderboard, scenarios
from bfl.policies.contestants import Stable
from bfl.policies.scenarios import SCENARIOS, SEEDS, Scenario, scenario_key
from bfl.show.task_display import wide_console
from clients.plugins import OPEN_POINTS
from policy.agents import NAMES
from policy.parameters import LatencyParams
from tests.bfl.conftest import Command

AGENT = """
import numpy as np

def make(world):
    if world.devices != 4:
        return None
    action = {"choice": np.full(4, CHOICE), "params": np.full((4, 4), SHARE)}
    return lambda observation: action
"""


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and two scenarios of a second."""
    small = [
        Scenario("four", "four devices", LatencyParams(devices=4, servers=2, channels=2)),
        Scenario("five", "five devices", LatencyParams(devices=5, servers=2, channels=2)),
    ]
    monkeypatch.setattr(scenarios, "SCENARIOS", {each.name: each for each in small})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_agent(folder: Path, name: str, choice: int, share: float) -> str:
    """A module of the user with an agent in it."""
    text = AGENT.replace("CHOICE", str(choice)).replace("SHARE", str(share))
    (folder / f"{name}.py").write_text(text)
    return f"{name}:make"


def rows(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The lines of all seeds together, by agent and scenario."""
    lines = csv.DictReader((folder / "board" / "leaderboard.csv").open())
    return {(line["agent"], line["scenario"]): line for line in lines if line["seed"] == "all"}


def test_rules_and_the_reference_are_on_the_board_from_the_best_on(board: Path, command: Command) -> None:
    answer = command("policy", "leaderboard", "--states", "2", "--out", "board")
    assert answer.code == 0, answer.err
    assert "evaluate near-optimum, five" in answer.out
    found = rows(board)
    assert {agent for agent, _ in found} == set(leaderboard.STANDING)
    assert found["near-optimum", "four"]["over_optimum"] == "1.00000"
    assert all(float(line["over_optimum"]) >= 1 for line in found.values())
    assert {line["states"] for line in found.values()} == {str(2 * len(SEEDS))}
    page = (board / "board" / "leaderboard.md").read_text()
    assert page.index("| near-optimum | 1.000 |") < page.index("| a2c |") < page.index("| random |")
    assert "| five | five devices |" in page


def test_one_agent_more_is_scored_alone_and_stays(board: Path, command: Command) -> None:
    first, other = write_agent(board, "board_agent_a", 0, 1.0), write_agent(board, "board_agent_b", 0, 0.5)
    flags = ("policy", "leaderboard", "--scenarios", "four", "--states", "2", "--out", "board")
    assert command(*flags, "--agents", first).code == 0
    answer = command(*flags, "--agents", other)
    assert answer.code == 0, answer.err
    assert [line.split(",")[0] for line in answer.out.splitlines() if line.startswith("evaluate")] == [
        f"evaluate {other}"
    ] * len(SEEDS)
    found = rows(board)
    assert found[first, "four"]["mean_s"] == found["all-local", "four"]["mean_s"]
    assert float(found[other, "four"]["mean_s"]) > float(found[first, "four"]["mean_s"])


def test_an_agent_that_decides_otherwise_is_another_one(board: Path, command: Command) -> None:
    """Its code reads a file, so that only what it does can tell."""
    (board / "board_agent_c.py").write_text(
        AGENT.replace("CHOICE", "0").replace("SHARE", "float(open('share').read())")
    )
    (board / "share").write_text("0.5")
    flags = ("policy", "leaderboard", "--scenarios", "four", "--states", "2", "--out", "board")
    assert command(*flags, "--agents", "board_agent_c:make").code == 0
    before = rows(board)["board_agent_c:make", "four"]["mean_s"]
    (board / "share").write_text("1.0")
    assert "evaluate board_agent_c" in command(*flags, "--agents", "board_agent_c:make").out
    after = rows(board)["board_agent_c:make", "four"]["mean_s"]
    assert float(after) < float(before)
    (board / "share").write_text("0.5")
    assert "evaluate board_agent_c" not in command(*flags, "--agents", "board_agent_c:make").out
    assert rows(board)["board_agent_c:make", "four"]["mean_s"] == before


def test_who_serves_some_scenarios_stands_behind_those_who_serve_all(board: Path, command: Command) -> None:
    name = write_agent(board, "board_agent_d", 0, 1.0)
    answer = command("policy", "leaderboard", "--states", "2", "--out", "board", "--agents", name)
    assert answer.code == 0, answer.err
    lines = [line for line in (board / "board" / "leaderboard.md").read_text().splitlines() if line.startswith("|")]
    last = lines[len(leaderboard.STANDING) + 2]
    assert last.startswith(f"| {name} |")
    assert " (of 1) |" in last
    assert " | - | " in last


def test_a_damaged_score_is_measured_again(board: Path, command: Command) -> None:
    flags = ("policy", "leaderboard", "--scenarios", "four", "--states", "2", "--out", "board")
    assert command(*flags).code == 0
    before = rows(board)["threshold", "four"]["mean_s"]
    (point,) = (board / "board" / "points").glob("threshold--*.json")
    point.write_text("{")
    assert "evaluate threshold, four" in command(*flags).out
    assert json.loads(point.read_text())["agent"] == "threshold"
    assert rows(board)["threshold", "four"]["mean_s"] == before


def test_a_key_names_world_seeds_and_number_of_states() -> None:
    keys = {scenario_key(scenario, states) for scenario in SCENARIOS.values() for states in (2, 40)}
    assert len(keys) == 2 * len(SCENARIOS)


def test_an_agent_has_a_key_of_what_it_is_made_of(board: Path) -> None:
    stable = Stable(board, 0.01, 2, (), wide_console())
    (ours,) = stable.contestants("a2c", LatencyParams())
    assert ours.key.startswith("a2c-")
    assert [each.key[:9] for each in stable.contestants("dqn", LatencyParams())] == ["dqn-seed0", "dqn-seed1"]
    assert stable.contestants("a2c-paper", LatencyParams(devices=7)) == []


def test_the_open_point_names_every_agent() -> None:
    assert OPEN_POINTS["agent"].names == tuple(NAMES)


def test_what_cannot_be_is_refused_in_one_line(subtests: pytest.Subtests, command: Command, board: Path) -> None:
    (board / "board_agent_e.py").write_text("def make(world):\n    return 3\n\ndef decide(seen):\n    return seen[0]\n")
    cases: list[tuple[list[str], str]] = [
        (["leaderboard", "--scenarios", "fuor"], 'expected all or some of four, five (did you mean "four"?)'),
        (["leaderboard", "--states", "1"], "--states: found 1, expected at least 2"),
        (["leaderboard", "--agents", "treshold"], 'or your own as module:function (did you mean "threshold"?)'),
        (["evaluate", "--agents", "nowhere:make"], "cannot import nowhere"),
        (["evaluate", "--agents", "board_agent_e:mak"], 'no function "mak" (did you mean "make"?)'),
        (["evaluate", "--agents", "board_agent_e:make", "--states", "2"], "its function gave 3, expected an object"),
        (["evaluate", "--agents", "board_agent_e:decide", "--states", "2"], "board_agent_e.py, line 5"),
        (["evaluate", "--agents", "a2c:nowhere.json"], "no weights at nowhere.json"),
        (["compare", "--agents", "board_agent_e:make"], "found agent 'board_agent_e:make', expected one of"),
    ]
    for arguments, told in cases:
        with subtests.test(arguments=arguments, told=told):
            answer = command("policy", *arguments)
            assert answer.code == 2
            assert told in answer.err
            assert answer.err.count("\n") == 1


def test_nobody_who_serves_a_world_is_told(board: Path, command: Command) -> None:
    name = write_agent(board, "board_agent_f", 0, 1.0)
    answer = command("policy", "evaluate", "--agents", name, "--devices", "5,6", "--states", "2", "--out", "out")
    assert answer.code == 2
    assert f"found nobody among {name} who serves these worlds: try other --devices" in answer.err
    assert (
        command("policy", "evaluate", "--agents", name, "--devices", "4,5", "--states", "2", "--out", "out").code == 0
    )
    (line,) = csv.DictReader((board / "out" / "evaluation.csv").open())
    assert (line["agent"], line["devices"]) == (name, "4")
