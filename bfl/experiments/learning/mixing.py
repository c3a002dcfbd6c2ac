"""Convergence quantities of Theorem 1 and Corollary 1, computed from graphs and real aggregates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from edge_servers.learning.aggregation import FixedPoint, consensus_error, divergence
from edge_servers.learning.gossip import next_iterate
from edge_servers.learning.graph import Graph, consensus_weight, make_graph, needed_steps, spectral_radius

GRAPHS = ("line", "ring", "star", "complete")
SIZES = (3, 5, 10)
RULES = ("optimal", "paper")
MOST_STEPS = 2_000
SHOWN_STEPS = 15
"""Of the errors that are drawn: the paper's largest phi"""
XIS = (1.0, 1e-2, 1e-4)
"""The constant of Corollary 1; 1 is the default of phi auto"""


@dataclass(frozen=True)
class WeightedGraph:
    """A graph of servers with the weight that a consensus step gives to neighbours."""

    name: str
    servers: int
    rule: str

    @cached_property
    def graph(self) -> Graph:
        """Who talks to whom."""
        return make_graph(self.name, self.servers)

    @cached_property
    def weight(self) -> int:
        """The integer a of d = a / 2^12 (P9)."""
        return consensus_weight(self.graph, self.rule)

    @cached_property
    def radius(self) -> float:
        """lambda = rho(Lambda - 11'/M) (Assumption 1, iv)."""
        return spectral_radius(self.graph, self.weight)


WEIGHTED_GRAPHS = [WeightedGraph(name, servers, rule) for name in GRAPHS for servers in SIZES for rule in RULES]


def errors_by_step(
    weighted: WeightedGraph, start: Sequence[FixedPoint], steps: int, most: int, until: float
) -> list[float]:
    """|c_m| of the worst server after 0, 1, ... steps of eq. 9: how far M x_m(l) is from the sum (eq. 10, L11).

    Of `steps` steps, and of more, up to `most`, until the error is no larger than `until`.
    """
    graph, weight = weighted.graph, weighted.weight
    x, errors = list(start), [consensus_error(start, start)]
    while len(errors) <= steps or (len(errors) <= most and errors[-1] > until):
        old = dict(enumerate(x))
        x = [next_iterate(m, old, graph.neighbours(m), weight) for m in old]
        errors.append(consensus_error(start, x))
    return errors


def error_bound(weighted: WeightedGraph, xi: float, step: int) -> float:
    """What the proof of Theorem 1 allows the error of one server after `step` rounds of consensus.

    Proof of Theorem 1, last display before eq. (finalResTheo):  |c_m|^2 <= M lambda^(2 phi) Xi^2,  for the distance of
    x_m from the mean. L11's factor M makes of it  |c_m| <= M^(3/2) lambda^phi Xi  for that of M x_m from the sum.
    """
    return float(weighted.servers**1.5 * weighted.radius**step * xi)


def allowed_error(xi: float, rounds: int) -> float:
    """The error that Corollary 1 grants:  M^3 lambda^(2 phi) Xi^2 <= xi / sqrt(K)."""
    return math.sqrt(xi / math.sqrt(rounds))


def steps_by_corollary(weighted: WeightedGraph, start: Sequence[FixedPoint], rounds: int, xi: float) -> int:
    """phi of Corollary 1 (L16) for these aggregates."""
    return needed_steps(weighted.radius, divergence(start), weighted.servers, rounds, xi, MOST_STEPS)


def steps_really_needed(errors: Sequence[float], allowed: float) -> int | None:
    """The first step whose error is granted; None if there is none among these."""
    return next((step for step, error in enumerate(errors) if error <= allowed), None)


@dataclass(frozen=True)
class MixingResult:
    """Consensus errors of one graph that mixes real aggregates, and the steps they need."""

    xi: float
    """Their divergence (Definition 1)"""
    errors: list[float]
    """By step"""
    asked: dict[float, int]
    """phi of Corollary 1, by its constant"""
    needed: dict[float, int | None]
    """Steps really needed for the same error; None if they are more than asked for"""
    size: int
    """Parameters of the model"""

    @classmethod
    def of(cls, weighted: WeightedGraph, start: Sequence[FixedPoint], rounds: int) -> "MixingResult":
        """Mix the aggregates of one round."""
        asked = {xi: steps_by_corollary(weighted, start, rounds, xi) for xi in XIS}
        errors = errors_by_step(weighted, start, SHOWN_STEPS, max(asked.values()), allowed_error(min(XIS), rounds))
        return cls(
            divergence(start),
            errors,
            asked,
            {xi: steps_really_needed(errors, allowed_error(xi, rounds)) for xi in XIS},
            len(start[0]),
        )


Key = tuple[str, WeightedGraph]
"""Partition, and the graph"""
