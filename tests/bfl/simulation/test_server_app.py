"""The Flower ServerApp: what it refuses before it loads anything, and what it leaves behind."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from bfl.config import RunSettings
from bfl.errors import BflError
from bfl.simulation import server_app
from bfl.simulation.grid import InProcessGrid
from bfl.simulation.run import run, start
from bfl.simulation.run_folder import RunFolder
from chain.audit.archive import open_archive
from clients import client_app
from clients.arrays import read_array
from clients.errors import ParameterError
from edge_servers.parameters import Settings

CONFIG = {
    "scheme": "consensus-no-chain", "dataset": "synthetic", "rounds": 1, "devices": 3, "iterations": 2, "batch": 10,
    "hidden": "8", "planner": "fixed:0",
}  # fmt: skip


def context_with(**config: Any) -> Context:
    """A run whose configuration is the default one apart from `config`."""
    run_config = {**Settings().flat(), **{key.replace("_", "-"): value for key, value in config.items()}}
    return Context(1, 0, {}, RecordDict(), run_config)


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ParameterError, match="rounds: found 0"):
        server_app.main(InProcessGrid([]), context_with(rounds=0))


def run_on(folder: Path, devices: int = 3, **config: Any) -> tuple[Context, RunFolder]:
    """A whole run, whose devices are those that Flower's engine would make."""
    context = context_with(**{**CONFIG, "devices": devices, **config, "out": str(folder)})
    server_app.main(AppGrid(devices, context), context)
    return context, RunFolder.open(folder)


class AppGrid(InProcessGrid):
    """Every message goes to the ClientApp with the context of its node, as Flower's engine does it."""

    def __init__(self, devices: int, run: Context) -> None:
        super().__init__([])
        self._contexts = {
            100 + n: Context(1, 100 + n, {"partition-id": n}, RecordDict(), run.run_config) for n in range(devices)
        }

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        asked = [message for message in self._waiting if message.metadata.message_id in wanted]
        self._waiting = [message for message in self._waiting if message.metadata.message_id not in wanted]
        return [client_app.app(message, self._contexts[message.metadata.dst_node_id]) for message in asked]


def test_it_runs_its_rounds_without_a_chain_and_leaves_the_model(tmp_path: Path) -> None:
    context, folder = run_on(tmp_path / "run", scheme="consensus-no-chain")
    model: Any = context.state["model"]
    assert read_array(model, "model").ndim == 1
    assert [line["round"] for line in folder.metrics()] == [1]
    assert (folder.path / "model.pt").exists()


def test_on_the_chain_its_head_is_that_of_bfl_simulate(tmp_path: Path) -> None:
    """With the same seed, engine and number of threads."""
    config: dict[str, Any] = {
        "scheme": "bfl",
        "rounds": 3,
        "planner": "random:0.5",
        "engine": "sequential",
        "iterations": 4,
    }
    _, folder = run_on(tmp_path / "flower", **config)
    settings = RunSettings.read({**Settings().flat(), **CONFIG, "devices": 3, **config})
    simulation = start(settings, tmp_path / "simulate")
    run(simulation, lambda _: None)
    heads = []
    for name in ("flower", "simulate"):
        with closing(open_archive(tmp_path / name)) as archive:
            heads.append(archive.head())
    assert [head.block_number for head in heads] == [4, 4]
    assert heads[0].hash == heads[1].hash
    assert any(line["offloaded"] for line in folder.metrics()), "somebody offloads"


def test_an_attack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BflError, match="devices of Flower's engine are honest"):
        run_on(tmp_path / "run", attack="silent-leader@all")


def test_conditions_of_simulated_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BflError, match="found dropout, expected none: devices of Flower's engine are real"):
        run_on(tmp_path / "run", dropout=0.5)


def test_a_real_device_takes_its_chain_from_nobodys_message() -> None:
    node = Context(1, 5, {"device-id": 0}, RecordDict(), Settings().flat())
    message = Message(RecordDict({"chain": ConfigRecord({"joined": b"{}", "keys": b"k"})}), 5, "query.join")
    assert "knows its own from its kit" in str(client_app.app(message, node).error.reason)
    simulated = Context(1, 5, {"partition-id": 0}, RecordDict(), Settings().flat())
    assert "cannot join" in str(client_app.app(message, simulated).error.reason)
