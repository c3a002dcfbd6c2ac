"""Eqs. 8 and 9 step by step (B9): every value and digest is that of a plain computation, and little of it is held."""

import gc
import hashlib
import weakref
from typing import Any

import numpy as np
import pytest

from chain.wire.codec import encode_iterate
from clients.consent import Consent
from clients.parameters import DataParams, TrainingParams
from edge_servers.founding.network import DeviceRecord, Network, simulated_address
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.aggregation import FixedPoint
from edge_servers.learning.gossip import next_iterate
from edge_servers.learning.graph import make_graph
from edge_servers.parameters import RoundParams, Settings
from edge_servers.replay import iterates as module
from edge_servers.replay.iterates import Iterates

SERVERS, PHI = 4, 5


def founding() -> FoundingParameters:
    """Four servers in a ring: nobody hears everybody at once."""
    servers = tuple(sorted(simulated_address(5, "server", m) for m in range(SERVERS)))
    devices = tuple(
        DeviceRecord(n, simulated_address(5, "device", n), n % SERVERS, 40, Consent()) for n in range(SERVERS)
    )
    network = Network(servers, devices, make_graph("ring", SERVERS), 1365)
    settings = Settings(RoundParams(edges=SERVERS, graph="ring"), DataParams(), TrainingParams())
    return FoundingParameters(settings, network, (("weight", (2, 5)), ("bias", (2,))), 784)


def first_step(seed: int = 0) -> list[FixedPoint]:
    """Any sums of gradients; the largest and smallest numbers are among them."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(-(2**31), 2**31, 12, dtype=np.int32) for _ in range(SERVERS)]
    made[0][0], made[1][0] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    return made


def naive(first: list[FixedPoint]) -> list[list[FixedPoint]]:
    """Every step of everybody, all of them kept."""
    network, steps = founding().network, [first]
    for _ in range(PHI):
        last = dict(enumerate(steps[-1]))
        steps.append([next_iterate(m, last, network.graph.neighbours(m), network.weight) for m in range(SERVERS)])
    return steps


def digests(values: list[FixedPoint]) -> list[bytes]:
    return [hashlib.sha256(encode_iterate(x, founding().sizes)).digest() for x in values]


def assert_equal(found: list[FixedPoint], expected: list[FixedPoint]) -> None:
    assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
    assert {x.dtype for x in found} == {np.dtype(np.int32)}


@pytest.fixture
def iterates() -> Iterates:
    return Iterates(first_step(), PHI, founding())


class Counted:
    """`next_iterate`, which remembers what it has made as long as somebody else does."""

    def __init__(self) -> None:
        self.calls, self._made = 0, list[weakref.ref[FixedPoint]]()

    def __call__(self, *arguments: Any) -> FixedPoint:
        self.calls += 1
        x = next_iterate(*arguments)
        self._made.append(weakref.ref(x))
        return x

    @property
    def alive(self) -> int:
        gc.collect()
        return sum(each() is not None for each in self._made)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setattr(module, "next_iterate", made)
    return made


def test_values_and_digests_of_every_step_are_those_of_a_plain_computation(iterates: Iterates) -> None:
    expected = naive(first_step())
    assert len({digest for step in expected for digest in digests(step)}) == SERVERS * (PHI + 1)  # no two are alike
    assert len(iterates) == PHI + 1
    for step, values in enumerate(expected):
        assert [iterates.digest(step, m) for m in range(SERVERS)] == digests(values)
        assert_equal(iterates.values(step), values)
    assert_equal(iterates.first, expected[0])
    assert_equal(iterates.last, expected[-1])


@pytest.mark.parametrize("order", [(5, 0, 3), (2, 5, 2, 1), (0, 5, 4)], ids=str)
def test_steps_may_be_asked_for_in_any_order(iterates: Iterates, order: tuple[int, ...]) -> None:
    expected = naive(first_step())
    for step in order:
        assert_equal(iterates.values(step), expected[step])
        assert iterates.digest(step, 1) == digests(expected[step])[1]
    assert_equal(iterates.last, expected[PHI])


def test_of_the_values_the_first_step_and_the_newest_are_held(iterates: Iterates, counted: Counted) -> None:
    for step in range(1, PHI + 1):
        iterates.digest(step, 0)
        assert (counted.calls, counted.alive) == (SERVERS * step, SERVERS)
    assert iterates.values(0) is iterates.first
    assert iterates.last is iterates.values(PHI)
    assert counted.calls == SERVERS * PHI  # neither was computed again


def test_an_earlier_step_is_computed_again_and_not_kept_but_its_digest_is_known(
    iterates: Iterates, counted: Counted
) -> None:
    expected = naive(first_step())
    assert_equal(iterates.last, expected[PHI])
    counted.calls = 0
    assert_equal(iterates.values(3), expected[3])
    assert (counted.calls, counted.alive) == (3 * SERVERS, SERVERS)
    assert [iterates.digest(3, m) for m in range(SERVERS)] == digests(expected[3])
    assert_equal(iterates.last, expected[PHI])
    assert counted.calls == 3 * SERVERS


def test_nothing_is_computed_before_it_is_asked_for(counted: Counted) -> None:
    Iterates(first_step(), PHI, founding()).digest(0, 2)
    assert counted.calls == 0


@pytest.mark.parametrize("step", [-1, PHI + 1])
def test_there_is_no_step_before_the_first_or_after_the_last(iterates: Iterates, step: int) -> None:
    for ask in (iterates.values, lambda step: iterates.digest(step, 0)):
        with pytest.raises(IndexError, match=f"step {step} of {PHI}"):
            ask(step)


def test_without_consensus_steps_the_first_is_the_last() -> None:
    alone = Iterates(first_step(), 0, founding())
    assert (len(alone), alone.last) == (1, alone.first)
