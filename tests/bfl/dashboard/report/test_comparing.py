"""Several runs beside each other."""

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bfl.cli import app
from bfl.dashboard.report.comparing import comparison_charts, groups_of, write_csv
from bfl.dashboard.report.making import read_runs
from tests.bfl.dashboard.made import lied, line, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of one partition, one of another; the second seed is ten points better."""
    folder = tmp_path_factory.mktemp("runs")
    better = [line(k, accuracy=0.2 + 0.01 * k) for k in range(1, 7)]
    worse = [line(k, accuracy=0.1 + 0.01 * k, offences=[lied()] if k == 3 else []) for k in range(1, 7)]
    return [
        write_run(folder / "a0", worse, seed=0, partition="iid"),
        write_run(folder / "a1", better, seed=1, partition="iid"),
        write_run(folder / "b0", worse[:4], seed=0, partition="non-iid"),
    ]


def test_runs_that_differ_by_their_seed_alone_are_one_group(runs: list[Path]) -> None:
    same, other = groups_of([each.snapshot for each in read_runs(runs)])
    assert (same.name, same.runs, same.seeds) == ("partition iid", ("a0", "a1"), (0, 1))
    assert (other.name, other.runs, other.rounds) == ("partition non-iid", ("b0",), 4)
    first = same.curves["accuracy"][0]
    assert (first.round, first.runs) == (1, 2)
    assert (first.mean, first.low, first.high) == pytest.approx((16.0, 11.0, 21.0))
    assert same.accuracy == pytest.approx(19.0), "means of rounds 2 to 6: 14 and 24"
    assert same.accuracy_spread == pytest.approx(50**0.5), "of a sample"
    assert other.accuracy_spread is None
    assert (same.offences, other.offences) == (1, 1)


def test_a_run_alone_has_its_own_name_and_no_band(runs: list[Path]) -> None:
    (alone,) = groups_of([read_runs(runs[:1])[0].snapshot])
    assert alone.name == "a0"
    assert all(not each.spread for chart in comparison_charts([alone]) for each in chart.lines)


def test_the_csv_has_a_row_for_each_measure_group_and_round(runs: list[Path], tmp_path: Path) -> None:
    write_csv(groups_of([each.snapshot for each in read_runs(runs)]), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * (6 + 4)
    assert [float(each["mean"]) for each in rows if each["measure"] == "accuracy"][:2] == pytest.approx([16.0, 17.0])


def test_the_command_writes_pictures_and_refuses_what_cannot_be_compared(runs: list[Path], tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["compare", *map(str, runs), "--out", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "comparison.csv", "comparison.html", "accuracy.png", "loss.png", "latency.png",
    }  # fmt: skip
    alone = CliRunner().invoke(app, ["compare", str(runs[0])])
    assert "expected two or more" in str(alone.exception)
    empty = write_run(tmp_path / "empty", [])
    none = CliRunner().invoke(app, ["compare", str(runs[0]), str(empty)])
    assert "empty has no finished round" in str(none.exception)
