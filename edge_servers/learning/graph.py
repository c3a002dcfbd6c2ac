"""The graph of edge servers (L8), its consensus weight (L9) and how many steps it needs (L16)."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clients.parameters import did_you_mean
from edge_servers.errors import GraphError
from edge_servers.learning.gossip import WEIGHT_BITS

NAMES = ("line", "ring", "star", "complete")


@dataclass(frozen=True)
class Graph:
    """Undirected and connected; edges (i, j) have i < j."""

    servers: int
    edges: frozenset[tuple[int, int]]

    def neighbours(self, server: int) -> list[int]:
        """The servers that exchange iterates with `server`."""
        return sorted({i + j - server for i, j in self.edges if server in (i, j)})

    def laplacian(self) -> NDArray[np.float64]:
        """Degrees on the diagonal, -1 for every edge."""
        laplacian = np.zeros((self.servers, self.servers))
        for i, j in self.edges:
            laplacian[[i, j], [j, i]] = -1
            laplacian[[i, j], [i, j]] += 1
        return laplacian


def make_graph(text: str, servers: int) -> Graph:
    """The graph that `text` names or lists; `GraphError` unless it is connected (L8)."""
    graph = Graph(servers, frozenset(_named_edges(text, servers)))
    parts = components(graph)
    if len(parts) > 1:
        listed = " and ".join("{" + ", ".join(map(str, part)) + "}" for part in parts)
        raise GraphError(
            f"graph {text}: found {len(parts)} components {listed}, expected one: consensus never crosses a gap; "
            "add an edge between them"
        )
    return graph


def _named_edges(text: str, servers: int) -> set[tuple[int, int]]:
    line = set(pairwise(range(servers)))
    if text == "line":
        return line
    if text == "ring":
        return line | ({(0, servers - 1)} if servers > 2 else set())
    if text == "star":
        return {(0, j) for j in range(1, servers)}
    if text == "complete":
        return {(i, j) for j in range(servers) for i in range(j)}
    return {_edge(part, servers) for part in text.split(",")}


def _edge(part: str, servers: int) -> tuple[int, int]:
    ends = part.strip().split("-")
    if len(ends) != 2 or not all(end.isdecimal() for end in ends):
        raise GraphError(
            f'graph: found "{part}", expected {", ".join(NAMES)} or edges such as 0-1,1-2{did_you_mean(part, NAMES)}'
        )
    i, j = sorted(map(int, ends))
    if i == j or j >= servers:
        raise GraphError(f"graph: found edge {part}, expected two different servers of 0 to {servers - 1}")
    return i, j


def components(graph: Graph) -> list[list[int]]:
    """The connected parts, each sorted."""
    left, parts = set(range(graph.servers)), []
    while left:
        part, border = set(), {min(left)}
        while border:
            part |= border
            border = {j for i in border for j in graph.neighbours(i)} - part
        parts.append(sorted(part))
        left -= part
    return parts


def consensus_weight(graph: Graph, rule: str) -> int:
    """The integer a of d = a / 2^12 (P9), fixed once at founding.

    L9: `optimal` d = 2 / (mu_2 + mu_M) of the Laplacian's eigenvalues; `paper` the largest d < 1/M.
    """
    if graph.servers == 1:
        return 0
    grid: int = 2**WEIGHT_BITS
    if rule == "paper":
        weight = math.ceil(grid / graph.servers) - 1
    else:
        mu = np.linalg.eigvalsh(graph.laplacian())
        weight = round(grid * 2 / float(mu[1] + mu[-1]))
    check_weight(graph, weight)
    return weight


def check_weight(graph: Graph, weight: int) -> None:
    """Raise `GraphError` unless Lambda is symmetric, its rows sum to 1 and its spectral radius off the mean is < 1."""
    matrix = consensus_matrix(graph, weight)
    radius = spectral_radius(graph, weight)
    if not np.array_equal(matrix, matrix.T) or not np.allclose(matrix.sum(axis=1), 1) or radius >= 1 or weight < 1:
        raise GraphError(
            f"consensus weight {weight}/4096 on {graph.servers} servers: spectral radius {radius:.4f}, "
            "expected below 1; use fewer servers or more edges"
        )


def consensus_matrix(graph: Graph, weight: int) -> NDArray[np.float64]:
    """Lambda = I - d * Laplacian (L9)."""
    matrix: NDArray[np.float64] = np.eye(graph.servers) - weight / 2**WEIGHT_BITS * graph.laplacian()
    return matrix


def spectral_radius(graph: Graph, weight: int) -> float:
    """lambda = rho(Lambda - 11'/M): the factor by which one step shrinks disagreement (Assumption 1)."""
    off_mean = consensus_matrix(graph, weight) - 1 / graph.servers
    return float(np.abs(np.linalg.eigvalsh(off_mean)).max())


def needed_steps(radius: float, divergence: float, servers: int, rounds: int, xi: float, most: int) -> int:
    """phi of Corollary 1 (L16):  phi >= 1/2 [log_lambda(xi / (sqrt(K) Xi^2 M^3))]^+,  at least 1, at most `most`."""
    if radius < 1e-3 or divergence == 0:
        return 1
    ratio = xi / (math.sqrt(rounds) * divergence**2 * servers**3)
    steps = math.log(ratio) / math.log(radius) / 2 if ratio < 1 else 0.0
    return min(most, max(1, math.ceil(steps)))
