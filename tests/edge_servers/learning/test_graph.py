"""The graph of edge servers: L8, L9, L16."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_servers.errors import GraphError
from edge_servers.learning.graph import (
    Graph,
    check_weight,
    components,
    consensus_matrix,
    consensus_weight,
    make_graph,
    needed_steps,
    spectral_radius,
)


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("line", {(0, 1), (1, 2), (2, 3)}),
        ("ring", {(0, 1), (1, 2), (2, 3), (0, 3)}),
        ("star", {(0, 1), (0, 2), (0, 3)}),
        ("complete", {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}),
        ("1-0, 2-1,3-2", {(0, 1), (1, 2), (2, 3)}),
    ],
)
def test_graphs_have_the_edges_their_name_says(name: str, edges: set[tuple[int, int]]) -> None:
    assert make_graph(name, 4).edges == edges


def test_a_disconnected_graph_is_refused_and_its_components_are_named() -> None:
    with pytest.raises(GraphError, match=r"found 2 components \{0, 1\} and \{2, 3, 4\}, expected one"):
        make_graph("0-1,2-3,3-4", 5)


@pytest.mark.parametrize("text", ["0-0", "0-3", "0-1-2", "lin", "", "a-b", "-1-2"])
def test_an_edge_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(GraphError, match="graph"):
        make_graph(text, 3)


def test_a_misspelt_graph_names_the_nearest() -> None:
    with pytest.raises(GraphError, match='did you mean "complete"'):
        make_graph("compleet", 3)


def test_the_optimal_weight_of_a_line_of_three_is_one_half() -> None:
    graph = make_graph("line", 3)  # Laplacian eigenvalues 0, 1, 3: d = 2 / (1 + 3)
    assert consensus_weight(graph, "optimal") == 2048
    assert spectral_radius(graph, 2048) == pytest.approx(0.5)


def test_a_complete_graph_agrees_in_one_step() -> None:
    graph = make_graph("complete", 4)  # eigenvalues 0, 4, 4, 4: d = 1/4
    assert consensus_weight(graph, "optimal") == 1024
    assert spectral_radius(graph, 1024) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("servers", [2, 3, 5, 8])
def test_the_papers_weight_is_just_below_one_over_m(servers: int) -> None:
    weight = consensus_weight(make_graph("ring", servers), "paper")
    assert weight < 4096 / servers <= weight + 1


@given(st.integers(2, 12), st.sampled_from(["line", "ring", "star", "complete"]), st.sampled_from(["optimal", "paper"]))
def test_every_weight_makes_a_doubly_stochastic_matrix_that_contracts(servers: int, name: str, rule: str) -> None:
    graph = make_graph(name, servers)
    weight = consensus_weight(graph, rule)
    matrix = consensus_matrix(graph, weight)
    assert np.array_equal(matrix, matrix.T)
    assert np.allclose(matrix.sum(axis=0), 1)
    assert 0 <= spectral_radius(graph, weight) < 1


def test_a_weight_that_does_not_contract_is_refused() -> None:
    with pytest.raises(GraphError, match="expected below 1"):
        check_weight(make_graph("line", 3), 4096)


def test_one_server_needs_no_weight() -> None:
    assert consensus_weight(make_graph("line", 1), "optimal") == 0


def test_components_are_found_and_sorted() -> None:
    assert components(Graph(4, frozenset({(1, 3)}))) == [[0], [1, 3], [2]]


def test_auto_phi_is_corollary_one_worked_by_hand() -> None:
    # 1/2 log_{1/2}(1 / (sqrt(100) * 1^2 * 27)) = 1/2 log2(270) = 4.04, so 5
    assert needed_steps(0.5, 1.0, 3, 100, 1.0, 50) == 5
    assert needed_steps(0.5, 1.0, 3, 100, 1.0, 3) == 3


@given(st.floats(0.05, 0.99), st.floats(1e-3, 100), st.integers(2, 10), st.integers(1, 1000))
def test_auto_phi_meets_the_corollarys_bound_and_no_more(radius: float, xi: float, servers: int, rounds: int) -> None:
    steps = needed_steps(radius, xi, servers, rounds, 1.0, 10**9)

    def term_d(phi: float) -> float:  # sqrt(K) M^3 lambda^(2 phi) Xi^2, to be at most xi = 1
        return float(math.sqrt(rounds) * servers**3 * radius ** (2 * phi) * xi**2)

    assert term_d(steps) <= 1 + 1e-9
    assert steps == 1 or term_d(steps - 1) > 1 - 1e-9


def test_auto_phi_is_one_on_a_complete_graph_and_where_nobody_differs() -> None:
    assert needed_steps(0.0, 5.0, 3, 100, 1.0, 50) == 1
    assert needed_steps(0.5, 0.0, 3, 100, 1.0, 50) == 1
