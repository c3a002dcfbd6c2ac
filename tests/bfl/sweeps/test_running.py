"""Sweeps that run: the same numbers as alone, failures beside successes, what is finished is left alone."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.errors import BflError
from bfl.sweeps.folder import SWEEP, SweepChangedError
from bfl.sweeps.table import markdown, write_tables
from tests.bfl.runs import bfl, metrics_without_seconds, run_through, small
from tests.bfl.sweeps.sweeps_made import COMMON, SCHEMES, small_file, sweep_in

pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of two schemes, made two at a time; tests add to it, in copies of their own."""
    folder = tmp_path_factory.mktemp("made") / "sweep"
    result, said = sweep_in(folder, small_file(), jobs=2)
    assert not result.is_interrupted
    assert "[2/2]" in said
    return folder


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_run_of_a_sweep_is_that_of_simulate(made: Path, tmp_path: Path, scheme: str) -> None:
    alone = run_through(small(scheme=scheme, rounds=3), tmp_path / "alone")
    assert metrics_without_seconds(made / f"scheme={scheme}" / "seed=0") == alone


def test_what_is_finished_is_not_run_again(made: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file() and path.name != SWEEP}
    result, said = sweep_in(made, small_file())
    after = {path: path.stat().st_mtime_ns for path in made.rglob("*") if path.is_file() and path.name != SWEEP}
    assert (said, after) == ("", before)
    assert result.left == 0


def test_settings_that_have_changed_are_told_and_refused(made: Path) -> None:
    file = small_file()
    changed = replace(file, common={**file.common, "learning-rate": 0.05})
    with pytest.raises(SweepChangedError) as refused:
        sweep_in(made, changed)
    told = str(refused.value)
    assert "scheme=fedavg/seed=0: learning-rate was 0.1, is 0.05" in told
    assert "Put the file back, choose another --out, or delete those runs" in told
    with pytest.raises(SweepChangedError, match="rounds was 3, is 2, 3 are done"):
        sweep_in(made, replace(file, common={**file.common, "rounds": 2}))


def test_more_seeds_and_more_rounds_are_added_and_other_cells_left_alone(tmp_path: Path) -> None:
    one = small_file(scheme=("fedavg",))
    sweep_in(tmp_path / "sweep", replace(one, common={**one.common, "rounds": 2}))
    two = replace(one, seeds=(0, 1), grid={}, common={**one.common, "scheme": "fedavg"})
    result, said = sweep_in(tmp_path / "sweep", two)
    assert "1 runs have another number of rounds than before: they go on where they stand" in said
    assert result.left == 0
    alone = run_through(small(scheme="fedavg", rounds=3), tmp_path / "alone")
    assert metrics_without_seconds(tmp_path / "sweep" / "seed=0") == alone
    _, said = sweep_in(tmp_path / "sweep", replace(two, seeds=(1,)))
    assert "1 runs are not in the file any more, such as seed=0: they are left alone" in said


def test_a_cell_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    file = small_file(partition=("non-iid", "iid"))  # 4 devices of 2 labels do not cover ten
    result, said = sweep_in(tmp_path / "sweep", file)
    assert [row.finished for row in result.table.rows] == [0, 1]
    ((why, names),) = result.table.failed.items()
    assert names == ["partition=non-iid/seed=0"]
    assert "have no device; use more devices" in why
    assert "[1/2] partition=iid/seed=0: accuracy" in said
    text = markdown(result.table)
    assert "| non-iid | 0/1, 1 failed | - |" in text
    assert "- FAILED partition=non-iid/seed=0: non-iid partition:" in text
    write_tables(result.table, tmp_path)
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    assert [(row["partition"], row["status"]) for row in rows] == [("non-iid", "failed"), ("iid", "finished")]
    assert float(rows[1]["accuracy %"]) > 0


def test_a_folder_that_holds_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(BflError, match="holds something that is no sweep"):
        sweep_in(tmp_path, small_file())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_command_makes_the_table_and_the_comparison_and_goes_on_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(small_file().text())
    told = bfl("sweep", "own.toml", folder=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    folder = tmp_path / "runs" / "sweep-own"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        SWEEP,
        ".lock",
        "table.md",
        "table.csv",
        "runs.csv",
        "comparison",
        *(f"scheme={s}" for s in SCHEMES),
    }
    assert {"comparison.csv", "comparison.html", "accuracy.png"} <= {
        path.name for path in (folder / "comparison").iterdir()
    }
    page = (folder / "comparison" / "comparison.html").read_text()
    assert "2 runs in 2 groups" in page
    assert "scheme fedavg" in page
    assert bfl("sweep", str(folder), folder=tmp_path).returncode == 0
    compared = bfl("compare", str(folder), "--out", "out", folder=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "out" / "latency.png").is_file()


def test_simulate_with_seeds_is_one_folder_with_a_mean(tmp_path: Path) -> None:
    flags = [
        word for key, value in (COMMON | {"rounds": 1, "scheme": "fedavg"}).items() for word in (f"--{key}", str(value))
    ]
    told = bfl("simulate", "--seeds", "0,2", "--out", "both", *flags, folder=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    assert sorted(path.name for path in (tmp_path / "both").glob("seed=*")) == ["seed=0", "seed=2"]
    (row,) = csv.DictReader((tmp_path / "both" / "table.csv").open())
    assert (row["finished"], float(row["accuracy % low"]) <= float(row["accuracy % mean"])) == ("2", True)
    refused = bfl("simulate", "--seeds", "0-1", "--seed", "3", folder=tmp_path)
    assert (refused.returncode, "found --seed 3 beside --seeds 0-1" in refused.stderr) == (2, True)


def test_a_dry_run_lists_the_cells_with_what_they_take_and_makes_nothing(made: Path, tmp_path: Path) -> None:
    file = small_file(scheme=(*SCHEMES, "traditional"))
    (tmp_path / "more.toml").write_text(file.text())
    told = bfl("sweep", "more.toml", "--out", str(made), "--dry-run", folder=tmp_path, COLUMNS="160")
    assert told.returncode == 0, told.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in told.stdout.splitlines() if "scheme " in line]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("scheme consensus-no-chain", "0", "0", "its rounds so far"),
        ("scheme fedavg", "0", "0", "its rounds so far"),
        ("scheme traditional", "1", "3", "2 rounds, tried now"),
    ]
    assert not (made / "scheme=traditional").exists()
