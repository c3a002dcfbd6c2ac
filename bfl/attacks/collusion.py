"""Attacks of the literature whose authors know what the honest have computed, and say the same.

Assumed, as their papers and `byzfl` do: colluders see the gradient of every honest training node of the round, of
devices and of servers, before they send their own. Nobody real is that well informed: what a filter does here it does
the more against weaker ones.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import nn

from clients.batches import NodeKey
from clients.training import LocalUpdate, Recipe, Trainer, TrainingNode, local_updates

Honest = NDArray[np.float64]
"""What the honest have computed per iteration: (nodes, parameters)"""


def a_little_is_enough(honest: Honest, strength: float) -> NDArray[np.float64]:
    """Mean + z standard deviations in every coordinate, z the strength: inside the crowd, and biased (Baruch 2019)."""
    deviation = honest.std(axis=0, ddof=1) if len(honest) > 1 else np.zeros(honest.shape[1])
    crafted: NDArray[np.float64] = honest.mean(axis=0) + strength * deviation
    return crafted


def inner_product_manipulation(honest: Honest, strength: float) -> NDArray[np.float64]:
    """-epsilon times the mean, epsilon the strength: the step grows short, or turns round (Xie 2020)."""
    crafted: NDArray[np.float64] = -strength * honest.mean(axis=0)
    return crafted


def mimic(honest: Honest, strength: float) -> NDArray[np.float64]:  # noqa: ARG001 - every attack has this signature
    """What the first honest node sent: its data weigh more, all others' less (Karimireddy 2022)."""
    first: NDArray[np.float64] = honest[0]
    return first


COLLUDING: dict[str, Callable[[Honest, float], NDArray[np.float64]]] = {
    "alie": a_little_is_enough,
    "ipm": inner_product_manipulation,
    "mimic": mimic,
}


class Conspiracy:
    """What the colluders know of the round in hand: the updates of everybody who has trained."""

    def __init__(self, colluders: Collection[NodeKey], train: Trainer = local_updates) -> None:
        self._colluders, self._train = frozenset(colluders), train
        self._round = 0
        self._updates: dict[NodeKey, LocalUpdate] = {}

    def trainer(self, nodes: Sequence[TrainingNode], network: nn.Module, recipe: Recipe) -> list[LocalUpdate]:
        """`local_updates`, overheard."""
        updates = self._train(nodes, network, recipe)
        if recipe.round != self._round:
            self._round, self._updates = recipe.round, {}
        self._updates |= {node.key: update for node, update in zip(nodes, updates, strict=True)}
        return updates

    def crafted(self, kind: str, mine: LocalUpdate, strength: float, round_: int) -> LocalUpdate:
        """What a colluder sends instead of its own update: where no honest node trains, made from that one."""
        known = self._updates if round_ == self._round else {}
        honest = [known[key] for key in sorted(known, key=lambda key: key.counter) if key not in self._colluders]
        rows = np.stack([each.values.astype(np.float64) / each.iterations for each in honest or [mine]])
        values = COLLUDING[kind](rows, strength) * mine.iterations
        return replace(mine, values=values.astype(np.float32))
