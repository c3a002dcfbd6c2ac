"""The paper's figures: verdicts on numbers made by hand, a small figure from end to end, refusals."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from bfl import reproduce_commands
from bfl.command import Command
from bfl.errors import BflError
from bfl.experiments import contestants, sweeps
from bfl.experiments.bench import QUICK, Bench
from bfl.experiments.catalogue import ENTRIES, find_figure, names_of
from bfl.experiments.claims import FAILS, HOLDS, INCOMPARABLE, as_far_below, falls, knee, lowest, rises, steepest
from bfl.experiments.contestants import Contender, label_of
from bfl.experiments.estimate import Estimate, combined, difference, estimated, percent_below
from bfl.experiments.learning_claims import Learned, best, diverges, fastest, slowest, steadiest, worst
from bfl.watch import Watch
from policy import agents
from policy.baselines.heuristics import HEURISTICS
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.shelf import Curve
from tests.bfl.runs import png_size

NOISE_S = 0.01
STAND_INS = {"a2c": "greedy-channel", "ddpg": "all-local", "a2c-vanilla": "all-offload", "actor-critic": "all-local",
             "dqn": "random"}  # fmt: skip


def line(*means: float) -> list[Estimate]:
    return [Estimate(mean, NOISE_S, 1, 100) for mean in means]


def run_of(label: str, *curve: float, final: float) -> Learned:
    """A learning curve with a point every hundred rounds."""
    rounds = [100 * (index + 1) for index in range(len(curve))]
    return Learned(label, rounds, list(curve), list(curve), list(curve), Estimate(final, NOISE_S))


# Estimates


def test_the_interval_is_that_of_the_states_or_of_the_seeds_whichever_is_larger() -> None:
    one = estimated([[1.0, 2.0, 3.0, 4.0]])
    assert (one.mean, one.seeds, one.states) == (2.5, 1, 4)
    assert one.half_width == pytest.approx(1.959964 * 1.2909944 / 2)
    three = estimated([[1.0, 1.0], [2.0, 2.0], [6.0, 6.0]])
    assert (three.mean, three.half_width, three.seeds) == (3.0, 2.5, 3)


def test_what_was_measured_in_the_same_states_is_compared_state_by_state() -> None:
    low, high = estimated([[1.0, 5.0, 9.0]]), estimated([[1.1, 5.1, 9.1]])
    assert difference(high, low).mean == pytest.approx(0.1)
    assert difference(high, low).half_width == pytest.approx(0.0, abs=1e-9)
    assert combined([(1.0, high), (-1.0, low)]).half_width == pytest.approx(0.0, abs=1e-9)


def test_a_near_optimum_in_few_states_is_compared_in_these_only() -> None:
    ours, optimum = estimated([[2.0, 4.0, 100.0]]), estimated([[1.0, 3.0]])
    assert difference(ours, optimum).mean == 1.0


def test_half_of_a_latency_is_fifty_per_cent_below_it() -> None:
    percent, half_width = percent_below(estimated([[1.0, 2.0]]), estimated([[2.0, 4.0]]))
    assert percent == pytest.approx(50.0)
    assert half_width == pytest.approx(0.0, abs=1e-9)


# Verdicts on sweeps


@pytest.mark.parametrize(
    ("means", "rising", "falling"),
    [
        ((1.0, 1.2, 1.4), HOLDS, FAILS),
        ((1.4, 1.2, 1.0), FAILS, HOLDS),
        ((1.0, 1.005, 1.0), FAILS, FAILS),
        ((1.0, 1.4, 1.2), FAILS, FAILS),
        ((1.0, 1.205, 1.2), HOLDS, FAILS),
    ],
)
def test_a_line_rises_or_falls_if_no_step_goes_clearly_back(
    means: tuple[float, ...], rising: str, falling: str
) -> None:
    assert rises("", {"a2c": line(*means)}, "a2c").verdict == rising
    assert falls("", {"a2c": line(*means)}, "a2c").verdict == falling


def test_a_plateau_is_no_step_back_however_well_it_is_known() -> None:
    flat = [estimated([[mean, mean + 1]]) for mean in (2.0, 1.0, 1.002)]
    assert falls("", {"a2c": flat}, "a2c").verdict == HOLDS
    back = [estimated([[mean, mean + 1]]) for mean in (2.0, 1.0, 1.02)]
    assert falls("", {"a2c": back}, "a2c").verdict == FAILS


def test_an_agent_that_does_not_fall_is_named() -> None:
    found = falls("", {"a2c": line(2, 1), "dqn": line(1, 2)}, "a2c")
    assert found.verdict == FAILS
    assert "not for dqn" in found.measured
    assert "-50.0 %" in found.measured


@pytest.mark.parametrize(("ours", "expected"), [((1.0, 1.0), HOLDS), ((1.0, 1.195), FAILS), ((1.3, 1.3), FAILS)])
def test_the_lowest_is_clearly_below_at_every_point(ours: tuple[float, ...], expected: str) -> None:
    series = {"a2c": line(*ours), "ddpg": line(1.2, 1.2), "dqn": line(2.0, 2.0)}
    assert lowest("", series, "a2c", ["ddpg", "dqn"]).verdict == expected


@pytest.mark.parametrize(
    ("claimed", "optimum", "expected"), [(20.0, 0.5, HOLDS), (30.0, 0.5, FAILS), (60.0, 0.5, INCOMPARABLE)]
)
def test_a_percentage_that_leaves_no_room_cannot_be_compared(claimed: float, optimum: float, expected: str) -> None:
    ours, rival, best_, chance = line(0.8, 1.0, optimum, 1.0)
    found = as_far_below("", ours, rival, claimed, (best_, chance))
    assert found.verdict == expected
    assert found.measured.startswith("20.0 % below")


@pytest.mark.parametrize(
    ("means", "expected"), [((2.0, 1.5, 1.4), HOLDS), ((2.0, 1.9, 1.4), FAILS), ((2.0, 1.7, 1.4), FAILS)]
)
def test_beyond_a_knee_it_falls_more_slowly(means: tuple[float, ...], expected: str) -> None:
    assert knee("", [10, 20, 30], line(*means), 20, "dBm").verdict == expected


@pytest.mark.parametrize(("last", "expected"), [(1.0, HOLDS), (1.6, FAILS)])
def test_the_steepest_loses_most(last: float, expected: str) -> None:
    series = {"a2c": line(2.0, last), "dqn": line(3.0, 2.5)}
    assert steepest("", series, "a2c", ["dqn"]).verdict == expected


# Verdicts on learning curves

FAST = run_of("fast", 3.0, 1.1, 1.0, 1.0, final=1.0)
SLOW = run_of("slow", 3.0, 2.5, 2.0, 1.2, final=1.2)
STUCK = run_of("stuck", 3.0, 3.05, 2.95, 3.0, final=3.0)
LOST = run_of("lost", 3.0, 1.5, 2.0, 2.8, final=2.8)
RACE = {run.label: run for run in (FAST, SLOW, STUCK, LOST)}


def test_the_best_and_the_worst_are_told_by_their_decisions_at_the_end() -> None:
    assert best("", RACE, "fast", ["slow", "lost"]).verdict == HOLDS
    assert best("", RACE, "slow", ["fast"]).verdict == FAILS
    assert worst("", RACE, "lost", ["fast", "slow"]).verdict == HOLDS
    assert worst("", RACE, "fast", ["slow"]).verdict == FAILS


def test_speed_is_the_rounds_to_ninety_per_cent_of_the_own_fall() -> None:
    assert (FAST.settled, SLOW.settled, STUCK.settled) == (200, 400, float("inf"))
    assert fastest("", RACE, "fast", ["slow", "stuck"]).verdict == HOLDS
    assert fastest("", RACE, "slow", ["fast"]).verdict == FAILS
    assert slowest("", RACE, "stuck", ["slow", "fast"]).verdict == HOLDS
    assert slowest("", RACE, "fast", ["slow"]).verdict == FAILS


def test_rates_that_teach_nothing_cannot_be_compared() -> None:
    race = {"stuck": STUCK, "other": replace(STUCK, label="other")}
    for claim in (best, fastest, slowest, steadiest, worst):
        found = claim("", race, "stuck", ["other"])
        assert found.verdict == INCOMPARABLE
        assert "none of them learns" in found.measured


def test_who_ends_above_where_it_was_diverges() -> None:
    assert diverges("", RACE, "lost").verdict == HOLDS
    assert diverges("", RACE, "slow").verdict == FAILS


def test_the_steadiest_jumps_least() -> None:
    assert steadiest("", RACE, "fast", ["slow", "lost"]).verdict == HOLDS
    assert steadiest("", RACE, "lost", ["fast"]).verdict == FAILS
    assert steadiest("", RACE | {"alike": replace(SLOW, label="alike")}, "slow", ["alike"]).verdict == FAILS


# Figures


def test_every_figure_of_the_catalogue_is_there_under_its_name() -> None:
    assert names_of("all") == [entry.name for entry in ENTRIES]
    for entry in ENTRIES:
        assert vars(find_figure(entry.name))["name"] == entry.name


def test_a_rate_that_is_our_own_makes_no_other_agent() -> None:
    own = agents.learning_params("a2c", 0)
    assert Contender("", "a2c", actor_rate=own.step.actor_rate).key == "a2c"
    assert Contender("", "a2c", actor_rate=0.003).key == "a2c-actor-rate0.003"
    assert Contender("", "a2c", critic_rate=0.02).params(4) == replace(own, critic_rate=0.02, seed=4)


def test_a_world_is_named_by_what_differs() -> None:
    worlds = find_figure("bandwidth")
    assert isinstance(worlds, sweeps.SweepFigure)
    assert [label_of(world) for world in worlds.worlds()][:2] == ["default", "bandwidth_hz=2.25e+07"]
    phi = replace(LatencyParams(), phi=0)
    assert label_of(phi) == "phi=0"


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rules stand in for what learns; who was asked for is listed."""
    asked: list[str] = []

    def learned(bench: Bench, contender: Contender, seed: int, world: LatencyParams) -> tuple[agents.Agent, Curve]:
        asked.append(f"{contender.key} {seed} {label_of(world)}")
        slope = 0.5 if contender.key == "a2c" else 0.1 + 0.1 * seed
        curve = Curve(contender.key, seed, [1, 2, 3], [3.0, 3 - slope, 3 - 2 * slope], 1.0)
        return HEURISTICS[STAND_INS.get(contender.agent, "threshold")], curve

    fixed = agents.fixed_agent
    monkeypatch.setattr(contestants, "learned", learned)
    monkeypatch.setattr("bfl.experiments.races.learned", learned)
    monkeypatch.setattr(agents, "fixed_agent", lambda name: HEURISTICS["threshold"] if name == "a2c" else fixed(name))
    monkeypatch.setattr(contestants, "check_library", lambda: None)
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
    bench = Bench(tmp_path, QUICK, Watch(Console()))
    assert bench.kept("x", 1, lambda: [1.0]) == bench.kept("x", 1, lambda: [2.0]) == [1.0]
    (tmp_path / "points" / "x.json").write_text("[1.0", encoding="utf-8")
    assert bench.kept("x", 1, lambda: [2.0]) == [2.0]


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


def test_all_figures_have_a_summary(tmp_path: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bfl.reproduce_commands.names_of", lambda _: ["schemes", "hash"])
    run("all", "--quick", "--out", str(tmp_path))
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "(schemes.md)" in summary
    assert "ours is the lowest at every Ψ_max" in summary


def test_after_an_interruption_the_command_to_go_on_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sweeps.SweepFigure, "measured", stop)
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
    with pytest.raises(
        BflError, match=r"stable-baselines3 is not installed; get it with: pip install 'bfl\[baselines\]'"
    ):
        run("schemes", "--quick", "--out", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_missing_pictures_are_told_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BflError, match=r"matplotlib is not installed; get it with: pip install 'bfl\[simulation\]'"):
        run("power", "--quick", "--out", str(tmp_path / "new"))
