"""The paper's policy figures: a small one from end to end, what is kept, refusals."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from bfl.commands import reproduce as reproduce_commands
from bfl.commands.command import Command
from bfl.errors import BflError
from bfl.experiments.catalogue import ENTRIES, figure_names, find_figure
from bfl.experiments.context import QUICK, ExperimentContext
from bfl.experiments.latency import agent_variants, sweeps
from bfl.experiments.latency.agent_variants import AgentVariant, world_label
from bfl.show.task_display import TaskDisplay
from policy import agents
from policy.cache import LearningCurve
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.rivals.heuristics import HEURISTICS
from tests.bfl.runs import png_size

STAND_INS = {"a2c": "greedy-channel", "ddpg": "all-local", "a2c-vanilla": "all-offload", "actor-critic": "all-local",
             "dqn": "random"}  # fmt: skip


# Figures


def test_every_figure_of_the_catalogue_is_there_under_its_name() -> None:
    assert figure_names("all") == [entry.name for entry in ENTRIES]
    for entry in ENTRIES:
        assert vars(find_figure(entry.name))["name"] == entry.name


def test_a_rate_that_is_our_own_makes_no_other_agent() -> None:
    own = agents.learning_params("a2c", 0)
    assert AgentVariant("", "a2c", actor_rate=own.step.actor_rate).key == "a2c"
    assert AgentVariant("", "a2c", actor_rate=0.003).key == "a2c-actor-rate0.003"
    assert AgentVariant("", "a2c", critic_rate=0.02).params(4) == replace(own, critic_rate=0.02, seed=4)


def test_a_world_is_named_by_what_differs() -> None:
    worlds = find_figure("bandwidth")
    assert isinstance(worlds, sweeps.SweepFigure)
    assert [world_label(world) for world in worlds.worlds()][:2] == ["default", "bandwidth_hz=2.25e+07"]
    phi = replace(LatencyParams(), phi=0)
    assert world_label(phi) == "phi=0"


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rules stand in for what learns; who was asked for is listed."""
    asked: list[str] = []

    def learned(
        context: ExperimentContext, variant: AgentVariant, seed: int, world: LatencyParams
    ) -> tuple[agents.Agent, LearningCurve]:
        asked.append(f"{variant.key} {seed} {world_label(world)}")
        slope = 0.5 if variant.key == "a2c" else 0.1 + 0.1 * seed
        curve = LearningCurve(variant.key, seed, [1, 2, 3], [3.0, 3 - slope, 3 - 2 * slope], 1.0)
        return HEURISTICS[STAND_INS.get(variant.agent, "threshold")], curve

    fixed = agents.fixed_agent
    monkeypatch.setattr(agent_variants, "train_or_load", learned)
    monkeypatch.setattr("bfl.experiments.latency.learning_curves.train_or_load", learned)
    monkeypatch.setattr(agents, "fixed_agent", lambda name: HEURISTICS["threshold"] if name == "a2c" else fixed(name))
    monkeypatch.setattr(agent_variants, "check_library", lambda: None)
    monkeypatch.setattr(reproduce_commands, "QUICK", replace(QUICK, states=5, optimum_states=2))
    return asked


def run(*arguments: str) -> str:
    """`bfl reproduce ...`, and what it printed; refusals are raised."""
    app = typer.Typer()
    app.command("reproduce", cls=Command)(reproduce_commands.reproduce)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False).output


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_sweep_is_a_picture_rows_and_a_page_with_verdicts(tmp_path: Path, trainings: list[str]) -> None:
    shown = run("power", "--quick", "--out", str(tmp_path))
    assert png_size(tmp_path / "power.png") == (1495, 624)
    rows = rows_of(tmp_path / "power.csv")
    assert len(rows) == 2 * 5 * len(sweeps.AGENTS)
    assert {(row["agent"], row["states"]) for row in rows} >= {("a2c", "5"), ("near-optimum", "2")}
    assert all(float(row["mean_s"]) > 0.5 for row in rows)
    page = (tmp_path / "power.md").read_text(encoding="utf-8")
    assert f"`bfl reproduce power --quick --out {tmp_path}`" in page
    assert "trained at the default parameters" in page
    claims = [text for text in page.splitlines() if text.endswith(("**holds** |", "**does not hold** |"))]
    assert len(claims) == 4
    assert "power.png" in shown


@pytest.mark.slow
def test_points_that_were_measured_are_not_measured_again(tmp_path: Path, trainings: list[str]) -> None:
    run("power", "--quick", "--out", str(tmp_path))
    assert len(trainings) == 4 * 5
    kept = tmp_path / "points" / "default-random-states5.json"
    kept.write_text(json.dumps([7.0] * 5), encoding="utf-8")
    run("power", "--quick", "--out", str(tmp_path))
    assert len(trainings) == 4 * 5
    found = [row for row in rows_of(tmp_path / "power.csv") if (row["agent"], row["x"]) == ("random", "30")]
    assert [row["mean_s"] for row in found] == ["7", "210"]


def test_a_damaged_point_is_measured_again(tmp_path: Path) -> None:
    context = ExperimentContext(tmp_path, QUICK, TaskDisplay(Console()))
    assert context.cached_values("x", 1, lambda: [1.0]) == context.cached_values("x", 1, lambda: [2.0]) == [1.0]
    (tmp_path / "points" / "x.json").write_text("[1.0", encoding="utf-8")
    assert context.cached_values("x", 1, lambda: [2.0]) == [2.0]


@pytest.mark.slow
def test_retraining_happens_in_every_world_but_not_for_every_number_of_devices(
    tmp_path: Path, trainings: list[str]
) -> None:
    run("devices", "--quick", "--retrain", "--seeds", "2", "--out", str(tmp_path))
    assert {asked for asked in trainings if asked.startswith("dqn")} == {
        f"dqn {seed} devices={devices}" for seed in (0, 1) for devices in (20, 40, 60, 80, 100)
    }
    assert {asked for asked in trainings if asked.startswith("actor-critic")} == {
        "actor-critic 0 default",
        "actor-critic 1 default",
    }
    page = (tmp_path / "devices.md").read_text(encoding="utf-8")
    assert "**cannot be compared**" in page  # 38 % below the deep Q-network
    assert "2 training seeds" in page


def test_learning_curves_are_a_figure_too(tmp_path: Path, trainings: list[str]) -> None:
    shown = run("actor-rate", "--quick", "--seeds", "2", "--out", str(tmp_path))
    assert png_size(tmp_path / "actor-rate.png") == (1105, 624)
    rows = [row for row in rows_of(tmp_path / "actor-rate.csv") if row["agent"] == "actor rate 0.003"]
    assert [(row["x"], row["mean_s"], row["half_width_s"]) for row in rows[:3]] == [
        ("1", "3", "0"),
        ("2", "2.85", "0.05"),
        ("3", "2.7", "0.1"),
    ]
    assert "while learning" in (tmp_path / "actor-rate.md").read_text(encoding="utf-8")
    assert "does not hold" in shown


@pytest.mark.slow
def test_all_figures_have_a_summary(tmp_path: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bfl.commands.reproduce.figure_names", lambda _: ["schemes", "hash"])
    run("all", "--quick", "--out", str(tmp_path))
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "(schemes.md)" in summary
    assert "ours is the lowest at every Ψ_max" in summary


def test_after_an_interruption_the_command_to_go_on_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps.SweepFigure, "measure", stop)
    monkeypatch.setattr(sweeps.SweepFigure, "check", lambda self: None)
    assert f"Go on with: bfl reproduce power --out {tmp_path} --seeds 2 --retrain" in run(
        "power", "--retrain", "--seeds", "2", "--out", str(tmp_path)
    )


# Refusals


def test_an_unknown_figure_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BflError, match=r"found figure 'powr', expected all or one of actor-rate, .* power, "):
        run("powr")


def test_no_seeds_are_refused() -> None:
    with pytest.raises(BflError, match="--seeds: found 0, expected at least 1"):
        run("power", "--seeds", "0")


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(BflError, match=r"--out: found the file .*taken, expected a folder"):
        run("power", "--out", str(tmp_path / "taken"))


def test_missing_weights_are_told_before_any_rival_is_trained(
    tmp_path: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> agents.Agent:
        raise PolicyError(f"no weights of {name}")

    monkeypatch.setattr(agents, "fixed_agent", missing)
    with pytest.raises(BflError, match="no weights of a2c"):
        run("all", "--quick", "--out", str(tmp_path))
    assert trainings == []


def test_a_missing_library_is_told_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(BflError, match=r"stable-baselines3 is not installed; get it with: .* install .*\[baselines\]'"):
        run("schemes", "--quick", "--out", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_missing_pictures_are_told_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BflError, match=r"matplotlib is not installed; get it with: .* install .*\[simulation\]'"):
        run("power", "--quick", "--out", str(tmp_path / "new"))
