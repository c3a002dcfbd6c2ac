"""Stock Flower on loopback: one SuperLink, a SuperNode for each device, `flwr run` with plain FedAvg.

Everything as Flower ships it: isolation by subprocesses, in-memory state. No TLS and no authentication, which is the
cheapest that it can be.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.flower_network import fedavg_app
from clients.data import Samples, dataset_of
from clients.partition import shares_of
from edge_servers.parameters import Settings

_STARTS_S, _ENDS_S = 120.0, 20.0
_BUNDLE = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "stock-fedavg"
version = "1.0.0"
description = "FedAvg as Flower's documents show it"
license = "MIT"
dependencies = []
[tool.flwr.app]
publisher = "bfl"
[tool.flwr.app.components]
serverapp = "fedavg_app:server"
clientapp = "fedavg_app:client"
[tool.flwr.app.config]
folder = ""
"""


def write_task(folder: Path, settings: Settings, rounds: int) -> None:
    """What the devices hold, as files, and what is trained: the same as a network of ours with these settings."""
    data, training = settings.data, settings.training
    dataset = dataset_of(data)
    for device, share in enumerate(shares_of(dataset, data)):
        _write_samples(folder / f"share-{device}.npz", dataset.train.select(torch.from_numpy(share)))
    _write_samples(folder / "test.npz", dataset.test)
    task: dict[str, Any] = {
        "devices": data.devices, "seed": data.seed, "rounds": rounds,
        "mean": dataset.train.mean, "std": dataset.train.std, "sample-shape": dataset.sample_shape,
        "classes": dataset.classes, "hidden": training.hidden_sizes,
        "model": dataset.model if training.model == "auto" else training.model,
        "iterations": training.iterations, "batch": training.batch, "optimizer": training.optimizer,
        "learning-rate": training.learning_rate, "engine": training.engine,
    }  # fmt: skip
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")


def _write_samples(path: Path, samples: Samples) -> None:
    np.savez(path, images=samples.inputs.numpy(), labels=samples.labels.numpy())


def write_app(folder: Path) -> None:
    """What `flwr run` bundles."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(_BUNDLE, encoding="utf-8")
    shutil.copy(fedavg_app.__file__, folder / "fedavg_app.py")


@contextmanager
def stock_network(folder: Path, settings: Settings, rounds: int) -> Iterator[None]:
    """The processes of it, running the rounds, as long as the block lasts."""
    folder.mkdir(parents=True)
    write_task(folder, settings, rounds)
    write_app(folder / "app")
    link, *nodes = _free_ports(1 + settings.data.devices)
    address = f"127.0.0.1:{link}"
    home = folder / "flwr"
    home.mkdir()
    where = f'[superlink]\ndefault = "stock"\n\n[superlink.stock]\naddress = "{address}"\ninsecure = true\n'
    (home / "config.toml").write_text(where, encoding="utf-8")
    env = _environment(home)
    with ExitStack() as stack:
        without = "--disable-runtime-dependency-installation"
        superlink = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(link), without]
        stack.enter_context(_process(superlink, folder / "superlink.log", env))
        _wait_until_open(link)
        for device, port in enumerate(nodes):
            supernode = ["flower-supernode", "--insecure", "--superlink", address, "--host", "127.0.0.1"]
            supernode += ["--port", str(port), "--node-config", f"device-id={device}"]
            stack.enter_context(_process(supernode, folder / f"supernode-{device}.log", env))
        run = ["flwr", "run", str(folder / "app"), "stock", "--run-config", f'folder="{folder.absolute()}"']
        with (folder / "flwr-run.log").open("wb") as log:
            subprocess.run(_beside_python(run), env=env, stdout=log, stderr=log, timeout=_STARTS_S, check=True)
        yield


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """Of each round that has ended."""
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _environment(home: Path) -> Mapping[str, str]:
    beside = str(Path(sys.executable).parent)
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "NO_PROXY": "*", "no_proxy": "*"}
    path = f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"
    return {"OMP_NUM_THREADS": "1", **os.environ, **quiet, "FLWR_HOME": str(home.absolute()), "PATH": path}


def _beside_python(command: Sequence[str]) -> list[str]:
    return [str(Path(sys.executable).with_name(command[0])), *command[1:]]


@contextmanager
def _process(command: Sequence[str], log: Path, env: Mapping[str, str]) -> Iterator[None]:
    with log.open("wb") as said:
        process = subprocess.Popen(
            _beside_python(command), env=dict(env), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in found]


def _wait_until_open(port: int) -> None:
    end = time.monotonic() + _STARTS_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"found nothing that listens on port {port} after {_STARTS_S:g} s, expected the SuperLink")
