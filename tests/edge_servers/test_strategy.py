"""One edge server as a Flower strategy, driven by Flower's own loop."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message

from bfl.simulation.grid import Fault, InProcessGrid, SimulatedClock
from clients.device import Device
from clients.models import network_for
from clients.parameters import DataParams, TrainingParams
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
    strategy = EdgeStrategy(federation.servers[0], evaluate_on_devices=evaluate)
    initial = ArrayRecord({"model": Array(strategy.server.standing.model)})
    return strategy, strategy.start(grid, initial, num_rounds=3)


def test_flowers_own_loop_gives_the_model_that_our_rounds_give() -> None:
    strategy, result = started()
    federation, _ = network_of_one()
    for _ in federation.rounds():
        pass
    ours = federation.servers[0].standing.model
    assert strategy.server.standing.round == 3
    assert np.allclose(strategy.server.standing.model, ours, atol=1e-5)
    assert np.array_equal(result.arrays["model"].numpy(), strategy.server.standing.model)  # type: ignore[attr-defined]


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
    strategy = EdgeStrategy(federation.servers[0])
    with pytest.raises(FederationError, match=r"shape \(3,\)"):
        strategy.start(grid, ArrayRecord({"model": Array(np.zeros(3, np.float32))}), num_rounds=1)


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


def test_flowers_loop_waits_as_long_as_the_plan_says_and_not_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    federation, grid = network_of_one()
    waits: list[float | None] = []
    answer = grid.send_and_receive

    def watched(messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        waits.append(timeout)
        return answer(messages, timeout=timeout)

    monkeypatch.setattr(grid, "send_and_receive", watched)
    strategy = EdgeStrategy(federation.servers[0])
    strategy.start(grid, ArrayRecord({"model": Array(strategy.server.standing.model)}), num_rounds=1)
    assert set(waits) == {SETTINGS.rounds.deadline_s}
