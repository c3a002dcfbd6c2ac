"""`flwr run .`: the same apps on Flower's own simulation engine, where Ray is installed. It leaves nothing running."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bfl.simulation.run_folder import RunFolder

REPOSITORY = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
CONFIG = 'rounds=2 devices=4 edges=2 dataset="synthetic" planner="fixed:0" iterations=20 learning-rate=0.2'
ENDS_S = 60.0

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="ray is not installed (extra `ray`)"),
    pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def flower(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody who has never used Flower on this machine."""
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "FLWR_HOME": str(tmp_path / "flwr"),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(free_port()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }
    yield environment
    for pid in processes(tmp_path / "flwr"):  # where the test has failed
        os.kill(pid, 9)


def processes(home: Path) -> dict[int, str]:
    """All that runs with a FLWR_HOME, by its number: SuperLink, SuperExec, the run, Ray, and who waits for its end."""
    mark, found = f"FLWR_HOME={home}".encode(), {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it ended meanwhile, or is somebody else's
            continue
    return found


def left_of(home: Path) -> dict[int, str]:
    """What still runs a while after a run."""
    until = time.monotonic() + ENDS_S
    while (left := processes(home)) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def copy_of_the_app(folder: Path) -> Path:
    """A copy: Flower must not find files of ours that the bundle leaves out."""
    folder.mkdir()
    for name in ("bfl", "chain", "clients", "edge_servers", "policy"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, folder)
    return folder


def flwr_run(app: Path, environment: dict[str, str], config: str) -> "subprocess.Popen[str]":
    """Somebody who waits for a run, and reads its log."""
    command = [str(BIN / "flwr"), "run", str(app), "--stream", "-c", config]
    command += ["--federation-config", "num-supernodes=4"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_run_on_flowers_engine_is_whole_and_the_last_of_two_ends_what_was_started(
    flower: dict[str, str], tmp_path: Path
) -> None:
    app, out = copy_of_the_app(tmp_path / "app"), tmp_path / "run"
    with flwr_run(app, flower, f'{CONFIG} out="{out}"') as good:
        assert good.stdout is not None
        begun = "".join(iter(lambda: line_without("Successfully started run", good), ""))
        with flwr_run(app, flower, f'{CONFIG} scheme="none"') as bad:  # in the SuperLink that the good one started
            refused, _ = bad.communicate(timeout=300)
        log, _ = good.communicate(timeout=300)
    assert left_of(tmp_path / "flwr") == {}
    assert 'scheme: found "none"' in refused, refused
    assert "Founded" not in refused
    assert (good.returncode, bad.returncode) == (0, 0), "Flower's: a run was started; its log says how it ended"
    for line in ("Founded: 2 edge servers, 4 devices", "round 2/2: accuracy", "Finished 2 rounds"):
        assert line in log, begun + log
    folder = RunFolder.open(out)
    assert folder.read_json("summary.json")["status"] == "finished"
    assert len(folder.metrics()) == 2
    check = subprocess.run([str(BIN / "bfl"), "audit", "check", str(out)], capture_output=True, text=True, timeout=120)
    assert check.returncode == 0, check.stdout + check.stderr


def line_without(text: str, run: "subprocess.Popen[str]") -> str:
    """The next line of a run's log; nothing where it has the text."""
    assert run.stdout is not None
    line = run.stdout.readline()
    assert line, f"it ended before it said {text!r}"
    return "" if text in line else line
