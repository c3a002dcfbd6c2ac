"""Leave-one-out validation loss (P7): a verdict that needs private data, so the leader's signed word in a replay."""

import math
from collections.abc import Callable, Sequence

from chain.wire.address import Address
from clients.vectors import Vector
from edge_servers.learning.aggregation import central_update
from edge_servers.learning.gradients import Gradient


def loss_verdicts(
    closed: Sequence[Gradient],
    model: Vector,
    learning_rate: float,
    loss_of: Callable[[Vector], float],
    tolerance: float = 0.02,
) -> dict[Address, str]:
    """Gradients without which the next model is better by more than `tolerance`, relative: sender -> detail.

    The one whose absence lowers the loss most goes first (ties by address), then the rest are measured again; at most
    floor((n - 1) / 2) go, so that a majority always stays. `loss_of` gives a loss that is not negative; NaN, which a
    model that has blown up gives, counts as infinite.
    """

    def loss(gradients: Sequence[Gradient]) -> float:
        value = loss_of(central_update(model, gradients, learning_rate))
        return math.inf if math.isnan(value) else value

    most = (len(closed) - 1) // 2
    if most < 1:
        return {}
    left, verdicts = list(closed), dict[Address, str]()
    found = loss(left)
    while len(verdicts) < most:
        without, sender = min((loss([g for g in left if g.sender != y.sender]), y.sender) for y in left)
        if not without < found * (1 - tolerance):
            break
        verdicts[sender] = (
            f"found a validation loss of {found:g} with it and {without:g} without it, "
            f"expected at most {tolerance:.3g} of the loss to go with it"
        )
        left = [g for g in left if g.sender != sender]
        found = without
    return verdicts
