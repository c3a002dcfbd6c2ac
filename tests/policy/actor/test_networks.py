"""The networks: any size, no order of devices or servers, the paper's layers; and the physics they are told."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from policy.actor.flat_networks import FlatActor, FlatCritic
from policy.actor.networks import (
    LOG_STD,
    SharedActor,
    SharedCritic,
    SharedOutputs,
    margin_over_best_other,
    slot_probabilities,
)
from policy.actor.physics import WORST_S, Inputs, Messages, inputs_of, messages, water_level
from policy.env.observation import LastAllocation, observation, observation_size
from policy.errors import ObservationError
from policy.parameters import LatencyParams, dbm_to_w
from policy.world.latency import latency_of
from policy.world.projection import Decision, hash_rates, water_filling
from policy.world.radio import sinr
from policy.world.state import Array, State, new_state

SIZES = [(1, 1, 1), (1, 5, 5), (7, 1, 1), (7, 1, 4), (6, 4, 1), (40, 5, 5), (3, 2, 3)]


def world(devices: int, servers: int, channels: int, seed: int = 0, batch: int = 3) -> tuple[State, LatencyParams]:
    params = LatencyParams(devices=devices, servers=servers, channels=channels)
    return new_state(params, batch, np.random.default_rng(seed)), params


@pytest.fixture
def double() -> Iterator[None]:
    """New tensors in double precision: in single, noise is lost beside a signal 60 dB above it."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def precise(inputs: Inputs) -> Inputs:
    return Inputs(*(getattr(inputs, name).double() for name in inputs.__dataclass_fields__))


def shaken(actor: SharedActor) -> SharedActor:
    """With larger weights, so that a difference would show."""
    generator = torch.Generator().manual_seed(0)
    for parameter in actor.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return actor


def said(actor: SharedActor, state: State, params: LatencyParams) -> SharedOutputs:
    with torch.no_grad():
        found: SharedOutputs = actor(precise(inputs_of(state, params)))
    return found


def slot_means(outputs: SharedOutputs) -> Tensor:
    """Power and bandwidth of every device in every slot.  # (B, N, S, 2)"""
    options = outputs.logits.shape[2]
    found = [
        outputs.at(torch.full((1, *outputs.logits.shape[:2]), choice)).means[0, ..., :2] for choice in range(1, options)
    ]
    return torch.stack(found, dim=2)


def by_slot(values: Tensor, params: LatencyParams) -> Tensor:
    """(B, N, M G, ...) as (B, N, M, G, ...)."""
    return values.reshape(*values.shape[:2], params.servers, params.channels, *values.shape[3:])


def test_one_network_serves_every_size(subtests: pytest.Subtests) -> None:
    for sizes in SIZES:
        with subtests.test(sizes=sizes):
            state, params = world(*sizes)
            torch.manual_seed(0)
            actor = shaken(SharedActor())
            with torch.no_grad():
                outputs = actor(inputs_of(state, params))
            assert outputs.logits.shape == (3, params.devices, 1 + params.slots)
            assert slot_means(outputs).shape == (3, params.devices, params.slots, 2)
            assert outputs.device_mean.shape == (3, params.devices, 2)
            for values in (outputs.logits, slot_means(outputs), outputs.device_mean):
                assert torch.isfinite(values).all()
            assert slot_means(outputs).abs().max() <= 1
            assert not outputs.logits[..., 0].any()
            learning, mining = SharedCritic()(inputs_of(state, params), outputs.features)
            assert learning.shape == outputs.logits.shape
            assert mining.shape == (3, params.devices)


@pytest.mark.usefixtures("double")
def test_permuting_devices_permutes_what_is_said_of_them(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int, int]] = [(9, 3, 2), (2, 5, 5), (30, 2, 1)]
    for sizes in cases:
        with subtests.test(sizes=sizes):
            state, params = world(*sizes)
            order = np.roll(np.random.default_rng(1).permutation(params.devices), 1)
            names = ("path_gain", "gain", "data_bits", "work_cycles", "cpu_hz", "hash_rate")
            turned = replace(state, **{name: getattr(state, name)[:, order] for name in names})
            actor = shaken(SharedActor())
            here, there = said(actor, state, params), said(actor, turned, params)
            for name in ("logits", "features", "device_mean"):
                assert torch.allclose(getattr(there, name), getattr(here, name)[:, order], atol=1e-6), name
            assert torch.allclose(slot_means(there), slot_means(here)[:, order], atol=1e-6)
            assert not torch.allclose(there.logits, here.logits, atol=1e-6)


@pytest.mark.usefixtures("double")
def test_permuting_servers_or_sub_channels_permutes_the_slots(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int, int]] = [(9, 3, 2), (1, 5, 5), (30, 4, 1)]
    for sizes in cases:
        with subtests.test(sizes=sizes):
            state, params = world(*sizes)
            rng = np.random.default_rng(2)
            servers, channels = rng.permutation(params.servers), rng.permutation(params.channels)
            turned = replace(
                state,
                path_gain=state.path_gain[:, :, servers],
                gain=state.gain[:, :, servers][..., channels],
                server_work_cycles=state.server_work_cycles[:, servers],
            )
            actor = shaken(SharedActor())
            here, there = said(actor, state, params), said(actor, turned, params)
            pairs = [(here.logits[..., 1:], there.logits[..., 1:]), (slot_means(here), slot_means(there))]
            for before, after in pairs:
                moved = by_slot(before, params)[:, :, servers][:, :, :, channels]
                assert torch.allclose(by_slot(after, params), moved, atol=1e-6)
            assert torch.allclose(there.device_mean, here.device_mean, atol=1e-9)


@pytest.mark.usefixtures("double")
def test_the_spread_stays_within_its_bounds() -> None:
    state, params = world(2, 1, 1)
    actor = SharedActor()
    actor.log_std.data = torch.tensor([-9.0, -1.0, 0.5, 0.0])
    assert said(actor, state, params).log_std.tolist() == [LOG_STD[0], -1.0, LOG_STD[1], 0.0]


def test_each_against_the_best_of_the_others_by_hand() -> None:
    values = torch.tensor([[5.0, 2.0, 3.0], [1.0, 4.0, 4.0]])
    assert margin_over_best_other(values, 1).tolist() == [[2, -3, -2], [-3, 0, 0]]
    assert margin_over_best_other(values, 0).tolist() == [[4, -2, -1], [-4, 2, 1]]
    assert margin_over_best_other(torch.tensor([[7.0]]), 1).tolist() == [[0]]


def test_of_several_who_want_a_slot_one_gets_it() -> None:
    """Three devices want it with certainty: a third each. One wants it by half: it has it by half."""
    crowd = torch.tensor([[[0.0, 100.0, 0.0]] * 3])
    assert slot_probabilities(crowd, torch.Size((1, 3, 1, 2))).flatten().tolist() == pytest.approx([1 / 3, 0] * 3)
    alone = torch.tensor([[[0.0, 0.0]]])
    assert slot_probabilities(alone, torch.Size((1, 1, 1, 1))).flatten().tolist() == [0.5]


def layers(network: nn.Module) -> list[tuple[int, int]]:
    return [(part.in_features, part.out_features) for part in network.modules() if isinstance(part, nn.Linear)]


def test_the_flat_networks_have_the_papers_layers() -> None:
    params = LatencyParams(devices=4, servers=2, channels=3)
    seen, options = observation_size(params), 4 * 7
    actor, critic = FlatActor(params), FlatCritic(params)
    assert layers(actor.choice) == [(seen, 64), (64, 32), (32, options)]
    assert layers(actor.share) == [(seen + options, 128), (128, 64), (64, 16)]
    assert layers(critic) == [(seen, 200), (200, 100), (100, 1)]


def test_the_flat_continuous_part_depends_on_everybodys_choice() -> None:
    state, params = world(3, 2, 2)
    torch.manual_seed(0)
    outputs = FlatActor(params)(torch.from_numpy(observation(state, LastAllocation.none(3, params), params)))
    assert outputs.logits.shape == (3, 3, 5)
    choice = torch.zeros(2, 3, 3, dtype=torch.int64)
    choice[1, 0, 1] = 2
    heads = outputs.at(choice)
    assert heads.means.shape == (2, 3, 3, 4)
    changed = (heads.means[0] != heads.means[1]).any(dim=2)
    assert changed.tolist() == [[True] * 3, [False] * 3, [False] * 3]


def test_a_flat_network_refuses_an_observation_of_another_size(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, ...]] = [(2, 40), (52,), (1, 2, 52)]
    for shape in cases:
        with subtests.test(shape=shape):
            params = LatencyParams(devices=4, servers=2, channels=2)
            assert observation_size(params) == 4 * 12 + 2
            with pytest.raises(ObservationError, match=r"expected \(B, 50\).*the 4 devices it was trained for"):
                FlatActor(params)(torch.zeros(shape))


Assignment = dict[int, tuple[int, int]]
"""Who has which (m, g)"""


def assigned(state: State, assignment: Assignment) -> Tensor:
    q = torch.zeros(state.shape, dtype=torch.float64)
    for n, (m, g) in assignment.items():
        q[0, n, m, g] = 1.0
    return q


def noise_over_noise(snr: Array, assignment: Assignment, n: int, m: int, g: int) -> float:
    """1 + what the others send on g to other servers, as heard at m."""
    around = [snr[j, m, g] for j, (server, channel) in assignment.items() if j != n and channel == g and server != m]
    return 1 + float(np.sum(around))


def cell_weights(snr: Array, data_s: Array, assignment: Assignment, server: int) -> dict[int, float]:
    """a = sqrt(D / (W log2(1 + SINR))) of the devices at a server."""
    return {
        n: float(np.sqrt(data_s[n] / np.log2(1 + snr[n, m, g] / noise_over_noise(snr, assignment, n, m, g))))
        for n, (m, g) in assignment.items()
        if m == server
    }


ASSIGNMENT: Assignment = {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (0, 1), 4: (2, 1)}
"""Device 5 trains itself; slot (1, 1) is empty"""


def heard() -> tuple[Messages, State, LatencyParams, Array, Array]:
    state, params = world(6, 3, 2, seed=4, batch=1)
    found = messages(precise(inputs_of(state, params)), assigned(state, ASSIGNMENT))
    snr = state.gain[0] * dbm_to_w(params.power_max_dbm) / params.noise_w
    return found, state, params, snr, state.data_bits[0] / params.bandwidth_hz


def test_messages_are_what_a_slow_computation_finds() -> None:
    found, state, _, snr, data_s = heard()
    _, devices, servers, channels = state.shape
    for n, m, g in np.ndindex(devices, servers, channels):
        noise = noise_over_noise(snr, ASSIGNMENT, n, m, g)
        weight = np.sqrt(data_s[n] / np.log2(1 + snr[n, m, g] / noise))
        cell = cell_weights(snr, data_s, ASSIGNMENT, m)
        load = sum(a for j, a in cell.items() if j != n and ASSIGNMENT[j][1] != g)
        assert found.noise[0, n, m, g] == pytest.approx(noise, rel=1e-6)
        assert found.efficiency[0, n, m, g] == pytest.approx(np.log2(1 + snr[n, m, g] / noise), rel=1e-6)
        assert found.weight[0, n, m, g] == pytest.approx(weight, rel=1e-6)
        assert found.load[0, n, m, g] == pytest.approx(load, rel=1e-6, abs=1e-5)


def test_the_noise_in_a_devices_own_slot_is_the_denominator_of_its_sinr() -> None:
    found, state, params, _, _ = heard()
    choice = np.zeros((1, 6), np.int64)
    for n, (m, g) in ASSIGNMENT.items():
        choice[0, n] = 1 + m * params.channels + g
    allocation = latency_of(Decision(choice, np.ones((1, 6, 4))), state, params).allocation
    ratio = sinr(state, allocation, params)[0]
    for n, (m, g) in ASSIGNMENT.items():
        denominator_w = dbm_to_w(params.power_max_dbm) * state.gain[0, n, m, g] / ratio[n]
        assert found.noise[0, n, m, g] == pytest.approx(denominator_w / params.noise_w, rel=1e-6)


def test_an_upload_is_what_the_device_adds_to_its_cell() -> None:
    """The best split of the band makes a cell's uploads take A_m^2."""
    found, _, _, snr, data_s = heard()
    for n, (m, g) in ASSIGNMENT.items():
        cell = cell_weights(snr, data_s, ASSIGNMENT, m)
        added = sum(cell.values()) ** 2 - (sum(cell.values()) - cell[n]) ** 2
        assert found.upload_s[0, n, m, g] == pytest.approx(min(added, WORST_S), rel=1e-6)


def test_the_harm_is_what_one_more_sender_adds_to_the_other_cells(subtests: pytest.Subtests) -> None:
    """Device 5 in slot (1, 1), which is empty; in (1, 0) beside device 1, whose own signal stays."""
    cases: list[tuple[int, int]] = [(1, 1), (1, 0)]
    for slot in cases:
        with subtests.test(slot=slot):
            found, _, _, snr, data_s = heard()
            harm = 0.0
            for m in (0, 2):
                quiet = sum(cell_weights(snr, data_s, ASSIGNMENT, m).values())
                loud = sum(cell_weights(snr, data_s, ASSIGNMENT | {5: slot}, m).values())
                harm += loud**2 - quiet**2
            assert found.harm_s[0, 5, slot[0], slot[1]] == pytest.approx(min(harm, WORST_S), rel=1e-3)
            assert harm > 0


@given(st.integers(0, 10**6), st.integers(1, 60), st.floats(1e11, 6e13))
@settings(max_examples=50, deadline=None)
def test_the_water_level_asks_for_what_water_filling_gives(seed: int, devices: int, budget: float) -> None:
    params = LatencyParams(devices=devices, servers=1, channels=1, hash_budget_hashes_per_s=budget)
    state = new_state(params, 2, np.random.default_rng(seed))
    asked = water_level(state, params)
    assert ((asked >= 0) & (asked <= 1)).all()
    filled = water_filling(state.hash_rate, budget)
    assert hash_rates(asked, state, params) == pytest.approx(filled, rel=1e-9)
