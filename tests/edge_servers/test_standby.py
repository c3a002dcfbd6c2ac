"""A home that is off: while it is dormant its devices are ordered by their standby, and their gradients are its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from bfl.attacks.conduct import WITHHELD, Conduct, honest
from bfl.simulation.grid import Fault
from chain.protocol.slots import Slot
from chain.wire.documents import Roll
from chain.wire.plan import Plan
from edge_servers import federation
from edge_servers.devices.link import DeviceLink
from edge_servers.devices.offloading import InThisProcess
from edge_servers.federation import make_network
from tests.edge_servers.chain_network import ChainNetwork, chain_network, misbehave

HOME, STANDBY, FALLS_ASLEEP = 2, 0, 5
"""Devices are dealt in turn: with three of them, device m is at home at server m"""
STANDBYS = (1, 2, STANDBY)


@contextmanager
def network_with_standbys(
    monkeypatch: pytest.MonkeyPatch, standbys: tuple[int | None, ...] = STANDBYS, **options: Any
) -> Iterator[ChainNetwork]:
    monkeypatch.setattr(federation, "make_network", partial(make_network, standbys=standbys))
    settings = {"phi": "1", "planner": "fixed:none", "term_cap": 2, **options}
    with chain_network(devices=3, **settings) as network:
        yield network


@contextmanager
def switched_off(network: ChainNetwork, m: int) -> Iterator[None]:
    """A server that neither posts nor reaches its devices."""
    server = network.servers[m]
    link, server.link = server.link, DeviceLink(network.grid, {}, network.clock)
    silent: Conduct = lambda slot, body: WITHHELD  # noqa: E731
    misbehave(server, silent)
    try:
        yield
    finally:
        server.link = link
        misbehave(server, honest)


def rolled_by(network: ChainNetwork, round_: int, device: int) -> list[int]:
    """Servers whose rolls have the gradient of a device."""
    record, founded = network.record(round_), network.founding.network
    gradient = record.gradient_posts()[founded.devices[device].address].transaction_hash
    rolls = {sender: post.payload for sender, post in record.posts[Slot.ROLL].items()}
    return [founded.server_index(who) for who, said in rolls.items() if said and gradient in Roll.decode(said).held]


def test_devices_of_a_dormant_home_are_ordered_by_their_standby_and_count_for_their_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with network_with_standbys(monkeypatch) as network:
        with switched_off(network, HOME):
            assert [report.training_nodes for report in network.run(FALLS_ASLEEP)] == [2] * FALLS_ASLEEP
            assert network.node.ask("is_dormant", network.key(HOME))
            for report in network.run(3):
                assert (report.training_nodes, report.refused, report.failed_leaders) == (3, (), ())
                counted = network.replayed(report.round)
                assert sorted(gradient.server for gradient in counted.counted) == [0, 1, 2]
                assert counted.iterates.values(0)[HOME].any(), "its virtual cluster has a gradient (P14)"
                assert rolled_by(network, report.round, HOME) == [STANDBY]
                assert counted.model.tobytes() == network.model(report.round).tobytes()
        (back,) = network.run()
        assert back.training_nodes == 3
        assert rolled_by(network, back.round, HOME) == [STANDBY], "dormant for this round still"
        assert not network.node.ask("is_dormant", network.key(HOME))
        (after,) = network.run()
        assert (after.training_nodes, after.refused, after.offences) == (3, (), ())
        assert rolled_by(network, after.round, HOME) == [HOME]
        assert not any(network.record(round_).flags for round_ in range(1, after.round + 1)), "nobody is accused"


def test_a_device_that_is_off_as_well_is_waited_for_once_and_counts_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Home and its devices may have one plug: nobody else's rounds take longer for it."""
    is_off = False
    faults: dict[int, Fault] = {HOME: lambda reply: None if is_off else reply}
    with network_with_standbys(monkeypatch, faults=faults) as network, switched_off(network, HOME):
        is_off = True
        network.run(FALLS_ASLEEP)
        waited = [network.waited_s(report.round) for report in network.run(3)]
        assert waited[0] >= 30, "the deadline of devices"
        assert max(waited[1:]) <= 2
        is_off = False
        counted = [report.training_nodes for report in network.run(2)]
        assert counted[-1] == 3


class Watched(InThisProcess):
    """Notes for how long a server would wait for data of others."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def open(self, plan: Plan, attempt: int, within_s: float, serving: Sequence[int]) -> None:
        self.waits_s.append(within_s)


def test_a_dormant_server_that_is_back_waits_for_nobodys_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a round is over first in which data are planned for it that its fellows could not bring yet."""
    with network_with_standbys(monkeypatch) as network:
        home = network.servers[HOME]
        home.data_paths = watched = Watched()
        with switched_off(network, HOME):
            network.run(FALLS_ASLEEP)
        network.run(2)
        assert watched.waits_s == [*[15.0] * FALLS_ASLEEP, 0.0, 15.0]


def test_a_home_that_is_only_silent_keeps_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    with network_with_standbys(monkeypatch) as network:
        with switched_off(network, HOME):
            reports = network.run(FALLS_ASLEEP - 1)
        assert [report.training_nodes for report in reports] == [2] * (FALLS_ASLEEP - 1)
        (back,) = network.run()
        assert back.training_nodes == 3
        assert rolled_by(network, back.round, HOME) == [HOME]


def test_a_device_without_a_standby_waits_for_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    with network_with_standbys(monkeypatch, (1, 2, None)) as network, switched_off(network, HOME):
        assert [report.training_nodes for report in network.run(FALLS_ASLEEP + 2)] == [2] * (FALLS_ASLEEP + 2)
