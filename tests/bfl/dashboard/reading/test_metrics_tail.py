"""metrics.jsonl while it is written: new lines, half lines, cut, replaced and deleted files."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bfl.dashboard.reading import metrics_tail
from bfl.dashboard.reading.metrics_tail import MetricsTail
from tests.bfl.dashboard.made import line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of three rounds."""
    found = tmp_path / "metrics.jsonl"
    append(found, 1, 2, 3)
    return found


def append(path: Path, *rounds: int, **changes: Any) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line(each, **changes)) + "\n" for each in rounds)


def poll(tail: MetricsTail) -> list[int]:
    while tail.poll(time.monotonic() + 10.0):
        pass
    return sorted(tail.rounds)


def test_only_what_is_new_is_read(path: Path) -> None:
    tail = MetricsTail(path)
    assert poll(tail) == [1, 2, 3]
    first = tail.rounds[1]
    append(path, 4)
    assert poll(tail) == [1, 2, 3, 4]
    assert tail.rounds[1] is first


def test_a_line_that_is_being_written_waits_for_its_end(path: Path) -> None:
    tail, whole = MetricsTail(path), json.dumps(line(4)) + "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(whole[:50])
    assert poll(tail) == [1, 2, 3]
    with path.open("a", encoding="utf-8") as file:
        file.write(whole[50:])
    assert poll(tail) == [1, 2, 3, 4]


def test_a_resumed_run_cuts_lines_and_writes_them_again(path: Path) -> None:
    tail = MetricsTail(path)
    poll(tail)
    os.truncate(path, len(path.read_bytes().splitlines(keepends=True)[0]))
    assert poll(tail) == [1]
    append(path, 2, 3, accuracy=0.5)
    assert poll(tail) == [1, 2, 3]
    assert tail.rounds[3].accuracy == 0.5


def test_a_file_that_was_rewritten_longer_between_two_looks_is_read_anew(path: Path) -> None:
    tail = MetricsTail(path)
    poll(tail)
    os.truncate(path, 0)
    append(path, 1, 2, 3, 4, 5, loss=0.25)
    assert poll(tail) == [1, 2, 3, 4, 5]
    assert [each.loss for each in tail.rounds.values()] == [0.25] * 5


def test_a_deleted_file_is_told_and_another_one_in_its_place_is_read(path: Path) -> None:
    tail = MetricsTail(path)
    poll(tail)
    path.unlink()
    assert poll(tail) == [1, 2, 3]
    assert "is not there" in tail.trouble
    append(path, 1)
    assert poll(tail) == [1]
    assert tail.trouble == ""


def test_a_line_that_never_ends_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_tail, "MOST_LINE_BYTES", 2000)
    with path.open("a", encoding="utf-8") as file:
        file.write("x" * 5000)
    tail = MetricsTail(path)
    assert poll(tail) == [1, 2, 3]
    assert "found a line of more than 2,000 bytes" in tail.trouble


def test_a_kit_that_was_away_begins_where_the_network_is(tmp_path: Path) -> None:
    append(tmp_path / "metrics.jsonl", 1, 2, 7, 8)
    assert poll(MetricsTail(tmp_path / "metrics.jsonl")) == [1, 2, 7, 8]


def test_a_large_file_is_read_in_parts(path: Path) -> None:
    tail = MetricsTail(path)
    assert tail.poll(time.monotonic() - 1.0), "there is more to read"
    assert poll(tail) == [1, 2, 3]
