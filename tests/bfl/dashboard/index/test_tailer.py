"""One reader for all: what changed is found by identity, and a client that was away hears what it missed."""

import json
import threading
from pathlib import Path

from bfl.dashboard.index.tailer import first_difference
from tests.bfl.dashboard.made import line, opened, read_all, write_run


def test_the_first_difference_is_by_identity() -> None:
    one, two, three = object(), object(), object()
    assert first_difference([one, two], [one, two]) is None
    assert first_difference([one, two], [one, three]) == 1
    assert first_difference([one], [one, two]) == 1
    assert first_difference([one, two], [one]) == 1
    assert first_difference([], []) is None


def test_the_cursor_grows_with_changes_and_not_without(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", map(line, range(1, 4)))
    dashboard = opened(folder)
    before = dashboard.snapshot
    read_all(dashboard)
    assert dashboard.snapshot is before
    write_run(folder, map(line, range(1, 5)))
    read_all(dashboard)
    assert dashboard.snapshot.cursor > before.cursor
    change = dashboard.tailer.change_since(before.cursor)
    assert (change.first_block, change.cursor) == (None, dashboard.snapshot.cursor)


def test_a_client_hears_from_which_round_on_there_is_something_new(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", map(line, range(1, 4)))
    dashboard = opened(folder)
    cursor = dashboard.snapshot.cursor
    for last in (5, 7):
        with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line(each)) + "\n" for each in (last - 1, last))
        read_all(dashboard)
    assert dashboard.tailer.change_since(cursor).first_round == 4
    assert dashboard.tailer.change_since(cursor + 1).first_round == 6
    assert dashboard.tailer.change_since(cursor + 2).first_round is None


def test_a_cursor_of_another_server_hears_everything(tmp_path: Path) -> None:
    dashboard = opened(write_run(tmp_path / "run", map(line, range(1, 4))))
    for strange in (0, dashboard.snapshot.cursor + 1000, 17):
        change = dashboard.tailer.change_since(strange)
        assert (change.first_round, change.first_block, change.is_about) == (1, 0, True)


def test_whoever_waits_is_woken_by_the_thread_that_reads(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [line(1)])
    dashboard = opened(folder)
    cursor, found = dashboard.snapshot.cursor, []
    waiting = threading.Thread(target=lambda: found.append(dashboard.tailer.wait(cursor, 30.0)))
    waiting.start()
    write_run(folder, map(line, range(1, 3)))
    dashboard.start()
    waiting.join(30.0)
    dashboard.stop()
    assert len(found) == 1
    assert len(found[0].rounds) == 2
