"""The policy at work: matching against brute force, files of weights, decisions, and what is refused."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from policy.actor.flat_networks import FlatActor
from policy.actor.matching import solve_matching
from policy.actor.networks import SharedActor
from policy.actor.planner import Policy
from policy.actor.weights import actor_of, read_weights, write_weights
from policy.errors import ObservationError, PolicyError
from policy.parameters import LatencyParams
from policy.training.settings import LearningParams
from policy.world.latency import latency_of
from policy.world.projection import LOCAL
from policy.world.state import Array, State, new_state

WORLD = LatencyParams(devices=5, servers=2, channels=2)
TINY = LearningParams(hidden=4, passes=2, devices=(5,))
PAPER = replace(TINY, architecture="paper")


def eager(actor: SharedActor) -> SharedActor:
    """Every slot scores 5 more."""
    last = actor.score[-1]
    assert isinstance(last, nn.Linear)
    last.bias.data += 1.0
    return actor


def written(path: Path, params: LearningParams = TINY, seed: int = 0) -> Path:
    """Untrained weights, a little stronger so that choices differ, and inclined to offload."""
    torch.manual_seed(seed)
    actor = eager(SharedActor(params.hidden, params.passes)) if params.architecture == "shared" else FlatActor(WORLD)
    for parameter in actor.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape)
    write_weights(path, actor, {"agent": "test", "seed": seed})
    return path


def states(params: LatencyParams = WORLD, batch: int = 6) -> State:
    return new_state(params, batch, np.random.default_rng(3))


def best_sum(scores: Array) -> float:
    """The largest sum over all assignments of slots, or none, to devices."""
    devices, slots = scores.shape
    every = itertools.product(range(-1, slots), repeat=devices)
    free = [pick for pick in every if len({s for s in pick if s >= 0}) == sum(s >= 0 for s in pick)]
    return max(float(sum(scores[n, s] for n, s in enumerate(pick) if s >= 0)) for pick in free)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_the_matching_is_the_best_of_all_assignments(seed: int, devices: int, slots: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(2, devices, slots))
    for row, choice in zip(scores, solve_matching(scores), strict=True):
        taken = choice[choice != LOCAL]
        assert len(set(taken.tolist())) == taken.size
        gained = [row[n, c - 1] for n, c in enumerate(choice) if c != LOCAL]
        assert all(gain > 0 for gain in gained)
        assert sum(gained) == pytest.approx(best_sum(row))


def test_a_matching_by_hand() -> None:
    """Both want slot 1 most; the second loses less by taking slot 2. Who scores 0 or less everywhere is local."""
    scores = np.array([[[5.0, 1.0], [4.0, 3.0], [-1.0, 0.0]]])
    assert solve_matching(scores).tolist() == [[1, 2, 0]]


def test_weights_come_back_exactly(tmp_path: Path) -> None:
    torch.manual_seed(0)
    actor = SharedActor(4, 2)
    actor.log_std.data = torch.tensor([1e-30, -1 / 3, 16777217.0, float(np.nextafter(np.float32(0.1), np.float32(1)))])
    write_weights(tmp_path / "new" / "w.json", actor, {"seed": 7})
    found = read_weights(tmp_path / "new" / "w.json")
    assert found.architecture == "shared"
    assert found.sizes == {"hidden": 4, "passes": 2}
    assert found.record == {"seed": 7}
    for name, tensor in actor.state_dict().items():
        assert torch.equal(found.tensors[name], tensor), name
        assert found.tensors[name].dtype == torch.float32


def damaged(path: Path, **change: Any) -> Path:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | change), encoding="utf-8")
    return path


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"no weights at .*gone\.json; make them with: bfl policy train"):
        read_weights(tmp_path / "gone.json")


def test_a_file_that_holds_no_weights_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[bytes] = [b"", b"{", b"[]", b"3", b"null", b"{}", b"\xff\xfe\xff"]
    for content in cases:
        with subtests.test(content=content):
            path = tmp_path / "w.json"
            path.write_bytes(content)
            with pytest.raises(PolicyError, match="holds no weights"):
                read_weights(path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "w.json")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(PolicyError, match="holds no weights"):
        read_weights(path)


def test_weights_that_are_none_are_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"format": 2}, "found format 2, expected 1"),
        ({"weights": {"log_std": {"shape": [4], "values": [1, 2, 3]}}}, "log_std: found 3 values, expected 4"),
        ({"weights": {"log_std": {"shape": [1], "values": [float("nan")]}}}, "expected 1 finite numbers"),
        ({"weights": {"log_std": {"shape": [1], "values": [float("inf")]}}}, "expected 1 finite numbers"),
        ({"weights": {"log_std": {"shape": [1], "values": ["x"]}}}, "holds no weights"),
        ({"weights": {"log_std": {"values": [1]}}}, "holds no weights"),
        ({"weights": [1]}, "holds no weights"),
        ({"sizes": {"hidden": "many"}}, "holds no weights"),
        ({"sizes": None}, "holds no weights"),
    ]
    for change, said in cases:
        with subtests.test(change=change, said=said), pytest.raises(PolicyError, match=said):
            read_weights(damaged(written(tmp_path / "w.json"), **change))


def test_weights_of_other_sizes_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "w.json")
    with pytest.raises(PolicyError, match="do not fit the shared network"):
        actor_of(read_weights(damaged(path, sizes={"hidden": 5, "passes": 2})), WORLD)
    with pytest.raises(PolicyError, match="architecture 'deep', expected shared or paper"):
        actor_of(read_weights(damaged(path, architecture="deep")), WORLD)


def test_a_policy_from_a_file_serves_every_world(tmp_path: Path) -> None:
    policy = Policy.trained(WORLD, written(tmp_path / "w.json"))
    for sizes in ((5, 2, 2), (1, 1, 1), (12, 3, 1)):
        params = LatencyParams(devices=sizes[0], servers=sizes[1], channels=sizes[2])
        state = states(params)
        decision = replace(policy, params=params).decide(state)
        decision.check(state)
        assert (decision.choice != LOCAL).any()
        again = Policy.trained(params, tmp_path / "w.json").decide(state)
        assert np.array_equal(decision.choice, again.choice)
        assert np.array_equal(decision.shares, again.shares)
        assert not latency_of(decision, state, params).allocation.is_demoted.any()


def test_without_matching_devices_may_want_the_same_slot() -> None:
    torch.manual_seed(0)
    crowd = LatencyParams(devices=12, servers=1, channels=1)
    policy, state = Policy(eager(SharedActor(4, 2)), crowd), states(crowd)
    assert (replace(policy, is_matched=False).decide(state).choice == 1).all()
    assert (policy.decide(state).choice.sum(axis=1) == 1).all()


def with_number(state: State, name: str, value: float) -> State:
    values = getattr(state, name).copy()
    values.flat[0] = value
    return replace(state, **{name: values})


def test_states_with_impossible_numbers_are_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    all_values: list[float] = [float("nan"), float("inf"), 0.0, -1.0]
    all_names: list[str] = ["gain", "path_gain", "data_bits", "cpu_hz", "hash_rate", "server_work_cycles"]
    for value in all_values:
        for name in all_names:
            with subtests.test(value=value, name=name):
                policy = Policy.trained(WORLD, written(tmp_path / "w.json"))
                with pytest.raises(ObservationError, match=f"{name}: found a number that is not finite and positive"):
                    policy.decide(with_number(states(), name, value))


def test_a_state_of_another_world_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[dict[str, int]] = [{"devices": 6}, {"servers": 3}, {"channels": 1}]
    for change in cases:
        with subtests.test(change=change):
            policy = Policy.trained(WORLD, written(tmp_path / "w.json"))
            with pytest.raises(ObservationError, match=r"found shape \(6, .*expected \(6, 5, 2"):
                policy.decide(states(replace(WORLD, **change)))


def test_what_is_no_state_is_refused_with_advice(subtests: pytest.Subtests, tmp_path: Path) -> None:
    policy = Policy.trained(WORLD, written(tmp_path / "w.json"))
    no_array: Any = 3.0
    cases: list[tuple[Any, str]] = [
        (np.zeros(67), r"found ndarray of shape \(67,\), expected a policy.world.state.State of 5 devices, 2 servers"),
        (None, "found NoneType, expected .* an observation shows env.unwrapped.state of its environment"),
        ({"gain": 1}, r"found dict, .*one drawn afresh is new_state\(params, 1, rng\)"),
        (replace(states(), gain=no_array), "gain: found float, expected an array of numbers"),
    ]
    for found, told in cases:
        with subtests.test(told=told), pytest.raises(ObservationError, match=told):
            policy.decide(found)


def test_more_tries_are_never_worse(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[LearningParams] = [TINY, PAPER]
    for params in cases:
        with subtests.test(params=params):
            policy, state = Policy.trained(WORLD, written(tmp_path / "w.json", params)), states(batch=40)
            totals = [latency_of(policy.decide(state), state, WORLD).total_s]
            for tries in (1, 8, 64):
                decision = replace(policy, tries=tries).decide(state, np.random.default_rng(0))
                decision.check(state)
                totals.append(latency_of(decision, state, WORLD).total_s)
                assert (totals[-1] <= totals[0]).all()
            assert (totals[-1] < totals[0]).mean() > 0.5
            assert [total.mean() for total in totals] == sorted([total.mean() for total in totals], reverse=True)


def test_tries_without_random_numbers_are_refused(tmp_path: Path) -> None:
    policy = replace(Policy.trained(WORLD, written(tmp_path / "w.json")), tries=2)
    with pytest.raises(PolicyError, match="needs random numbers: found no rng"):
        policy.decide(states())


def test_the_same_random_numbers_try_the_same_decisions(tmp_path: Path) -> None:
    policy = replace(Policy.trained(WORLD, written(tmp_path / "w.json")), tries=4)
    first, again = (policy.decide(states(), np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first.choice, again.choice)
    assert np.array_equal(first.shares, again.shares)


def test_the_papers_weights_serve_their_own_world_only(tmp_path: Path) -> None:
    path = written(tmp_path / "w.json", PAPER)
    decision = Policy.trained(WORLD, path).decide(states())
    decision.check(states())
    for change in ({"devices": 6}, {"servers": 3}, {"channels": 3}):
        with pytest.raises(PolicyError, match=r"weights of the paper's network for .*'devices': 5.*expected"):
            Policy.trained(replace(WORLD, **change), path)
