"""The schemes of L15, as what they differ in: whether servers gossip, and how a model follows from a closed round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clients.plugins import OFF_CHAIN, load_plugin
from clients.vectors import Vector
from edge_servers.errors import ReplayError
from edge_servers.learning.aggregation import (
    SCALE_BITS,
    FixedPoint,
    boost,
    central_update,
    cluster_update,
    global_update,
    total_samples,
)
from edge_servers.learning.gradients import Gradient, Weight


@dataclass(frozen=True)
class ClosedRound:
    """What one server knows when a model is due."""

    server: int
    servers: int
    model: Vector
    closed: Sequence[Weight]
    """What the closed list counts; the values are in x."""
    x: FixedPoint
    """Its iterate after the last consensus step; x(0) where nobody gossips."""
    learning_rate: float
    gradients: Sequence[Gradient] = ()
    """Of all training nodes, after the filters: off the chain, where one process has them all."""

    @property
    def cluster(self) -> list[Weight]:
        """Of its own training nodes, Y_m."""
        return [weight for weight in self.closed if weight.server == self.server]


@dataclass(frozen=True)
class Scheme:
    """One way to agree on a model."""

    gossips: bool
    """Whether consensus steps are run."""
    one_model: bool
    """Whether the leader publishes one model for all, or every server its own."""
    next_model: Callable[[ClosedRound], Vector]

    def model_after(self, round_: ClosedRound) -> Vector:
        """The model of a round; one in which nobody trained leaves it as it was."""
        return self.next_model(round_) if round_.closed else round_.model


def agreed_model(round_: ClosedRound) -> Vector:
    """Eqs. 11, 12 on the leader's agreed iterate (L13)."""
    b = boost(round_.closed)
    return global_update(round_.model, round_.x, round_.servers, b, round_.learning_rate)


def leaders_model(round_: ClosedRound) -> Vector:
    """The leader's own cluster average, x_m(0) * D / D_cluster, with eq. 11's b (L15)."""
    return _cluster_model(round_, boost(round_.closed))


def own_model(round_: ClosedRound) -> Vector:
    """A server that works alone: its own cluster's average and its own cluster's b (L15)."""
    return _cluster_model(round_, boost(round_.cluster) if round_.cluster else 0.0)


def _cluster_model(round_: ClosedRound, b: float) -> Vector:
    if not round_.cluster:
        return round_.model
    share = total_samples(round_.cluster) / total_samples(round_.closed)
    x = round_.x.astype(np.float64) / 2**SCALE_BITS
    return cluster_update(round_.model, x, b, share, round_.learning_rate)


def central_model(round_: ClosedRound) -> Vector:
    """FedAvg over all training nodes."""
    return central_update(round_.model, round_.gradients, round_.learning_rate)


def scheme_of(text: str) -> Scheme:
    """The scheme of a setting: one of ours, or somebody's own function of a `ClosedRound`, whose servers gossip unless
    the function has an attribute `gossips` that is false.
    """
    if text in SCHEMES:
        return SCHEMES[text]
    function = load_plugin("scheme", text.removeprefix(OFF_CHAIN), ReplayError)
    return Scheme(
        bool(getattr(function, "gossips", True)), one_model=True, next_model=partial(_checked, text, function)
    )


def _checked(text: str, function: Callable[[ClosedRound], Vector], round_: ClosedRound) -> Vector:
    model = np.asarray(function(round_))
    if model.shape != round_.model.shape or not np.isfinite(model).all():
        raise ReplayError(
            f"scheme {text}: found {model.dtype} of shape {model.shape}, expected {round_.model.shape} finite numbers"
        )
    return model.astype(np.float32)


SCHEMES = {
    "bfl": Scheme(gossips=True, one_model=True, next_model=agreed_model),
    "bfl-no-consensus": Scheme(gossips=False, one_model=True, next_model=leaders_model),
    "consensus-no-chain": Scheme(gossips=True, one_model=True, next_model=agreed_model),
    "no-consensus-no-chain": Scheme(gossips=False, one_model=True, next_model=leaders_model),
    "traditional": Scheme(gossips=False, one_model=False, next_model=own_model),
    "fedavg": Scheme(gossips=False, one_model=True, next_model=central_model),
}
