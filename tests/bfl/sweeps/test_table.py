"""The table of a sweep, from summaries written by hand."""

import csv
import json
from pathlib import Path

import pytest

from bfl.sweeps.folder import SweepFolder
from bfl.sweeps.plan import make_plan
from bfl.sweeps.sweep_file import SweepFile
from bfl.sweeps.table import Spread, cells_of, make_table, markdown, write_tables


def write_finished(folder: Path, accuracy: float, offences: int = 0) -> None:
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("{}\n{}\n")
    latency = {"paper": {"T": 8.0, "T_wall": 2.0}}
    summary = {"status": "finished", "rounds": 2, "accuracy": accuracy, "latency": latency, "offences": offences}
    (folder / "summary.json").write_text(json.dumps(summary))


def test_mean_and_spread_are_those_of_a_sample() -> None:
    assert Spread.over([]) is None
    one, three = Spread.over([2.0]), Spread.over([1.0, 2.0, 3.0])
    assert one == Spread(2.0, None, 2.0, 2.0, 1)
    assert three == Spread(2.0, 1.0, 1.0, 3.0, 3)
    assert (one.told(1), three.told(2)) == ("2.0", "2.00 ± 1.00")


def test_a_row_for_each_cell_and_a_column_for_what_some_run_has(tmp_path: Path) -> None:
    plan = make_plan(SweepFile((0, 1), {"rounds": 2}, {"scheme": ("bfl", "fedavg")}), "x")
    write_finished(tmp_path / "scheme=bfl" / "seed=0", 0.5)
    write_finished(tmp_path / "scheme=bfl" / "seed=1", 0.7, offences=1)
    write_finished(tmp_path / "scheme=fedavg" / "seed=0", 0.25)
    table = make_table(plan, SweepFolder(tmp_path), {"scheme=fedavg/seed=1": "no | room\nmore of it"})
    assert markdown(table).splitlines()[:4] == [
        "| scheme | runs | accuracy % | T s | T_wall s | offences |",
        "|---|---:|---:|---:|---:|---:|",
        "| bfl | 2/2 | 60.00 ± 14.14 | 8.00 ± 0.00 | 2.00 ± 0.00 | 0.5 ± 0.7 |",
        "| fedavg | 1/2, 1 failed | 25.00 | 8.00 | 2.00 | 0.0 |",
    ]
    assert "- FAILED scheme=fedavg/seed=1: no \\| room" in markdown(table)
    write_tables(table, tmp_path)
    rows = list(csv.DictReader((tmp_path / "table.csv").open()))
    assert (rows[0]["accuracy % low"], rows[0]["accuracy % high"], rows[1]["accuracy % sd"]) == ("50.0", "70.0", "")


HOSTILE = "\x1b]0;own\x07\n# <img src=x onerror=alert(1)> | [bold]x[/]"


def test_what_a_file_says_moves_no_cursor_and_is_no_table_and_no_html(tmp_path: Path) -> None:
    plan = make_plan(SweepFile((0,), {"rounds": 2}, {"drop-columns": ("x", HOSTILE)}), "x")
    write_finished(tmp_path / plan.cells[1].name / "seed=0", 0.5)
    table = make_table(plan, SweepFolder(tmp_path), {"drop-columns=x/seed=0": HOSTILE})
    lines = markdown(table).splitlines()
    assert [line.replace("\\|", "").count("|") for line in lines[:4]] == [6, 6, 6, 6]
    assert "<" not in markdown(table)
    for line in [*lines, *table.failures(), *cells_of(table, table.rows[1])]:
        assert line.isprintable()


@pytest.mark.parametrize("accuracy", ["1e999", "-1e999", "NaN", "9" * 4000, "true", '"x"'])
def test_what_is_no_number_of_a_run_is_left_out(tmp_path: Path, accuracy: str) -> None:
    plan = make_plan(SweepFile((0,), {"rounds": 2}), "x")
    write_finished(tmp_path / "seed=0", 0.5)
    summary = tmp_path / "seed=0" / "summary.json"
    summary.write_text(summary.read_text().replace("0.5", accuracy))
    table = make_table(plan, SweepFolder(tmp_path), {})
    assert "accuracy" not in table.rows[0].spreads
    assert write_tables(table, tmp_path)
