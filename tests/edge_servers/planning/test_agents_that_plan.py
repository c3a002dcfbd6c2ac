"""Somebody's own agent, or weights in a file, in the place of a planner."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.parameters import DataParams
from clients.plugins import offer, permit, plugin_digest
from edge_servers.errors import PlanError
from edge_servers.planning.planners import make_planner
from edge_servers.planning.proposal import propose_offloading, round_state
from policy.actor.weights import SHIPPED
from policy.env.actions import level_counts
from policy.env.observation import observation_size
from policy.parameters import LatencyParams
from tests.edge_servers.planning.plannable import alike, network


def first_server_for_two(world: LatencyParams) -> Any:
    """Devices 0 and 1 to the first two sub-channels of server 0, with all they have."""

    def decide(observation: Any) -> Any:
        assert observation.shape == (observation_size(world),)
        return {"choice": np.array([1, 2] + [0] * (world.devices - 2)), "params": np.ones((world.devices, 4))}

    return decide


class Drawing:
    """Draws whatever there is."""

    def __init__(self, world: LatencyParams) -> None:
        self.counts = level_counts(world)

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def decide(self, observation: Any) -> Any:
        return self.rng.integers(self.counts)


def drawing(world: LatencyParams) -> Drawing:
    return Drawing(world)


def serves_nobody(world: LatencyParams) -> None:
    return None


def says_nonsense(world: LatencyParams) -> Any:
    return lambda observation: np.zeros(3)


def test_an_agent_plans_a_round() -> None:
    planner = make_planner(offer("planner", first_server_for_two), 0, 10)
    state = round_state(3, network(), DataParams(), 784)
    assert propose_offloading(planner, state).assignment == (0, 0, *[-1] * 8)
    assert planner.digest == f"{planner.name}:{plugin_digest('planner', planner.name, PlanError)}"


def test_an_agent_that_draws_follows_seed_and_round() -> None:
    name = offer("planner", drawing)

    def plan(seed: int, round_: int) -> Any:
        state = round_state(round_, network(), DataParams(), 784)
        return propose_offloading(make_planner(name, seed, 10), state)

    later = plan(0, 5)
    assert alike(later, plan(0, 5))  # whatever was drawn between
    assert not alike(plan(0, 5), plan(1, 5))


def test_weights_in_a_file_plan_like_the_shipped_ones_they_are(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    shutil.copy(SHIPPED, path)
    own, ours = make_planner(f"a2c:{path}", 0, 10), make_planner("a2c", 0, 10)
    assert own.name == f"a2c:{path}"
    assert own.digest == ours.digest
    state = round_state(3, network(), DataParams(), 784)
    assert alike(propose_offloading(own, state), propose_offloading(ours, state))


def test_an_agent_that_cannot_plan_is_refused_with_its_name(subtests: pytest.Subtests) -> None:
    state = round_state(3, network(), DataParams(), 784)
    cases: list[tuple[Any, str]] = [
        (serves_nobody, "it does not serve 10 devices, 3 servers x 5 sub-channels"),
        (says_nonsense, "found an array of float64 of shape"),
    ]
    for function, told in cases:
        with subtests.test(told=told), pytest.raises(PlanError, match=told) as caught:
            propose_offloading(make_planner(offer("planner", function), 0, 10), state)
        assert function.__name__ in str(caught.value)


def test_weights_that_are_none_are_refused_before_the_first_round(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r'planner: found "a2c:nowhere.json": no weights at nowhere.json'):
        make_planner("a2c:nowhere.json", 0, 10)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(PlanError, match=r"bad\.json"):
        make_planner(f"a2c:{tmp_path / 'bad.json'}", 0, 10)


def test_nobody_loads_code_that_nobody_has_permitted() -> None:
    planner = make_planner(f"{__name__}:drawing", 0, 10)
    state = round_state(3, network(), DataParams(), 784)
    with pytest.raises(PlanError, match="say so with --allow-plugins"):
        propose_offloading(planner, state)
    permit({"planner": planner.name})
    propose_offloading(planner, state)
