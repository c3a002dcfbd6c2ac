"""Edge servers as a Flower strategy, driven by its own start and by Flower's loop."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message
from flwr.serverapp.strategy import Strategy

from bfl.simulation.grid import Fault, InProcessGrid, SimulatedClock
from clients.device import Device
from clients.models import network_for
from clients.parameters import DataParams, TrainingParams
from edge_servers import round as algorithm_1
from edge_servers.errors import FederationError
from edge_servers.federation import Federation, found_federation, introduce_devices
from edge_servers.parameters import RoundParams, Settings
from edge_servers.strategy import EdgeStrategy
from tests.edge_servers.small_network import DEVICES, SHARE, small_dataset

SETTINGS = Settings(
    RoundParams(rounds=3, edges=1, scheme="consensus-no-chain", planner="fixed:0", filter="none"),
    DataParams(devices=DEVICES, data_per_round="all"),
    TrainingParams(hidden="8", iterations=3, batch=10),
)


def network_of_one(faults: dict[int, Fault] | None = None) -> tuple[Federation, InProcessGrid]:
    dataset = small_dataset()
    network = network_for(dataset, SETTINGS.training, SETTINGS.data.seed)
    devices = [Device(n, dataset.train, np.arange(n * SHARE, (n + 1) * SHARE), network) for n in range(DEVICES)]
    grid = InProcessGrid(devices, faults=faults)
    return found_federation(grid, SETTINGS, dataset, network, SimulatedClock()), grid


def started(faults: dict[int, Fault] | None = None, evaluate: bool = False) -> tuple[EdgeStrategy, object]:
    federation, grid = network_of_one(faults)
    strategy = EdgeStrategy(federation, evaluate_on_devices=evaluate)
    return strategy, Strategy.start(strategy, grid, model_of(federation), num_rounds=3, timeout=600.0)


def model_of(federation: Federation) -> ArrayRecord:
    return ArrayRecord({"model": Array(federation.servers[0].standing.model)})


def our_model() -> Any:
    federation, _ = network_of_one()
    for _ in federation.rounds():
        pass
    return federation.servers[0].standing.model


def test_flowers_own_loop_gives_the_model_that_our_rounds_give() -> None:
    strategy, result = started()
    own = strategy.federation.servers[0].standing
    assert own.round == 3
    assert np.allclose(own.model, our_model(), atol=1e-5)
    assert np.array_equal(result.arrays["model"].numpy(), own.model)  # type: ignore[attr-defined]


def test_its_own_start_gives_that_model_too_and_goes_on_where_the_network_stands() -> None:
    federation, grid = network_of_one()
    told: list[int] = []
    strategy = EdgeStrategy(federation, tell=lambda report: told.append(report.round))
    strategy.start(grid, model_of(federation), num_rounds=1)
    result = strategy.start(grid, model_of(federation))
    assert told == [1, 2, 3]
    assert np.array_equal(result.arrays["model"].numpy(), our_model())
    assert set(result.train_metrics_clientapp) == {2, 3}
    assert result.evaluate_metrics_serverapp[3]["accuracy"] > 0  # type: ignore[operator]


def test_its_own_start_makes_another_attempt_where_one_fails() -> None:
    """Flower's loop has one attempt, and says so."""
    federation, grid = network_of_one()
    fails = iter([False, True, True, True])
    settled = algorithm_1.settle
    strategy = EdgeStrategy(federation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edge_servers.federation.algorithm_1.settle", lambda servers: settled(servers) and next(fails))
        patch.setattr("edge_servers.federation.algorithm_1.pass_on", lambda servers: None)
        strategy.start(grid, model_of(federation), num_rounds=1)
        assert federation.round == 1
        fails = iter([False])
        with pytest.raises(FederationError, match="Flower's loop has no other attempt"):
            Strategy.start(strategy, grid, model_of(federation), num_rounds=1, timeout=600.0)


def test_a_device_that_never_answers_is_counted_as_refused() -> None:
    def silent(reply: Message) -> Message | None:
        return None if reply.metadata.message_type == "train" else reply

    _, result = started({3: silent})
    metrics = result.train_metrics_clientapp[2]  # type: ignore[attr-defined]
    assert metrics["refused"] == 1
    assert metrics["training-nodes"] == DEVICES - 1


def test_devices_evaluate_where_that_is_wanted() -> None:
    _, result = started(evaluate=True)
    metrics = result.evaluate_metrics_clientapp[3]  # type: ignore[attr-defined]
    assert 0 <= metrics["accuracy"] <= 1
    assert metrics["loss"] > 0


def test_a_model_of_another_shape_is_refused() -> None:
    federation, grid = network_of_one()
    strategy = EdgeStrategy(federation)
    with pytest.raises(FederationError, match=r"shape \(3,\)"):
        strategy.start(grid, ArrayRecord({"model": Array(np.zeros(3, np.float32))}), num_rounds=1)
    other = ArrayRecord({"model": Array(federation.servers[0].standing.model + np.float32(1))})
    with pytest.raises(FederationError, match="another model than the one of round 0"):
        strategy.start(grid, other, num_rounds=1)


def test_a_device_that_does_not_introduce_itself_is_named() -> None:
    with pytest.raises(FederationError, match=r"device 2 did not introduce itself \(1 of 6 missing\)"):
        network_of_one({2: lambda reply: None})


def test_two_nodes_with_one_device_number_are_refused() -> None:
    def impostor(reply: Message) -> Message:
        about: Any = reply.content["about"]
        about["device"] = 0
        return reply

    with pytest.raises(FederationError, match="two Flower nodes say they are device 0"):
        network_of_one({1: impostor})


def test_too_few_devices_end_the_wait_with_their_number() -> None:
    with pytest.raises(FederationError, match="found 0 devices after 600 s, expected 6"):
        introduce_devices(InProcessGrid([]), SETTINGS, SimulatedClock())
