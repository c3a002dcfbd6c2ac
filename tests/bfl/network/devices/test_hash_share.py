"""The share of its hash power that a plan gives a device, in a file between two processes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfl.errors import BflError
from bfl.network.devices.hash_share import HOLDS_S, SHARE_FILE, HashShare, note_share, read_share

NOW = 1_000_000.0


def noted(folder: Path, now: float = NOW) -> HashShare | None:
    return read_share(folder / SHARE_FILE, lambda: now)


def note(folder: Path, round_: int, attempt: int, share: float, now: float = NOW) -> None:
    note_share(folder, round_, attempt, share, lambda: now)


def test_what_was_noted_is_read_and_only_a_newer_plan_changes_it(tmp_path: Path) -> None:
    assert noted(tmp_path) is None
    note(tmp_path, 4, 1, 0.25)
    assert noted(tmp_path) == HashShare(4, 1, 0.25, NOW + HOLDS_S)
    for round_, attempt in ((4, 1), (4, 0), (3, 7)):
        note(tmp_path, round_, attempt, 0.75, NOW + 1)
        assert noted(tmp_path) == HashShare(4, 1, 0.25, NOW + HOLDS_S)
    note(tmp_path, 4, 2, 0.5, NOW + 1)
    note(tmp_path, 5, 0, 1.0, NOW + 2)
    assert noted(tmp_path, NOW + 2) == HashShare(5, 0, 1.0, NOW + 2 + HOLDS_S)


def test_a_share_is_forgotten_after_a_while_and_where_the_clock_was_set_back(tmp_path: Path) -> None:
    note(tmp_path, 4, 0, 0.25)
    assert noted(tmp_path, NOW + HOLDS_S - 1) is not None
    assert noted(tmp_path, NOW + HOLDS_S) is None
    assert noted(tmp_path, NOW - 1) is None


@pytest.mark.parametrize(
    "changes",
    [{"share": 0.0}, {"share": 1.5}, {"share": "1"}, {"share": None}, {"round": -1}, {"until_s": -1.0}],
)
def test_a_file_that_says_something_else_is_told_and_mended_by_the_next_plan(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    content = {"round": 4, "attempt": 0, "share": 0.5, "until_s": NOW + 1} | changes
    (tmp_path / SHARE_FILE).write_text(json.dumps(content))
    with pytest.raises(BflError, match="does not say what a plan gave"):
        noted(tmp_path)
    note(tmp_path, 1, 0, 0.25)
    assert noted(tmp_path) == HashShare(1, 0, 0.25, NOW + HOLDS_S)


@given(content=st.binary(max_size=1100))
def test_any_bytes_are_a_share_or_told(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("kit") / SHARE_FILE
    path.write_bytes(content)
    with pytest.raises(BflError):
        read_share(path)


@pytest.mark.kills
def test_a_reader_finds_a_whole_share_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, itertools; from pathlib import Path; from bfl.network.devices.hash_share import note_share\n"
        "for n in itertools.count(int(sys.argv[2])): note_share(Path(sys.argv[1]), n, 0, 0.5); print(n, flush=True)"
    )
    last = 0
    for more in (1, 3, 10, 30):
        command = [sys.executable, "-c", code, str(tmp_path), str(last + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(more):
                last = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        found = read_share(tmp_path / SHARE_FILE)
        assert found is not None
        assert found.round >= last
        last = found.round
