"""The paper's learning figures from end to end on synthetic images, what is kept of their runs, missing data."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from bfl.commands import reproduce as reproduce_commands
from bfl.commands.command import Command
from bfl.errors import BflError
from bfl.experiments.attacks import defences, rules_catch
from bfl.experiments.attacks.attacked_schemes import ATTACKED_SCHEMES
from bfl.experiments.context import QUICK, ExperimentContext
from bfl.experiments.images import ImageSource
from bfl.experiments.learning import trials
from bfl.experiments.learning.curves import PARTITIONS
from bfl.experiments.learning.trials import Trial, run_trials
from bfl.show.task_display import TaskDisplay
from bfl.simulation import run as simulation
from edge_servers.report import RoundReport
from tests.bfl.runs import png_size

SMALL = replace(QUICK, rounds=3, attack_rounds=(2, 3), defence_rounds=3, honest_rounds=1)
SAME = trials.SAME
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of its own for all figures, which share runs; short rounds, no pictures of single runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduce_commands, "QUICK", SMALL)
        patch.setattr(trials, "SAME", trials.SAME | {"iterations": 2, "batch": 10, "difficulty": 10})
        patch.setattr(simulation, "can_plot", lambda: False)
        yield tmp_path_factory.mktemp("figures")


def run(*arguments: str) -> str:
    """`bfl reproduce ...`, and what it printed; refusals are raised."""
    app = typer.Typer()
    app.command("reproduce", cls=Command)(reproduce_commands.reproduce)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False).output


def made(name: str, out: Path) -> tuple[str, list[dict[str, str]]]:
    """The page of a figure and the rows of its CSV file."""
    run(name, "--quick", "--dataset", "synthetic", "--jobs", "1", "--out", str(out))
    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return (out / f"{name}.md").read_text(encoding="utf-8"), list(csv.DictReader(file))


def test_accuracy_is_a_picture_rows_and_a_page_with_verdicts(out: Path) -> None:
    page, rows = made("accuracy", out)
    assert png_size(out / "accuracy.png") == (1430, 988)
    assert len(rows) == 2 * 4 * 2 * SMALL.rounds  # quantities, lines, partitions, rounds
    assert {row["partition"] for row in rows} == set(PARTITIONS)
    assert "1 seed, 3 rounds on synthetic" in page
    assert "Like with like" in page
    assert page.count("**holds**") + page.count("**does not hold**") == 9


def test_the_attack_is_named_repaired_and_measured_against_the_honest_run(out: Path) -> None:
    page, rows = made("attack", out)
    assert png_size(out / "attack.png") == (1430, 1040)
    ours = [row for row in rows if row["scheme"] == ATTACKED_SCHEMES[0].label and row["quantity"] == "drop (points)"]
    assert [(row["partition"], row["round"]) for row in ours] == [
        ("iid", "2"), ("iid", "3"), ("non-iid", "2"), ("non-iid", "3"),
    ]  # fmt: skip
    assert "| (ours) round, step and server are named every time | 4 of 4 attacks | **holds** |" in page
    assert "| (ours) nobody is accused wrongly | 0 in 14 honest rounds | **holds** |" in page


def test_detection_tells_what_catches_whom(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ("lying-aggregate", "inflated-samples")
    monkeypatch.setattr(rules_catch, "RULED_ATTACKS", {kind: rules_catch.RULED_ATTACKS[kind] for kind in kinds})
    page, rows = made("detection", out)
    assert len(rows) == 2 * 2  # partitions and attacks
    by = {(row["attack"], row["data"]): row for row in rows}
    lie = by["lying-aggregate", "IID"]
    assert (lie["caught by"], lie["after"], lie["excluded"], lie["rounds caught"]) == (
        "iterate (1x)",
        "1",
        "yes",
        "1 of 1",
    )
    assert by["inflated-samples", "IID"]["rounds caught"] == "2 of 2"
    assert "attacked from round 2 on" in page


def test_defences_compare_filters_with_attackers_that_stay_away(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = (defences.UNFILTERED, defences.DEFAULT)
    kinds = {kind: defences.ATTACKS[kind] for kind in ("sign flip", "own gradient x -5")}
    monkeypatch.setattr(defences, "FILTERS", filters)
    monkeypatch.setattr(defences, "ATTACKS", kinds)
    page, rows = made("defences", out)
    assert [(row["data"], row["filter"]) for row in rows] == [
        (data, name) for data in ("IID", "non-IID") for name in (defences.UNFILTERED, f"{defences.DEFAULT} (default)")
    ]
    assert [rows[0]["cost"], rows[0]["honest out (%)"]] == ["0.00", "0.0"], "no filter costs nothing"
    assert page.count("**holds**") + page.count("**does not hold**") == 2 + 2 * 2 + 1
    assert "attacked in all of them" in page
    assert "devices 3 and 7 away" in page
    assert png_size(out / "defences.png")[0] == 1495


def test_convergence_is_measured_on_real_aggregates(out: Path) -> None:
    page, rows = made("convergence", out)
    assert png_size(out / "convergence.png") == (1560, 1144)
    radii = {(r["graph"], r["servers"], r["weights"]): r["value"] for r in rows if r["quantity"] == "lambda"}
    assert len(radii) == 4 * 3 * 2
    assert radii["line", "3", "optimal"] == "0.5"
    assert "0 of " in next(text for text in page.splitlines() if "M^(3/2)" in text and "**" in text)
    assert "Left out: the average gradient norm" in page


def test_consensus_rounds_are_those_of_the_paper(out: Path) -> None:
    _, rows = made("consensus-accuracy", out)
    assert {row["line"] for row in rows} == {"φ = 5", "φ = 10", "φ = 15", "φ = 5, optimal weights (ours)"}


def test_finished_runs_are_kept_and_not_run_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("accuracy", out)
    assert not any((out / "runs").iterdir())

    def never(*_: object) -> None:
        raise AssertionError("it was run again")

    monkeypatch.setattr(trials, "run_trial", never)
    made("accuracy", out)


# What is kept


TRIAL = Trial("consensus-no-chain", "iid", 0, 3, dataset="synthetic")


def context(folder: Path, jobs: int = 1) -> ExperimentContext:
    return ExperimentContext(folder, SMALL, TaskDisplay(Console()), jobs)


@pytest.mark.parametrize("scheme", ["consensus-no-chain", "bfl"])
def test_an_interrupted_run_goes_on_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, without_plots: None
) -> None:
    trial = replace(TRIAL, scheme=scheme)
    whole = run_trials(context(tmp_path / "whole"), "x", [trial])[trial]
    seen: list[int] = []

    def stop(report: RoundReport) -> None:
        seen.append(report.round)
        if report.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trials.run_trial(trial, tmp_path, stop)
    trials.run_trial(trial, tmp_path, lambda report: seen.append(report.round))
    assert seen == [1, 2, 3]
    monkeypatch.setattr(trials, "run_trial", None)
    assert run_trials(context(tmp_path), "x", [trial])[trial] == whole


def test_a_damaged_run_is_made_anew(tmp_path: Path, without_plots: None) -> None:
    found = run_trials(context(tmp_path), "x", [TRIAL])[TRIAL]
    path = tmp_path / "points" / f"{TRIAL.key}.json"
    for text in ("[", "[]", json.dumps(found[:2]), json.dumps([{}] * 3)):
        path.write_text(text, encoding="utf-8")
        assert run_trials(context(tmp_path), "x", [TRIAL])[TRIAL] == found


def test_runs_in_processes_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "SAME", SAME)  # as the other processes have it
    two = [replace(TRIAL, rounds=1), replace(TRIAL, rounds=1, seed=1)]
    assert run_trials(context(tmp_path / "a", 2), "x", two) == run_trials(context(tmp_path / "b"), "x", two)


def test_another_setting_makes_another_run_but_another_folder_does_not() -> None:
    assert TRIAL.key != replace(TRIAL, attack="forged@2:device=3").key
    assert TRIAL.key == replace(TRIAL, data_dir="/elsewhere").key


# Missing data


def test_missing_svhn_is_told_in_one_line_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(
        BflError,
        match=r"^SVHN: train_32x32.mat and test_32x32.mat not found in .*/none; get them from http.* --data-dir$",
    ):
        run("accuracy-svhn", "--quick", "--data-dir", str(tmp_path / "none"), "--out", str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_under_all_what_has_no_data_is_left_out_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bfl.commands.reproduce.figure_names", lambda _: ["attack-svhn"])
    shown = run("all", "--quick", "--data-dir", str(tmp_path / "none"), "--out", str(tmp_path))
    assert "attack-svhn: left out. SVHN: train_32x32.mat" in shown
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "## Not made" in summary
    assert "- attack-svhn: SVHN: train_32x32.mat and test_32x32.mat not found" in summary


def test_a_folder_without_a_data_set_is_svhns() -> None:
    assert ImageSource().on("", "/mine") == ImageSource()
    assert ImageSource("svhn").on("", "/mine") == ImageSource("svhn", "/mine")
    assert ImageSource("svhn").on("synthetic", "") == ImageSource("synthetic")


def test_no_jobs_are_refused() -> None:
    with pytest.raises(BflError, match="--jobs: found 0, expected at least 1"):
        run("attack", "--jobs", "0")
