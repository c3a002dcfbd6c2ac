"""How a machine is: its parts, its log, whether it ends when it is told to."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from bfl.errors import BflError
from bfl.network import status
from bfl.network.kits import read_device_kit
from bfl.network.making import make_kits
from bfl.network.status import NodeState, check_room, is_running, last_lines, last_round, nodes_of, parts_of, stop_kit
from bfl.network.supervision import Part, Supervisor
from tests.bfl.network.described import write
from tests.bfl.network.supervised import SLEEPS, happens, python, supervised


def test_a_machine_that_does_not_run_has_no_parts_and_no_log(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    assert parts_of(tmp_path) == []
    assert not stop_kit(tmp_path, 1.0)
    with pytest.raises(BflError, match="it has not run yet"):
        last_lines(tmp_path, 5)


def test_parts_of_a_running_machine_are_told(tmp_path: Path) -> None:
    done = Part("done", python("pass"), may_end=True)
    with supervised(tmp_path, Part("one", python(SLEEPS)), done) as told:
        assert happens(lambda: any("has done its work" in line for line in told))
        assert happens(lambda: {part.name: part.is_done for part in parts_of(tmp_path)} == {"one": False, "done": True})
        one, two = parts_of(tmp_path)
        assert (one.word, one.starts) == (f"runs, pid {one.pid}", 1)
        assert two.word == "has done its work"
        assert is_running(tmp_path)
    assert [line[20:32].strip() for line in last_lines(tmp_path, 50, "one")] == ["one"]
    assert len(last_lines(tmp_path, 1)) == 1


def test_the_last_round_of_an_edge_is_told_and_half_a_line_is_none(tmp_path: Path) -> None:
    assert last_round(tmp_path) == ""
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"round": 1, "accuracy": null}\n{"round": 2, "accuracy": 0.5}\n')
    assert last_round(tmp_path).startswith("2, accuracy 50.0 %, ")
    metrics.write_text('{"round": 1, "accuracy": null}\n')
    assert last_round(tmp_path).startswith("1, ")
    metrics.write_text('{"round": 1, "accu')
    assert last_round(tmp_path) == ""


def test_a_disk_without_room_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_room(tmp_path)
    monkeypatch.setattr(status, "_LEAST_FREE_BYTES", 1 << 60)
    with pytest.raises(BflError, match="MB free, expected 1152921504607 at least: make room"):
        check_room(tmp_path)


def test_a_part_restarts_with_the_one_it_works_for(tmp_path: Path) -> None:
    first = Part("first", python(SLEEPS), restarts_with="second")
    with supervised(tmp_path, first, Part("second", python(SLEEPS))):
        assert happens(lambda: all(part.pid for part in parts_of(tmp_path)) and len(parts_of(tmp_path)) == 2)
        before = {part.name: part.pid or 0 for part in parts_of(tmp_path)}
        os.kill(before["second"], 9)
        assert happens(lambda: all(part.starts == 2 for part in parts_of(tmp_path)))


def test_stop_ends_what_runs(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from bfl.commands.network import stop_by_signal\n"
        "from bfl.network.supervision import Part, Supervisor\n"
        "Supervisor([Part('one', [sys.executable, '-c', sys.argv[2]])], Path(sys.argv[1]), print).run(stop_by_signal())"
    )
    running = Supervisor([Part("machine", python(code, str(tmp_path / "kit"), SLEEPS))], tmp_path, lambda _: None)
    (tmp_path / "kit").mkdir()
    stop = threading.Event()
    thread = threading.Thread(target=running.run, args=(stop,))
    thread.start()
    try:
        assert happens(lambda: any(part.pid for part in parts_of(tmp_path / "kit")))
        assert stop_kit(tmp_path / "kit", 30.0)
        assert not is_running(tmp_path / "kit")
    finally:
        stop.set()
        thread.join(30)


def test_nodes_that_do_not_answer_and_clocks_that_are_off_are_told(tmp_path: Path) -> None:
    make_kits(write(tmp_path), tmp_path / "kits", "of a test", time.time(), work=2)
    kit = read_device_kit(tmp_path / "kits" / "pi-1")
    if sys.platform == "linux":  # 10.0.0.x is nobody's here
        assert all(node.block is None for node in nodes_of(kit) if "edge-b" not in node.name)
    assert NodeState("edge-a", 7, 0.4).word == "block 7"
    assert "+9 s off: install chrony" in NodeState("edge-a", 7, 9.2).word
    assert NodeState("edge-a", None, trouble="away").word == "away"
