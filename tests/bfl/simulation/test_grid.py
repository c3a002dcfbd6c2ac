"""The in-process grid: who is answered when, simulated time, and servers that train beside devices."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import Message, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from bfl.simulation.grid import Fault, InProcessGrid, SimulatedClock
from clients.batches import NodeKey
from clients.consent import Consent
from clients.data import Dataset, Samples, dataset_of
from clients.device import Device, answer_orders
from clients.models import build_network, to_vector
from clients.orders import Order, order_messages, vector_digest
from clients.parameters import DataParams
from clients.replies import DataReply, GradientReply, read_reply
from clients.training import LocalUpdate, Recipe, TrainingNode, local_updates
from edge_servers.devices.link import DeviceLink
from edge_servers.federation import found_federation
from tests.bfl.runs import small


class WatchedGrid(InProcessGrid):
    """Fails where somebody asks for ever and lets no time pass, which would hang the test."""

    pulls = 0

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As ever, but not for ever."""
        self.pulls += 1
        assert self.pulls < 20_000, "asked 20,000 times; does simulated time pass between them?"
        return super().pull_messages(message_ids)


RECIPE = Recipe(seed=0, round=1, optimizer="sgd", learning_rate=0.1, batch=5)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """Six thousand synthetic images."""
    return dataset_of(DataParams(dataset="synthetic", hardness=0))


@pytest.fixture(scope="module")
def network(dataset: Dataset) -> torch.nn.Module:
    """The small CNN."""
    return build_network("fashion-mnist-cnn", dataset.sample_shape, dataset.classes, (), 0)


@pytest.fixture
def devices(dataset: Dataset, network: torch.nn.Module) -> list[Device]:
    """Four devices with twenty images each."""
    return [Device(n, dataset.train, np.arange(20 * n, 20 * n + 20), network) for n in range(4)]


def order_for(device: Device, offload_to: int = -1) -> Order:
    """Two iterations on ten of the device's images, or their hand-over."""
    model = to_vector(device.network)
    return Order(
        round=1, device=device.index, model=model, model_digest=vector_digest(model), plan_digest="plan", samples=10,
        iterations=2, batch=5, learning_rate=0.1, optimizer="sgd", seed=0, deadline_s=60.0, offload_to=offload_to,
    )  # fmt: skip


def node_of(grid: InProcessGrid, device: int) -> int:
    """The Flower node of a device: they are numbered alike."""
    return sorted(grid.get_node_ids())[device]


def link_to(grid: InProcessGrid, devices: list[int], clock: SimulatedClock) -> DeviceLink:
    """One server's line to these devices."""
    return DeviceLink(grid, {n: node_of(grid, n) for n in devices}, clock)


def recorded(into: list[int], device: int) -> Fault:
    """Writes down when a device's reply is on its way; changes nothing."""

    def note(reply: Message) -> Message:
        into.append(device)
        return reply

    return note


def lost(reply: Message) -> None:
    """The device never answers."""


def alone(device: Device, order: Order) -> GradientReply:
    """What the device answers when nobody else trains."""
    message = order_messages([(order, 7)])[0]
    reply = read_reply(answer_orders([(device, message)], "sequential", 1)[0])
    assert isinstance(reply, GradientReply)
    return reply


def gradient_in(message: Message) -> GradientReply:
    """A reply that must be a gradient."""
    reply = read_reply(message)
    assert isinstance(reply, GradientReply)
    return reply


def server_nodes(dataset: Dataset, network: torch.nn.Module) -> list[TrainingNode]:
    """Two edge servers with offloaded data."""
    model = to_vector(network)
    return [
        TrainingNode(NodeKey("server", m), dataset.train, torch.arange(100 + 30 * m, 130 + 30 * m), 2, model)
        for m in range(2)
    ]


def check_same(found: list[LocalUpdate], expected: list[LocalUpdate]) -> None:
    """The same updates within rounding, with the same weights."""
    assert [(u.samples, u.iterations) for u in found] == [(u.samples, u.iterations) for u in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-4, atol=1e-5)
        assert np.abs(other.values).max() > 1e-3


# --- the clock --------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 10**6)))
def test_simulated_time_is_the_sum_of_all_waits(waits: list[int]) -> None:
    clock = SimulatedClock()
    assert clock.now() == 0
    for wait in waits:
        clock.sleep(wait)
    assert clock.now() == sum(waits)


def test_a_device_that_never_answers_costs_simulated_time_only(devices: list[Device]) -> None:
    clock = SimulatedClock()
    grid = WatchedGrid(devices, faults={1: lost})
    a_year = 365 * 24 * 3600.0
    link = DeviceLink(grid, {n: node_of(grid, n) for n in (0, 1)}, clock, poll_s=a_year / 100)
    link.prepare([order_for(devices[0]), order_for(devices[1])])
    link.send(deadline_s=a_year)
    assert sorted(link.collect({0, 1})) == [0]
    assert a_year <= clock.now() <= 1.02 * a_year


def test_a_round_names_the_device_that_never_answers_and_goes_on(dataset: Dataset, network: torch.nn.Module) -> None:
    def lost_after_founding(reply: Message) -> Message | None:
        return reply if reply.metadata.message_type == "query.introduce" else None

    shares = [np.arange(100 * n, 100 * n + 100) for n in range(5)]
    devices = [Device(n, dataset.train, share, network) for n, share in enumerate(shares)]
    grid, clock = WatchedGrid(devices, faults={1: lost_after_founding}), SimulatedClock()
    federation = found_federation(grid, small(devices=5, planner="fixed:none"), dataset, network, clock, grid.train)
    report = federation.run_round()
    assert [(refusal.node, refusal.reason) for refusal in report.refused] == [("device 1", "late")]
    assert report.refused[0].detail == "no answer within 600 s"
    assert (report.training_nodes, report.samples) == (4, 400)
    assert clock.now() >= 600


# --- who is answered when ---------------------------------------------------------------------------------------


def test_one_pull_answers_the_waiting_orders_of_all_links(devices: list[Device]) -> None:
    answered: list[int] = []
    grid, clock = InProcessGrid(devices, faults={n: recorded(answered, n) for n in range(4)}), SimulatedClock()
    first, second = link_to(grid, [0, 1], clock), link_to(grid, [2, 3], clock)
    first.prepare([order_for(devices[n]) for n in (0, 1)])
    first.send(60.0)
    second.prepare([order_for(devices[n]) for n in (2, 3)])
    second.send(60.0)
    assert answered == []
    assert sorted(first.collect({0, 1})) == [0, 1]
    assert sorted(answered) == [0, 1, 2, 3]
    assert sorted(second.collect({2, 3})) == [2, 3]
    assert sorted(answered) == [0, 1, 2, 3]
    assert clock.now() == 0


def test_data_is_handed_over_while_the_others_still_train(devices: list[Device]) -> None:
    answered: list[int] = []
    grid = InProcessGrid(devices, faults={n: recorded(answered, n) for n in range(4)})
    link = link_to(grid, [0, 1, 2], SimulatedClock())
    link.prepare([order_for(devices[0], offload_to=2), order_for(devices[1]), order_for(devices[2])])
    link.send(60.0)
    replies = link.collect({0})
    data = read_reply(replies[0])
    assert isinstance(data, DataReply)
    assert (data.inputs.shape, data.labels.shape) == ((10, 1, 28, 28), (10,))
    assert answered == [0]
    assert sorted(link.collect({1, 2})) == [1, 2]


def test_devices_trained_together_answer_what_each_would_alone(devices: list[Device]) -> None:
    grid = InProcessGrid(devices)
    link = link_to(grid, [0, 1, 2, 3], SimulatedClock())
    orders = [order_for(device) for device in devices]
    link.prepare(orders)
    link.send(60.0)
    replies = link.collect(range(4))
    for device, order in zip(devices, orders, strict=True):
        found, expected = gradient_in(replies[device.index]), alone(device, order)
        assert (found.device, found.samples, found.iterations) == (device.index, 10, 2)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-4, atol=1e-5)


def test_a_device_that_does_not_consent_trains_instead(devices: list[Device]) -> None:
    shy = replace(devices[0], consent=Consent("never"))
    grid = InProcessGrid([shy, *devices[1:]])
    link = link_to(grid, [0], SimulatedClock())
    link.prepare([order_for(shy, offload_to=1)])
    link.send(60.0)
    assert gradient_in(link.collect({0})[0]).samples == 10


def test_every_device_introduces_itself(devices: list[Device]) -> None:
    grid = InProcessGrid(devices)
    asked = [Message(RecordDict(), node, "query.introduce") for node in grid.get_node_ids()]
    about = [dict(reply.content["about"]) for reply in grid.send_and_receive(asked)]
    assert sorted(about, key=lambda told: str(told["device"])) == [
        {"device": n, "samples": 20, "offload": "any"} for n in range(4)
    ]


def test_a_message_that_nobody_handles_is_answered_with_an_error(devices: list[Device]) -> None:
    grid = InProcessGrid(devices)
    (reply,) = grid.send_and_receive([Message(RecordDict(), node_of(grid, 0), "query.dance")])
    assert reply.has_error()
    assert reply.error.reason == "no handler for query.dance"


def test_a_reply_is_given_out_once(devices: list[Device]) -> None:
    grid = InProcessGrid(devices)
    ids = list(grid.push_messages(order_messages([(order_for(devices[0]), node_of(grid, 0))])))
    assert len(list(grid.pull_messages(ids))) == 1
    assert list(grid.pull_messages(ids)) == []


# --- servers that train beside devices --------------------------------------------------------------------------


def test_servers_train_beside_the_devices_as_they_would_alone(
    devices: list[Device], dataset: Dataset, network: torch.nn.Module
) -> None:
    grid = InProcessGrid(devices)
    link = link_to(grid, [0, 1, 2, 3], SimulatedClock())
    orders = [order_for(device) for device in devices]
    link.prepare(orders)
    link.send(60.0)
    nodes = server_nodes(dataset, network)
    check_same(grid.train(nodes, network, RECIPE), local_updates(nodes, network, RECIPE))
    replies = link.collect(range(4))
    for device, order in zip(devices, orders, strict=True):
        np.testing.assert_allclose(
            gradient_in(replies[device.index]).values, alone(device, order).values, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    "recipe", [RECIPE, replace(RECIPE, learning_rate=0.2), replace(RECIPE, optimizer="adam", round=3)]
)
def test_servers_train_whether_or_not_a_device_has_the_same_recipe(
    devices: list[Device], dataset: Dataset, network: torch.nn.Module, recipe: Recipe
) -> None:
    grid = InProcessGrid(devices)
    link = link_to(grid, [0], SimulatedClock())
    link.prepare([order_for(devices[0])])
    link.send(60.0)
    nodes = server_nodes(dataset, network)
    check_same(grid.train(nodes, network, recipe), local_updates(nodes, network, recipe))
    np.testing.assert_allclose(
        gradient_in(link.collect({0})[0]).values, alone(devices[0], order_for(devices[0])).values, rtol=1e-4, atol=1e-5
    )


def test_servers_train_where_no_device_waits(devices: list[Device], dataset: Dataset, network: torch.nn.Module) -> None:
    nodes = server_nodes(dataset, network)
    check_same(InProcessGrid(devices).train(nodes, network, RECIPE), local_updates(nodes, network, RECIPE))


def test_a_device_that_cannot_train_fails_alone(
    devices: list[Device], dataset: Dataset, network: torch.nn.Module
) -> None:
    too_small = Samples(torch.zeros(100, 1, 12, 12, dtype=torch.uint8), torch.zeros(100, dtype=torch.int64))
    devices[2] = replace(devices[2], table=too_small)
    grid = InProcessGrid(devices)
    link = link_to(grid, [0, 1, 2, 3], SimulatedClock())
    link.prepare([order_for(device) for device in devices])
    link.send(60.0)
    nodes = server_nodes(dataset, network)
    check_same(grid.train(nodes, network, RECIPE), local_updates(nodes, network, RECIPE))
    replies = link.collect(range(4))
    assert [n for n, reply in sorted(replies.items()) if reply.has_error()] == [2]
    assert "training failed" in str(replies[2].error.reason)
