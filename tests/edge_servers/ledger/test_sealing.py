"""How rounds end without a chain: a drawn winner, bound to the models by a hash."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.models import Vector
from edge_servers.ledger.sealing import DrawnSealer, Seal, drawn_winner, founding_hash, round_hash
from tests.edge_servers.addresses import address
from tests.edge_servers.planning.plannable import network

SERVER = Address(b"\xab" * 20)
MODELS: dict[Address, Vector] = {SERVER: np.array([1.0, -2.0], np.float32)}


def plan(round_: int) -> Plan:
    return Plan(round_, "state", (-1,), (1,), (1,), (1,), 0, 1.0, 0.0, "fixed")


def sealed(round_: int, seed: int = 0, parent: bytes = bytes(32), models: dict[Address, Vector] = MODELS) -> Seal:
    sealer = DrawnSealer(seed, network())
    sealer.seal(parent, SERVER, plan(round_), models, 0.0)
    found = sealer.find(round_)
    assert found is not None
    return found


def test_a_round_has_a_seal_once_its_leader_has_sealed_it_and_no_other_round_has() -> None:
    sealer = DrawnSealer(0, network())
    assert sealer.find(1) is None
    sealer.seal(bytes(32), SERVER, plan(1), MODELS, 0.0)
    assert sealer.find(2) is None
    found = sealer.find(1)
    assert found is not None
    assert (found.round, found.leader, found.excluded, found.block_bytes) == (1, SERVER, None, 0)
    sealer.seal(found.block_hash, SERVER, plan(2), MODELS, 0.0)
    assert sealer.find(1) is None


def test_the_winner_is_drawn_and_the_hash_is_of_parent_models_and_winner() -> None:
    found = sealed(4, seed=9)
    assert found.winner == drawn_winner(9, 4, 10)
    assert found.block_hash == round_hash(bytes(32), MODELS, network().devices[found.winner].address)


def test_every_device_wins_about_as_often() -> None:
    counts = Counter(drawn_winner(1, k, 10) for k in range(1, 2001))
    assert set(counts) == set(range(10))
    assert max(abs(count - 200) for count in counts.values()) < 60  # 4.5 standard deviations


@given(round_=st.integers(1, 10**6), devices=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_the_winner_is_one_of_the_devices_and_always_the_same(round_: int, devices: int, seed: int) -> None:
    winner = drawn_winner(seed, round_, devices)
    assert 0 <= winner < devices
    assert winner == drawn_winner(seed, round_, devices)


@pytest.mark.parametrize(
    "other",
    [
        sealed(4, parent=b"\x01" * 32),
        sealed(4, models={SERVER: np.array([1.0, -2.5], np.float32)}),
        sealed(4, models={Address(b"\xac" * 20): MODELS[SERVER]}),
        sealed(4, models={}),
    ],
)
def test_another_parent_another_model_or_another_sender_make_another_hash(other: Seal) -> None:
    assert other.block_hash != sealed(4).block_hash


def test_the_hash_does_not_depend_on_who_posted_first() -> None:
    one, other = address(1), address(2)
    model = MODELS[SERVER]
    assert round_hash(b"p", {one: model, other: model * 2}, one) == round_hash(
        b"p", {other: model * 2, one: model}, one
    )


def test_every_seed_has_a_founding_hash_of_its_own() -> None:
    assert len({founding_hash(seed) for seed in range(50)}) == 50
    assert all(len(founding_hash(seed)) == 32 for seed in range(3))
