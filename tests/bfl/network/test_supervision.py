"""The parts of a machine: started, started again, told in one log, ended together."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bfl.errors import BflError
from bfl.network import supervision
from bfl.network.status import parts_of
from bfl.network.supervision import LogFile, Part, Supervisor
from tests.bfl.network.supervised import SLEEPS, happens, pids, python, supervised, supervising


def test_parts_run_are_told_with_their_names_and_end_together(tmp_path: Path) -> None:
    with supervised(tmp_path, Part("one", python(SLEEPS)), Part("two", python(SLEEPS))) as told:
        assert happens(lambda: sum("here" in line for line in told) == 2)
        assert happens(lambda: all(pids(tmp_path).values()))
        running = pids(tmp_path)
    assert {line.split()[2] for line in told} == {"one", "two"}
    assert (tmp_path / "log").read_text().splitlines() == told
    for pid in running.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not (tmp_path / "state.json").exists()


def test_what_is_killed_is_started_again(tmp_path: Path) -> None:
    with supervised(tmp_path, Part("one", python(SLEEPS))) as told:
        assert happens(lambda: any("here" in line for line in told))
        os.kill(pids(tmp_path)["one"], signal.SIGKILL)
        assert happens(lambda: sum("here" in line for line in told) == 2)
    assert any("has ended (SIGKILL); it is started again in 1 s" in line for line in told)


def test_pauses_double_up_to_the_longest_of_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(supervision, "_LOOK_S", 0.01)
    part = Part("one", python("print('no'); raise SystemExit(3)"), most_pause_s=0.2)
    with supervised(tmp_path, part) as told:
        assert happens(lambda: sum("has ended" in line for line in told) >= 4)
    pauses = [line.rpartition("in ")[2] for line in told if "has ended (exit code 3)" in line][:4]
    assert pauses == ["0.05 s", "0.1 s", "0.2 s", "0.2 s"]


def test_a_program_that_is_not_there_is_told_and_tried_again(tmp_path: Path) -> None:
    with supervised(tmp_path, Part("one", [str(tmp_path / "nothing")]), Part("two", python(SLEEPS))) as told:
        assert happens(lambda: any("cannot be started" in line for line in told))
        assert happens(lambda: any("here" in line for line in told)), "the others run"


def test_what_a_part_says_again_and_again_without_a_name_is_told_once_and_with_one(tmp_path: Path) -> None:
    code = (
        "for line in ('retrying in 1.2 s', 'retrying in 3 s', 'here', 'retrying in 4 s'): print(line, flush=True)\n"
        "import time; time.sleep(60)"
    )
    part = Part("one", python(code), words={"retrying in": "edge-a does not answer; is it on?"})
    with supervised(tmp_path, part) as told:
        assert happens(lambda: len(told) == 3)
    assert [line[33:] for line in told[:3]] == [
        "edge-a does not answer; is it on?",
        "here",
        "edge-a does not answer; is it on?",
    ]


def test_one_at_a_time_runs_a_kit(tmp_path: Path) -> None:
    with supervised(tmp_path, Part("one", python(SLEEPS))) as told:
        assert happens(lambda: bool(told))
        with pytest.raises(BflError, match="runs already; stop it first"):
            Supervisor([], tmp_path, print).run(threading.Event())


def test_a_kit_that_belongs_to_somebody_else_is_refused_with_the_file(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()  # root may open every file, but no folder as one
    with pytest.raises(BflError, match=r"\.lock: .*; the kit must belong to whom it runs as"):
        Supervisor([], tmp_path, print).run(threading.Event())


def test_who_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_END_S", 0.5)
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
    with supervised(tmp_path, Part("one", python(deaf))) as told:
        assert happens(lambda: any("here" in line for line in told))
        pid = pids(tmp_path)["one"]
    assert any("does not end in 0.5 s; it is killed" in line for line in told)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_part_is_exchanged_for_another_at_once_and_the_other_one_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    supervisor = Supervisor(
        [Part("one", python(SLEEPS), told="at home"), Part("two", python(SLEEPS))], tmp_path, told.append
    )
    with supervising(supervisor):
        assert happens(lambda: sum("here" in line for line in told) == 2)
        before = pids(tmp_path)
        assert parts_of(tmp_path)[0].word == f"runs, pid {before['one']}, at home"
        supervisor.exchange(Part("one", python(SLEEPS.replace("here", "there")), told="away"))
        assert happens(lambda: any("there" in line for line in told))
        assert happens(lambda: parts_of(tmp_path)[0].told == "away" and pids(tmp_path)["one"] != before["one"])
        assert pids(tmp_path)["two"] == before["two"]
        assert not any("has ended" in line for line in told), "it was meant to"
    with pytest.raises(ProcessLookupError):
        os.kill(before["one"], 0)


def test_who_does_not_end_to_be_exchanged_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_END_S", 0.5)
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
    told: list[str] = []
    supervisor = Supervisor([Part("one", python(deaf))], tmp_path, told.append)
    with supervising(supervisor):
        assert happens(lambda: any("here" in line for line in told))
        supervisor.exchange(Part("one", python(SLEEPS.replace("here", "there"))))
        assert happens(lambda: any("there" in line for line in told))


@pytest.mark.skipif(sys.platform != "linux", reason="children are seen on Linux alone")
def test_a_part_whose_child_is_gone_is_started_again_and_one_that_has_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_CHILD_S", 1.0)
    monkeypatch.setattr(supervision, "_CHILD_AGAIN_S", 0.1)
    starts = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', 'helper-of-a-test'])\n"
        "print('child', child.pid, flush=True); time.sleep(60)"
    )
    with supervised(tmp_path, Part("one", python(starts), needs_child="helper-of-a-test")) as told:
        for count in (1, 2):
            assert happens(lambda count=count: sum(" child " in line for line in told) == count, 20)  # type: ignore[misc]
            assert pids(tmp_path)["one"]
            assert supervision.has_child(pids(tmp_path)["one"], "helper-of-a-test")
            assert not supervision.has_child(pids(tmp_path)["one"], "another")
            if count == 1:
                os.kill(int(told[-1].split()[-1]), signal.SIGKILL)
                assert happens(lambda: any("its helper-of-a-test is gone; both are started again" in x for x in told))


@pytest.mark.skipif(sys.platform != "linux", reason="children end with their parent on Linux alone")
def test_a_supervisor_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "import sys, threading; from pathlib import Path; from bfl.network.supervision import Part, Supervisor\n"
        "one = Part('one', [sys.executable, '-c', sys.argv[2]])\n"
        "Supervisor([one], Path(sys.argv[1]), print).run(threading.Event())"
    )
    running = subprocess.Popen(python(code, str(tmp_path), SLEEPS), stdout=subprocess.DEVNULL)
    try:
        assert happens(lambda: (tmp_path / "log").exists())
        assert happens(lambda: pids(tmp_path)["one"] is not None)
        child = pids(tmp_path)["one"]
    finally:
        running.kill()
        running.wait()
    assert happens(lambda: _is_gone(child))


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return status == "Z"  # nobody is left to collect it


def test_a_log_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "_MOST_LOG_BYTES", 1000)
    log = LogFile(tmp_path / "log", lambda _: None)
    for number in range(200):
        log.write("one", f"line {number}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2", "log.3"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5000
    assert "line 199" in (tmp_path / "log").read_text()


def test_a_terminal_that_is_gone_stops_nobody(tmp_path: Path) -> None:
    def gone(_: str) -> None:
        raise OSError(28, "No space left on device")

    log = LogFile(tmp_path / "log", gone)
    log.write("one", "a line")
    assert "a line" in (tmp_path / "log").read_text()


def test_what_a_part_writes_is_for_nobody_else(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with supervised(tmp_path, Part("writer", python("open('made', 'w').close()"), may_end=True)) as told:
            assert happens(lambda: any("has done its work" in line for line in told))
    finally:
        os.umask(before)
    assert (tmp_path / "made").stat().st_mode & 0o077 == 0
