"""How a machine is: its parts, its log, whether it ends when it is told to."""

import contextlib
import fcntl
import http.server
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from bfl.errors import BflError
from bfl.network import status
from bfl.network.devices.hash_share import SHARE_FILE, note_share
from bfl.network.kits import read_device_kit
from bfl.network.making import make_kits
from bfl.network.status import (
    NodeState,
    check_room,
    is_running,
    last_lines,
    last_round,
    mining_told,
    nodes_of,
    parts_of,
    state_of,
    stop_kit,
)
from bfl.network.supervision import Part, Supervisor
from tests.bfl.network.described import write
from tests.bfl.network.supervised import SLEEPS, happens, python, supervised


def test_a_machine_that_does_not_run_has_no_parts_and_no_log(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    assert parts_of(tmp_path) == []
    assert not stop_kit(tmp_path, 1.0)
    with pytest.raises(BflError, match="it has not run yet"):
        last_lines(tmp_path, 5)


def test_whoever_asks_leaves_nothing_behind(tmp_path: Path) -> None:
    make_kits(write(tmp_path), tmp_path / "kits", "of a test", time.time(), work=2)
    kit = tmp_path / "kits" / "pi-1"
    before = {path: path.stat().st_mtime_ns for path in (kit, *kit.iterdir())}
    asked = subprocess.run([sys.executable, "-m", "bfl", "network", "status", str(kit)], capture_output=True, text=True)
    assert "does not run; start it with" in " ".join(asked.stdout.split())
    assert not stop_kit(kit, 1.0)
    assert {path: path.stat().st_mtime_ns for path in (kit, *kit.iterdir())} == before


def test_two_may_ask_at_once_whether_it_runs(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert not is_running(tmp_path)


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


def test_the_limit_of_a_miner_is_told_with_its_reason(tmp_path: Path) -> None:
    make_kits(write(tmp_path), tmp_path / "kits", "of a test", time.time(), work=2)
    free, limited = (read_device_kit(tmp_path / "kits" / name) for name in ("pi-1", "pi-2"))
    assert mining_told(free) == "as much as it can get; no plan in force"
    note_share(limited.folder, 3, 0, 0.5)
    assert mining_told(limited) == "0.50 of its owner's 500 hashes/s, by the plan of round 3"
    (limited.folder / SHARE_FILE).write_bytes(b"")
    assert "does not say what a plan gave" in mining_told(limited)


def test_nodes_that_do_not_answer_and_clocks_that_are_off_are_told(tmp_path: Path) -> None:
    make_kits(write(tmp_path), tmp_path / "kits", "of a test", time.time(), work=2)
    kit = read_device_kit(tmp_path / "kits" / "pi-1")
    if sys.platform == "linux":  # 10.0.0.x is nobody's here
        assert all(node.block is None for node in nodes_of(kit) if "edge-b" not in node.name)
    assert NodeState("edge-a", 7, 0.4).word == "block 7"
    assert "+9 s off: install chrony" in NodeState("edge-a", 7, 9.2).word
    assert NodeState("edge-a", None, trouble="away").word == "away"


class Lying(http.server.BaseHTTPRequestHandler):
    """A node of somebody who wants others to see something else."""

    health, status, when = b"", b"", ""

    def do_GET(self) -> None:
        self._say(self.health)

    def do_POST(self) -> None:
        self._say(self.status)

    def _say(self, what: bytes) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\nDate: " + self.when.encode() + b"\r\n\r\n")
        with contextlib.suppress(OSError):
            self.wfile.write(what)

    def log_message(self, *_: object) -> None:
        pass


WHEN = "Tue, 18 Nov 2025 20:00:00 GMT"
BATCH = b'[{"id": 0, "result": {"state": "%s", "told": "%s"}}, {"id": 1, "result": "bfl"}]'
FINE = BATCH % (b"RUNNING", b"")


@pytest.mark.parametrize(
    ("health", "status", "when", "told"),
    [
        (b'{"block": 3}', FINE, WHEN, "block 3"),
        (b'{"block": Infinity}', FINE, WHEN, "OverflowError"),
        (b"[" * 60_000, FINE, WHEN, "answers otherwise than a node"),
        (b" " * (1 << 24), FINE, WHEN, "answers otherwise than a node"),
        (b'{"block": 3}', FINE, "Tue, 18 Nov 99999999999 20:00:00 GMT", "answers otherwise than a node"),
        (b'{"block": 3}', BATCH % (b"\\u001b[2JWELL", b"[/x]"), WHEN, "?[2JWELL: [/x]"),
    ],
)
def test_whatever_a_node_says_it_is_told_in_words(health: bytes, status: bytes, when: str, told: str) -> None:
    said = type("Said", (Lying,), {"health": health, "status": status, "when": when})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), said) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with httpx.Client(timeout=20.0, trust_env=False) as client:
            found = state_of(client, "edge-b", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert told in found.word
