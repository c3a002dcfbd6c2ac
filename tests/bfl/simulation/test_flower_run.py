"""`flwr run .`: the same apps on Flower's own simulation engine, where Ray is installed."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
CONFIG = 'rounds=2 devices=4 edges=2 dataset="synthetic" planner="fixed:0" iterations=20 learning-rate=0.2'

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="ray is not installed (extra `ray`)"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def flower(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A SuperLink in simulation mode of its own, and the environment in which `flwr` finds it."""
    port = free_port()
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "FLWR_HOME": str(tmp_path / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    }
    home = tmp_path / "flwr"
    home.mkdir()
    address = f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "test"\n\n[superlink.test]\n{address}')
    command = [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "superlink.log").open("w") as log:
        superlink = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path)
        try:
            wait_until_open(port, superlink)
            yield environment
        finally:
            superlink.terminate()
            superlink.wait(timeout=30)


def wait_until_open(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, "the SuperLink died; see superlink.log"
        time.sleep(0.2)
    pytest.fail("the SuperLink did not open its port within 60 s")


def test_flwr_run_trains_all_servers_on_flowers_engine(flower: dict[str, str], tmp_path: Path) -> None:
    app = tmp_path / "app"  # a copy: Flower must not find files of ours that the bundle leaves out
    app.mkdir()
    for name in ("bfl", "chain", "clients", "edge_servers", "policy"):
        shutil.copytree(REPOSITORY / name, app / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, app)
    out = tmp_path / "run"
    command = [str(BIN / "flwr"), "run", str(app), "--stream", "-c", f'{CONFIG} out="{out}"']
    command += ["--federation-config", "num-supernodes=4"]
    run = subprocess.run(command, env=flower, capture_output=True, text=True, timeout=300)
    output = run.stdout + run.stderr
    assert "Founded: 2 edge servers, 4 devices" in output, output
    assert "round 2/2: accuracy" in output, output
    listed = subprocess.run(
        [str(BIN / "flwr"), "list", "--format", "json"], env=flower, capture_output=True, text=True, timeout=60
    )
    statuses = [run["status"] for run in json.loads(listed.stdout)["runs"]]
    assert len(statuses) == 1
    assert statuses[0] in ("finished:completed", "running")  # `flwr run` exits 0 on a failed run too
    check = subprocess.run([str(BIN / "bfl"), "audit", "check", str(out)], capture_output=True, text=True, timeout=120)
    assert check.returncode == 0, check.stdout + check.stderr
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2
