"""Slow and absent devices in whole runs: out of the round, accused by nobody, and the chain still fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from bfl.auditing.findings import audit_rounds
from bfl.config import read_settings
from bfl.errors import ConfigError
from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from edge_servers.founding.parameters import founding_settings
from tests.bfl.runs import go_on, ignore, interrupt, metrics_without_seconds, run_through, small

pytestmark = pytest.mark.usefixtures("without_plots")
CHAIN: dict[str, Any] = {
    "scheme": "bfl", "rounds": 4, "phi": 1, "difficulty": 2, "hidden": 2, "iterations": 1, "batch": 5,
}  # fmt: skip
AWAY: dict[str, Any] = {**CHAIN, "planner": "all-local", "availability": "1:2-3;3:1/2"}


def out_by_round(metrics: list[dict[str, Any]]) -> list[list[str]]:
    return [[refusal["node"] for refusal in line["refused"]] for line in metrics]


@pytest.mark.parametrize("scheme", ["bfl", "consensus-no-chain", "fedavg"])
def test_who_is_away_is_out_of_the_round_and_comes_back(tmp_path: Path, scheme: str) -> None:
    metrics = run_through(small(**{**AWAY, "scheme": scheme}), tmp_path / "run")
    assert out_by_round(metrics) == [["device 1"], ["device 3"], [], ["device 1", "device 3"]]
    assert {refusal["reason"] for line in metrics for refusal in line["refused"]} == {"late"}
    assert [line["training-nodes"] for line in metrics] == [3, 3, 4, 2]
    assert [line["latency"]["real"]["n_away"] for line in metrics] == [1, 1, 0, 2]


def test_the_chain_fits_and_nobody_is_accused(tmp_path: Path) -> None:
    settings = small(
        **{**CHAIN, "device-speeds": "1,0.001", "deadline-s": 1.0, "dropout": 0.2, "planner": "random:0.3"}
    )
    metrics = run_through(settings, tmp_path / "run")
    assert any(out_by_round(metrics))
    archive = FileArchive(tmp_path / "run")
    audit = audit_rounds(archive)
    archive.close()
    assert len(audit.rounds) == 4
    assert (audit.findings, audit.absent_in) == ([], {})
    refused = [[who for who, reason in each.refused if reason == "late"] for each in audit.rounds]
    assert [sorted(each) for each in refused] == [sorted(each) for each in out_by_round(metrics)]
    assert audit.founding is not None
    assert audit.founding.settings.conditions == settings.conditions


def test_a_deadline_leaves_out_the_slow_ones(tmp_path: Path) -> None:
    slow = {**CHAIN, "planner": "all-local", "device-speeds": "1,0.001", "iterations": 2, "batch": 500}
    patient, strict = (
        run_through(small(**{**slow, "deadline-s": deadline_s}), tmp_path / str(deadline_s))
        for deadline_s in (30_000.0, 20.0)
    )
    assert out_by_round(patient) == [[]] * 4
    assert out_by_round(strict) == [["device 1", "device 3"]] * 4
    walls = [[line["latency"]["real"]["T_wall"] for line in metrics] for metrics in (patient, strict)]
    assert min(walls[0]) > 100
    assert max(walls[1]) < 25


def test_an_interrupted_run_goes_on_with_the_same_absences(tmp_path: Path) -> None:
    settings = small(**{**AWAY, "dropout": 0.3})
    whole = run_through(settings, tmp_path / "whole")
    interrupt(settings, tmp_path / "cut", after=2)
    go_on(tmp_path / "cut")
    assert metrics_without_seconds(tmp_path / "cut") == whole


def test_a_trace_may_be_a_file_and_the_run_folder_has_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "there.csv"
    file.write_text("device,from,to,every\n1,2,3,\n3,1,1,2\n", encoding="utf-8")
    settings = read_settings(flags={**small(**AWAY).flat(), "availability": str(file)})
    assert settings.conditions.availability == AWAY["availability"]
    ready = simulation.start(settings, tmp_path / "run")
    file.unlink()
    simulation.run(ready, ignore)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "finished"
    with pytest.raises(ConfigError, match=r"availability: .*there\.csv cannot be read"):
        read_settings(flags={"availability": str(file)})


def test_devices_that_are_alike_are_founded_without_a_word_of_it() -> None:
    plain = founding_settings(small())
    assert not plain.keys() & {"device-speeds", "dropout", "availability"}
    assert founding_settings(small(dropout=0.5)) == {**plain, "dropout": 0.5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dropout": 1.5}, "dropout: found 1.5, expected at most 1"),
        ({"device-speeds": "0"}, "device-speeds: found '0', expected factors"),
        ({"availability": "9:1-5"}, "availability: found device 9, expected devices of 0 to 3"),
        ({"availability": "1:5-1"}, "availability: found rounds '5-1'"),
    ],
)
def test_conditions_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(**changes)
