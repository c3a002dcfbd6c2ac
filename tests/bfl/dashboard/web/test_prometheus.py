"""Metrics that Prometheus can read, and a Grafana dashboard that asks for those alone."""

import re
from pathlib import Path

import pytest

from bfl.dashboard.facts import MachineFact
from bfl.dashboard.web.prometheus import METRICS, exposition, grafana_dashboard
from tests.bfl.dashboard.made import HOSTILE, lied, line, opened, write_run

SAMPLE = re.compile(r'(?P<name>[a-z_]+)\{(?P<labels>([a-z_]+="(\\.|[^"\\\n])*",?)*)\} (?P<value>-?[0-9.e+-]+)')


@pytest.fixture
def told(tmp_path: Path) -> str:
    """What is told of a run with an offence, and of a machine with a hostile name."""
    from dataclasses import replace

    shown = opened(write_run(tmp_path / 'a"b\\c', [line(1), line(2, offences=[lied()])])).snapshot
    machine = MachineFact(HOSTILE + "\n", "edge", "block 7", True, 7, 2, 3, "bfl/1", 0.1, 1700000000.5)
    return exposition([replace(shown, machines=(machine,))])


def test_every_line_is_as_the_format_has_it(told: str) -> None:
    for each in told.splitlines():
        assert each.startswith(("# HELP bfl_", "# TYPE bfl_")) or SAMPLE.fullmatch(each), each


def test_every_metric_has_help_and_type_before_its_samples(told: str) -> None:
    seen: dict[str, list[str]] = {}
    for each in told.splitlines():
        name = each.split()[2] if each.startswith("#") else each.partition("{")[0]
        seen.setdefault(name, []).append(each.split()[1] if each.startswith("#") else "sample")
    assert set(seen) == {metric.name for metric in METRICS}
    assert all(lines[:2] == ["HELP", "TYPE"] and set(lines[2:]) <= {"sample"} for lines in seen.values())


def test_values_are_those_of_the_run(told: str) -> None:
    found = {each["name"]: float(each["value"]) for each in map(SAMPLE.fullmatch, told.splitlines()) if each}
    assert (found["bfl_round"], found["bfl_offences_total"], found["bfl_machine_pool"]) == (2, 1, 3)
    assert found["bfl_accuracy_ratio"] == pytest.approx(0.12)
    assert found["bfl_machine_last_seen_timestamp_seconds"] == 1700000000.5
    assert 'bfl_latency_seconds{run="a\\"b\\\\c",scheme="consensus-no-chain",kind="paper",term="T"} 3.25' in told


def test_counters_are_named_as_such() -> None:
    assert all((metric.kind == "counter") == metric.name.endswith("_total") for metric in METRICS)


def test_grafana_asks_for_metrics_that_there_are(told: str) -> None:
    panels = grafana_dashboard()["panels"]
    asked = [target["expr"].partition("{")[0] for panel in panels for target in panel["targets"]]
    there = {each.partition("{")[0] for each in told.splitlines() if not each.startswith("#")}
    never = {"bfl_rounds_planned", "bfl_block_number", "bfl_final_block_number", "bfl_block_bytes"}
    assert set(asked) - never <= there
    assert {metric.name for metric in METRICS} == set(asked)
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
