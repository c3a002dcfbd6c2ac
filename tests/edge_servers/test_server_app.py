"""The Flower ServerApp: what it refuses before it loads anything, and what it leaves behind."""

import logging
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from bfl.simulation.grid import InProcessGrid
from clients.arrays import read_array
from clients.data import load_dataset
from clients.device import Device
from clients.errors import ParameterError
from clients.models import network_for
from edge_servers import server_app
from edge_servers.errors import FederationError
from edge_servers.parameters import ON_CHAIN, Settings

CONFIG = {
    "scheme": "consensus-no-chain", "dataset": "synthetic", "rounds": 1, "devices": 3, "iterations": 2, "batch": 10,
    "hidden": "8", "planner": "fixed:0",
}  # fmt: skip


def context_with(**config: Any) -> Context:
    """A run whose configuration is the default one apart from `config`."""
    run_config = {**Settings().flat(), **{key.replace("_", "-"): value for key, value in config.items()}}
    return Context(1, 0, {}, RecordDict(), run_config)


@pytest.mark.parametrize("scheme", ON_CHAIN)
def test_a_scheme_on_the_chain_is_refused_and_the_way_out_is_told(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: object) -> None:
        pytest.fail("the data was loaded first")

    monkeypatch.setattr(server_app, "load_dataset", loaded)
    with pytest.raises(FederationError, match=f"scheme: found {scheme}, .*use `bfl simulate`"):
        server_app.main(InProcessGrid([]), context_with(scheme=scheme))


def test_a_setting_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ParameterError, match="rounds: found 0"):
        server_app.main(InProcessGrid([]), context_with(rounds=0))


def test_it_runs_its_rounds_and_leaves_the_model(caplog: pytest.LogCaptureFixture) -> None:
    config = context_with(**CONFIG)
    settings = Settings.read(config.run_config)
    dataset = load_dataset("synthetic", "", 0)
    network = network_for(dataset, settings.training, 0)
    shares = np.array_split(np.arange(300), 3)
    grid = InProcessGrid([Device(n, dataset.train, share, network) for n, share in enumerate(shares)])
    with caplog.at_level(logging.INFO, logger="flwr"):
        server_app.main(grid, config)
    model: Any = config.state["model"]
    assert read_array(model, "model").shape == (sum(p.numel() for p in network.parameters()),)
