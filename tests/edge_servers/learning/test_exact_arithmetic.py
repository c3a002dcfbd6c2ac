"""P8-P10 against golden vectors made without our code, and L13 against FedAvg and FedNova."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_servers.errors import OverflowRefusedError
from edge_servers.learning.aggregation import (
    FixedPoint,
    boost,
    central_update,
    cluster_update,
    divergence,
    global_update,
    partial_aggregate,
    to_fixed_point,
    total_samples,
)
from edge_servers.learning.gossip import flow, next_iterate
from edge_servers.learning.gradients import Gradient, Weight
from edge_servers.learning.graph import Graph, consensus_matrix, consensus_weight, make_graph
from tests.edge_servers.addresses import address
from tests.vectors import make_exact_arithmetic

GOLDEN: dict[str, Any] = json.loads(make_exact_arithmetic.PATH.read_text())


def gradient(number: int, server: int, samples: int, iterations: int, values: NDArray[np.floating]) -> Gradient:
    return Gradient(address(number), f"node {number}", server, samples, iterations, "model", "plan", values)


def weights_of(closed: Sequence[Gradient]) -> list[Weight]:
    return [gradient.weight for gradient in closed]


def golden_gradients() -> list[Gradient]:
    return [
        gradient(int(a, 16), server, samples, iterations, np.array(GOLDEN["gradients"][a], np.float32))
        for a, server, samples, iterations in GOLDEN["nodes"]
    ]


def gossip(start: Sequence[FixedPoint], graph: Graph, weight: int, phi: int) -> list[FixedPoint]:
    """All servers, `phi` steps."""
    x = dict(enumerate(start))
    for _ in range(phi):
        x = {m: next_iterate(m, x, graph.neighbours(m), weight) for m in x}
    return [x[m] for m in range(len(start))]


def test_the_golden_vectors_are_what_the_plain_python_maker_makes() -> None:
    assert json.loads(json.dumps(make_exact_arithmetic.make())) == GOLDEN


def test_partial_aggregates_are_the_golden_ones_bit_for_bit() -> None:
    closed = golden_gradients()
    assert total_samples(closed) == GOLDEN["total"]
    for server, expected in enumerate(GOLDEN["aggregates"]):
        mine = [g for g in reversed(closed) if g.server == server]  # any order: eq. 8 sorts by address
        assert partial_aggregate(mine, GOLDEN["total"], 8).tolist() == expected


def test_iterates_are_the_golden_ones_bit_for_bit() -> None:
    start = [to_fixed_point(np.array(x), f"server {m}") for m, x in enumerate(GOLDEN["aggregates"])]
    graph = make_graph("line", 3)
    assert consensus_weight(graph, "optimal") == GOLDEN["weight"]
    for step, expected in enumerate(GOLDEN["iterates"]):
        assert [x.tolist() for x in gossip(start, graph, GOLDEN["weight"], step)] == expected


def test_models_are_the_golden_ones_bit_for_bit() -> None:
    b = boost(weights_of(golden_gradients()))
    assert b == GOLDEN["boost"]
    model = np.array(GOLDEN["model"], np.float32)
    for x, expected in zip(GOLDEN["iterates"][-1], GOLDEN["next-models"], strict=True):
        assert global_update(model, np.array(x, np.int32), 3, b, GOLDEN["learning-rate"]).tolist() == expected


def test_fixed_point_rounds_halves_to_even() -> None:
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5]) / 2**24
    assert to_fixed_point(halves, "server 0").tolist() == [0, 2, 2, 0, -2]


def test_flows_round_halves_away_from_zero_and_are_antisymmetric() -> None:
    one, zero = np.array([1], np.int32), np.array([0], np.int32)
    assert flow(2048, one, zero).tolist() == [1]
    assert flow(2048, zero, one).tolist() == [-1]


@pytest.mark.parametrize("value", [128.0, -128.1, np.nan, np.inf])
def test_a_value_outside_the_range_is_refused_and_names_the_sender(value: float) -> None:
    with pytest.raises(OverflowRefusedError, match="server 2"):
        to_fixed_point(np.array([0.0, value]), "server 2")


def test_the_largest_values_fit_and_are_not_wrapped() -> None:
    edge = np.array([-128.0, 128.0 - 2.0**-24])
    assert to_fixed_point(edge, "server 0").tolist() == [-(2**31), 2**31 - 1]


ints = st.integers(-(2**29), 2**29)


@given(st.lists(st.lists(ints, min_size=3, max_size=3), min_size=4, max_size=4), st.sampled_from(["line", "ring"]))
def test_gossip_conserves_the_sum_exactly(rows: list[list[int]], name: str) -> None:
    start = [np.array(row, np.int32) for row in rows]
    graph = make_graph(name, 4)
    end = gossip(start, graph, consensus_weight(graph, "optimal"), 7)
    assert np.sum(start, axis=0, dtype=np.int64).tolist() == np.sum(end, axis=0, dtype=np.int64).tolist()


@given(st.lists(st.lists(ints, min_size=2, max_size=2), min_size=5, max_size=5), st.randoms(use_true_random=False))
def test_gossip_is_bit_identical_under_permutation_of_neighbours_and_on_replay(rows: list[list[int]], rng: Any) -> None:
    x = {m: np.array(row, np.int32) for m, row in enumerate(rows)}
    graph = make_graph("complete", 5)
    weight = consensus_weight(graph, "optimal")
    neighbours = graph.neighbours(2)
    first = next_iterate(2, x, neighbours, weight)
    rng.shuffle(neighbours)
    assert next_iterate(2, x, neighbours, weight).tolist() == first.tolist()
    assert next_iterate(2, x, neighbours, weight).tolist() == first.tolist()


def test_fixed_point_gossip_follows_the_float_matrix_to_seven_digits() -> None:
    rng = np.random.default_rng(1)
    graph = make_graph("0-1,1-2,2-3,0-2", 4)
    weight = consensus_weight(graph, "optimal")
    exact = rng.normal(0, 1, (4, 50))
    end = gossip([to_fixed_point(x, "s") for x in exact], graph, weight, 6)
    expected = np.linalg.matrix_power(consensus_matrix(graph, weight), 6) @ exact
    assert np.abs(np.stack(end) / 2**24 - expected).max() < 5e-7


def nodes(rng: np.random.Generator, iterations: Sequence[int], size: int = 40) -> list[Gradient]:
    return [
        gradient(n, n % 3, int(rng.integers(20, 3000)), e, rng.normal(0, 1, size) * e) for n, e in enumerate(iterations)
    ]


def two_tiers(model: NDArray[np.float64], closed: list[Gradient], eta: float) -> NDArray[np.float64]:
    """Eqs. 8, 10-12 in float64, with the exact mean of the three clusters in place of gossip."""
    d = total_samples(closed)
    mean = sum(partial_aggregate([g for g in closed if g.server == m], d, len(model)) for m in range(3)) / 3
    return model - eta * boost(weights_of(closed)) * 3 * mean


def test_two_tiers_of_aggregation_equal_fedavg_where_iterations_are_equal() -> None:
    rng = np.random.default_rng(7)
    model, eta, closed = rng.normal(0, 0.1, 40), 0.1, nodes(rng, [10] * 9)
    weights = np.array([g.samples for g in closed])
    trained = np.stack([model - eta * g.values for g in closed])  # w_y from C_y = (w - w_y) / eta
    fedavg = np.average(trained, axis=0, weights=weights)
    assert np.abs(two_tiers(model, closed, eta) - fedavg).max() < 1e-8


def test_two_tiers_of_aggregation_equal_fednova_where_iterations_differ() -> None:
    rng = np.random.default_rng(8)
    model, eta, closed = rng.normal(0, 0.1, 40), 0.1, nodes(rng, [1, 3, 10, 10, 2, 7, 5, 5, 20])
    p = np.array([g.samples for g in closed]) / total_samples(closed)
    tau = np.array([g.iterations for g in closed])
    normalised = np.stack([g.values / g.iterations for g in closed])  # FedNova: d_i = cumulative gradient / tau_i
    fednova = model - eta * (p * tau).sum() * (p[:, None] * normalised).sum(axis=0)
    assert np.abs(two_tiers(model, closed, eta) - fednova).max() < 1e-8


@pytest.mark.parametrize("graph_name", ["line", "complete"])
def test_fixed_point_gossip_reaches_fedavg_to_one_in_a_million(graph_name: str) -> None:
    rng = np.random.default_rng(9)
    closed = nodes(rng, [10] * 9)
    model, graph = rng.normal(0, 0.1, 40).astype(np.float32), make_graph(graph_name, 3)
    d = total_samples(closed)
    start = [
        to_fixed_point(partial_aggregate([g for g in closed if g.server == m], d, 40), f"server {m}") for m in range(3)
    ]
    end = gossip(start, graph, consensus_weight(graph, "optimal"), 40)
    fedavg = central_update(model, closed, 0.1)
    for x in end:
        ours = global_update(model, x, 3, boost(weights_of(closed)), 0.1)
        assert np.abs(ours.astype(np.float64) - fedavg).max() < 1e-6


def test_a_cluster_alone_is_fedavg_over_the_cluster() -> None:
    rng = np.random.default_rng(10)
    closed = nodes(rng, [10] * 9)
    cluster = [g for g in closed if g.server == 1]
    model = rng.normal(0, 0.1, 40).astype(np.float32)
    share = total_samples(cluster) / total_samples(closed)
    x = partial_aggregate(cluster, total_samples(closed), 40)
    alone = cluster_update(model, x, boost(weights_of(closed)), share, 0.1)
    assert np.abs(alone - central_update(model, cluster, 0.1)).max() < 1e-7


def test_a_server_without_training_nodes_aggregates_to_zero() -> None:
    assert partial_aggregate([], 100, 3).tolist() == [0.0, 0.0, 0.0]


def test_divergence_is_the_largest_distance_between_two_servers() -> None:
    one = 2**24
    iterates = [np.array(x, np.int32) * one for x in ([0, 0], [3, 4], [1, 0])]
    assert divergence(iterates) == 5.0
    assert divergence(iterates[:1]) == 0.0
