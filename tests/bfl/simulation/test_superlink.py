"""Which SuperLinks a run ends, and when: those that `flwr` started, once nothing else runs in them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from bfl.simulation.superlink import SuperLink, end_when_idle, started_superlink
from clients.errors import FlowerAwayError
from clients.flower_tasks import Place, start_run, unfinished_runs

BIN = Path(sys.executable).parent
FAKE = f"""#!{sys.executable}
import subprocess, sys
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
"""
ADDRESS = ["--host", "127.0.0.1", "--port", "39091"]
APP = """
[project]
name = "other"
version = "1.0.0"
[tool.flwr.app]
publisher = "somebody"
[tool.flwr.app.components]
serverapp = "other:app"
clientapp = "other:app"
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes have no handles here")


@contextmanager
def child_of_a_superlink(folder: Path, options: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A program of that name with a child: the numbers of both."""
    program = folder / "flower-superlink"
    program.write_text(FAKE)
    program.chmod(0o755)
    with subprocess.Popen([program, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as superlink:
        assert superlink.stdout is not None
        yield superlink.pid, int(superlink.stdout.readline())
        superlink.communicate()


def test_a_superlink_that_flwr_started_is_found_from_within(tmp_path: Path) -> None:
    log = str(tmp_path / "local-superlink" / "superlink.log")
    with child_of_a_superlink(tmp_path, ["--insecure", *ADDRESS, "--log-file", log]) as (superlink, child):
        assert started_superlink(child) == SuperLink(superlink, "127.0.0.1:39091")


@pytest.mark.parametrize("options", [[], ["--log-file", "/var/log/superlink.log"], ["--log-file", "superlink.log"]])
def test_a_persons_superlink_is_not(tmp_path: Path, options: list[str]) -> None:
    with child_of_a_superlink(tmp_path, ["--insecure", *ADDRESS, *options]) as (_, child):
        assert started_superlink(child) is None


def test_who_runs_under_no_superlink_has_none() -> None:
    assert started_superlink(os.getpid()) is None


@pytest.fixture
def superlink(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Place]]:
    """A SuperLink whose runs wait for ever: nobody is there to execute them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {**os.environ, "FLWR_HOME": str(tmp_path / "flwr"), "FLWR_TELEMETRY_ENABLED": "0"}
    command = [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--isolation", "process"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", port],
            env={**environment, "FLWR_DISABLE_UPDATE_CHECK": "1"}, cwd=tmp_path, stdout=log, stderr=log,
        )  # fmt: skip
    place = Place(f"127.0.0.1:{port}", b"")
    try:
        wait_until_it_answers(place, process)
        yield process, place
    finally:
        process.kill()
        process.wait(30)


def wait_until_it_answers(place: Place, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 60
    while True:
        try:
            unfinished_runs(place)
        except FlowerAwayError:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        else:
            return


def handle_of_one_that_has_ended() -> int:
    process = subprocess.Popen(["sleep", "0.2"])
    handle = os.pidfd_open(process.pid)
    process.wait(30)
    return handle


def test_it_ends_after_its_last_run_and_not_before(
    superlink: tuple["subprocess.Popen[bytes]", Place], tmp_path: Path
) -> None:
    process, place = superlink
    app = tmp_path / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(APP)
    (app / "other.py").write_text("app = None\n")
    first, second = start_run(place, app), start_run(place, app)
    assert unfinished_runs(place) == {first, second}
    run, handle = handle_of_one_that_has_ended(), os.pidfd_open(process.pid)
    try:
        assert not end_when_idle(place.address, first, run, handle)
        assert process.poll() is None
        subprocess.run([BIN / "flwr", "stop", str(first)], env=environment_for(place, tmp_path), check=True, timeout=60)
        assert unfinished_runs(place) == {second}
        assert end_when_idle(place.address, second, run, handle)
        process.wait(30)
        assert "lifespan: shutdown" in (tmp_path / "log").read_text(), "it ended in order"
        assert end_when_idle(place.address, second, run, handle), "it has ended already"
    finally:
        os.close(run)
        os.close(handle)


def environment_for(place: Place, folder: Path) -> dict[str, str]:
    """That of a person whose default SuperLink this is."""
    home = folder / "home"
    home.mkdir()
    connection = f'[superlink.this]\naddress = "{place.address}"\ninsecure = true\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "this"\n\n{connection}')
    return {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
