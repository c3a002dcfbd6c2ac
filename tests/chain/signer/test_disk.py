"""The file: one process at a time, its owner's alone, copies found out, a disk that fails or is full."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chain.errors import FreshMemoryError, SignedMemoryError
from chain.signer.disk import Disk, Mark
from chain.signer.memory import SignedMemory
from chain.wire.address import Address
from tests.chain.signer.scene import CHAIN, KEY, founded, never, opened, post, signing
from tests.chain.store.faults import Faulty, disk_error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "signed.db"


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


# --- one process


def test_a_second_process_with_the_key_is_refused(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from chain.errors import SignedMemoryError\n"
        "from tests.chain.signer.scene import opened\n"
        "try: opened(Path(sys.argv[1])).close()\n"
        "except SignedMemoryError as error: print(error)"
    )
    with founded(path) as memory:
        shown = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
        assert "signed.db is in use by another process, expected none" in shown.stdout, shown.stderr
        assert "stop the other one" in shown.stdout
        with pytest.raises(SignedMemoryError, match="is in use by another process"):
            opened(path)
        assert memory.sign(post(1), signing("raw")) == b"raw"
    shown = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert (shown.stdout, shown.stderr) == ("", "")


def test_who_removes_the_file_of_the_lock_is_stopped_by_the_database(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.chain.signer.scene import opened\n"
        "try: opened(Path(sys.argv[1]))\n"
        "except Exception as error: print(error)"
    )
    with founded(path):
        beside(path, ".lock").unlink()
        shown = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    assert "is in use by another process" in shown.stdout, shown.stderr


def test_a_child_of_the_process_does_not_sign(path: Path) -> None:
    with founded(path) as memory:
        memory._disk._pid += 1
        with pytest.raises(SignedMemoryError, match="a child of it does not sign"):
            memory.sign(post(1), never)


def test_a_memory_that_is_closed_signs_nothing(path: Path) -> None:
    memory = founded(path)
    memory.close()
    memory.close()
    with pytest.raises(SignedMemoryError, match=r"is not used any more \(it was closed\)"):
        memory.sign(post(1), never)


# --- whose file it is


def test_only_its_owner_reads_it(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1), signing("raw"))
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert modes == dict.fromkeys(["signed.db", "signed.db.id", "signed.db.lock", "signed.db-journal"], 0o600)


@pytest.mark.parametrize("ending", ["", ".id"])
def test_a_file_that_others_read_is_refused(path: Path, ending: str) -> None:
    founded(path).close()
    beside(path, ending).chmod(0o640)
    with pytest.raises(SignedMemoryError, match=r"is open to others \(mode 640\); run: chmod 600"):
        opened(path)


def _link(place: Path) -> None:
    target = place.with_name("elsewhere")
    target.touch(0o600)
    place.symlink_to(target)


def _second_name(place: Path) -> None:
    _link(place)
    place.unlink()
    os.link(place.with_name("elsewhere"), place)


@pytest.mark.parametrize("ending", ["", ".id", ".lock", "-journal"])
@pytest.mark.parametrize("make", [_link, _second_name, os.mkfifo, Path.mkdir])
def test_links_pipes_and_folders_are_refused(path: Path, ending: str, make: Callable[[Path], None]) -> None:
    make(beside(path, ending))
    with pytest.raises(SignedMemoryError, match="found a link, pipe, folder or a file of several names"):
        opened(path)


def test_there_has_to_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(SignedMemoryError, match="found no folder"):
        opened(tmp_path / "none" / "signed.db")


def test_a_memory_is_of_one_key_on_one_chain(path: Path) -> None:
    founded(path).close()
    for key, chain in ((Address(b"o" * 20), CHAIN), (KEY, CHAIN + 1)):
        with pytest.raises(SignedMemoryError, match=rf"found the memory .*'{KEY}', '{CHAIN}'\), expected .*'{key}'"):
            SignedMemory.open(path, key, chain)
    with opened(path) as memory:
        assert not memory.fresh_because


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\x00" + b"\xff" * 8192])
def test_a_damaged_file_is_refused_and_left(path: Path, content: bytes) -> None:
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(SignedMemoryError, match="is no memory of a key, or is damaged"):
        opened(path)
    assert path.read_bytes() == content


def test_another_database_is_refused(path: Path) -> None:
    path.touch(0o600)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE kept (name TEXT, value TEXT)")
    other.close()
    with pytest.raises(SignedMemoryError, match="found no form in a key's memory"):
        opened(path)


def test_a_file_without_content_is_a_new_memory(path: Path) -> None:
    path.touch(0o600)
    with opened(path) as memory:
        assert memory.fresh_because == "is new"


# --- copies


def _check_asleep(path: Path, why: str = "is a copy") -> None:
    for _ in range(2):  # a restart does not help
        with opened(path) as memory:
            assert memory.fresh_because.startswith(why)
            assert memory.sign(post(1), never) == b"old"
            with pytest.raises(FreshMemoryError, match=why):
                memory.sign(post(2), never)
            with pytest.raises(FreshMemoryError, match=why):
                memory.resign(post(1), never)


def _with_an_old_copy(path: Path) -> Path:
    with founded(path) as memory:
        memory.sign(post(1), signing("old"))
    aside = path.with_name("aside")
    aside.mkdir()
    for each in (path, beside(path, ".id")):
        shutil.copy(each, aside)
    with opened(path) as memory:
        memory.sign(post(2), signing("new"))
    return aside


def test_an_older_copy_of_the_database_is_found_out(path: Path) -> None:
    aside = _with_an_old_copy(path)
    path.write_bytes((aside / path.name).read_bytes())  # the same inode
    _check_asleep(path)


def test_an_older_copy_of_database_and_mark_is_found_out_by_its_file(path: Path) -> None:
    aside = _with_an_old_copy(path)
    for each in aside.iterdir():
        each.replace(path.with_name(each.name))
    _check_asleep(path)


def test_an_older_or_damaged_or_lost_mark_is_found_out(path: Path) -> None:
    aside = _with_an_old_copy(path)
    mark = beside(path, ".id")
    for content in ((aside / mark.name).read_bytes(), b"{", b"", None):
        with opened(path) as memory:
            memory.round_began(3, 1e9)
        if content is None:
            mark.unlink()
        else:
            mark.write_bytes(content)
        with opened(path) as memory:
            assert memory.fresh_because.startswith("is a copy")


def test_a_key_that_waits_after_a_restore_wakes_with_a_new_round(path: Path) -> None:
    aside = _with_an_old_copy(path)
    path.write_bytes((aside / path.name).read_bytes())
    with opened(path) as memory:
        memory.round_began(3, memory._clock() + 1)
        assert memory.sign(post(3), signing("third")) == b"third"
    with opened(path) as memory:
        assert memory.sign(post(3), never) == b"third"


def test_a_mark_belongs_to_a_database_that_is_one_behind_only_while_it_opens() -> None:
    kept = Mark("a", 7)
    assert Mark("a", 7).is_of(kept)
    assert Mark("a", 8, is_opening=True).is_of(kept)
    assert Mark("a", 7, is_opening=True).is_of(kept)
    others = [Mark("a", 8), Mark("a", 6), Mark("a", 6, is_opening=True), Mark("a", 9, is_opening=True), Mark("b", 7)]
    assert not any(each.is_of(kept) for each in others)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_crash_while_it_opens_costs_nothing(path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark says that it opens, the database counts, the mark counts: it ends before one of these."""
    founded(path).close()
    write, calls = Disk._write_mark, list[Mark]()

    def write_or_fail(disk: Disk, mark: Mark) -> None:
        calls.append(mark)
        if (step, len(calls)) in ((1, 1), (3, 2)):
            raise KeyboardInterrupt
        write(disk, mark)
        if step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Disk, "_write_mark", write_or_fail)
    with pytest.raises(KeyboardInterrupt):
        opened(path)
    monkeypatch.undo()
    with opened(path) as memory:
        assert memory.fresh_because == ""
    assert json.loads(beside(path, ".id").read_text())["opens"] == (3 if step == 3 else 2)


def test_a_mark_that_cannot_be_written_is_an_error(path: Path) -> None:
    beside(path, ".id.part").mkdir()
    with pytest.raises(SignedMemoryError, match=r"signed\.db\.id cannot be written"):
        opened(path)


# --- a disk that fails


@pytest.mark.parametrize("at", range(1, 10))
def test_a_disk_that_fails_returns_nothing_and_ends_the_signing(path: Path, at: int) -> None:
    """Whatever statement of the database fails: what was signed is there, and what was not returned may be anything."""
    with founded(path) as memory:
        memory.sign(post(1), signing("old"))
        real = memory._disk._connection
        memory._disk._connection = faulty = Faulty(real, disk_error, at)  # type: ignore[assignment]
        try:
            memory.sign(post(2), signing("new"))
        except SignedMemoryError as error:
            assert "signed.db cannot be written: disk I/O error. Nothing was signed" in str(error)  # noqa: PT017
            with pytest.raises(
                SignedMemoryError, match=r"is not used any more \(disk I/O error\): start this process again"
            ):
                memory.sign(post(1), never)
        else:
            assert faulty.statements < at
        memory._disk._connection = real
    with opened(path) as memory:
        assert memory.sign(post(1), never) == b"old"


def test_a_full_disk_refuses_and_goes_on_once_there_is_room(path: Path) -> None:
    with founded(path) as memory:
        memory.sign(post(1), signing("old"))
        connection = memory._disk._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(SignedMemoryError, match=r"database or disk is full\. Nothing was signed: make room"):
            memory.sign(post(2, says="this"), lambda: b"r" * 10000)
        assert memory.sign(post(1), never) == b"old"
        connection.execute("PRAGMA max_page_count = 100000")
        assert memory.sign(post(2, says="that"), lambda: b"q" * 10000) == b"q" * 10000
    with opened(path) as memory:
        assert memory.sign(post(2, says="that"), never) == b"q" * 10000


SIGN_UNTIL_FULL = """
import resource, sys
from pathlib import Path
from chain.errors import SignedMemoryError
from tests.chain.signer.scene import opened, post
memory, most = opened(Path(sys.argv[1])), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
for round_ in range(1, 1000):
    try:
        memory.sign(post(round_), lambda: b"%d" % round_ * 1000)
    except SignedMemoryError as error:
        print(round_ - 1, error)
        break
"""


def test_what_was_returned_before_the_disk_was_full_is_kept(path: Path) -> None:
    """A real limit, of the operating system: no file of the child grows beyond 100,000 bytes."""
    founded(path).close()
    command = [sys.executable, "-c", SIGN_UNTIL_FULL, str(path), "100000"]
    shown = subprocess.run(command, capture_output=True, text=True)
    assert "cannot be written" in shown.stdout, shown.stderr
    returned = int(shown.stdout.split()[0])
    assert 10 < returned < 100
    with opened(path) as memory:
        assert not memory.fresh_because
        for round_ in range(1, returned + 1):
            assert memory.sign(post(round_), never) == b"%d" % round_ * 1000
        assert memory.sign(post(returned + 1, says="that"), signing("room")) == b"room"
