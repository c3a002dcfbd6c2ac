"""What is judged by the root set (P7): which gradients go against it, and whether somebody else's verdict can stand.

A loss is not bit-portable, so a verdict is its author's signed word in the closed list, and everybody who has the root
set judges again: what differs by more than `SLACK` is a lie, what lies closer to the limit accuses nobody. A block
counts once a majority of the servers has endorsed it, and who judges otherwise does not: the majority's verdict counts.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from chain.wire.address import Address
from clients.vectors import Vector
from edge_servers.errors import ReplayError
from edge_servers.learning.aggregation import Exact
from edge_servers.learning.filtered import FEWEST
from edge_servers.learning.gradients import Gradient

LIMITS = {"direction": 0.1, "harm": 0.15, "loss": 0.04}
"""How far a gradient may point against the root set's (a cosine), and which part of the loss may go with one: `harm`
where it has its full length and a rare honest one may do some, `loss` where lengths are cut"""
SLACK = 0.005
"""Of a cosine, and of a loss in parts of it: other machines and threads differ by less (tests/.../test_jury.py)"""
_AT_ONCE = 20
"""Of so many gradients one is taken out at a time; of 100 five: else the losses of many liars take a round's time"""


class Jury(Protocol):
    """Whoever has the root set, and can compute a network's losses."""

    def losses(self, models: Sequence[Vector]) -> Sequence[float]:
        """Of each model, on the root set."""

    def update(self, model: Vector, round_: int) -> Exact:
        """What the root set would send as its own cumulative gradient."""


@dataclass(frozen=True)
class Bench:
    """A jury with what a round starts from."""

    jury: Jury
    model: Vector
    round: int
    learning_rate: float


@dataclass(frozen=True)
class Verdict:
    """A stage of a filter that judges: `direction`; `harm` and `loss`, which are the same rule with two limits."""

    name: str
    """The text it was made from."""
    reason: str
    limit: float

    def passed(self, closed: Sequence[Gradient], most: int, bench: Bench) -> dict[Address, str]:
        """Whom an honest leader takes out, at most that many: sender -> found and expected."""
        return self._judge(closed, most, bench, None)

    def check(self, closed: Sequence[Gradient], most: int, bench: Bench, claimed: Collection[Address]) -> None:
        """Raise `ReplayError` unless an honest server could have taken out just these."""
        found = self._judge(closed, most, bench, frozenset(claimed))
        names = {g.sender: g.node for g in closed}
        for sender in claimed:
            if sender not in found:
                raise ReplayError(f"the verdict {self.name} takes out {names[sender]}, which nothing speaks against")

    def _judge(
        self, closed: Sequence[Gradient], most: int, bench: Bench, claimed: frozenset[Address] | None
    ) -> dict[Address, str]:
        judge = _by_direction if self.reason == "direction" else _by_loss
        return judge(self, closed, most, bench, claimed)


def _chosen(
    verdict: Verdict, scores: Mapping[Address, float], many: int, slack: float, claimed: frozenset[Address] | None
) -> list[Address]:
    """Whom to take out of those with scores below 0, the lowest first, ties by address.

    Where others have judged: those of the claimed that may go; `ReplayError` where one stayed that clearly must go.
    """
    ranked = sorted(scores, key=lambda sender: (scores[sender], sender))
    if claimed is None:
        return [sender for sender in ranked if scores[sender] < 0][:many]
    chosen = [sender for sender in ranked if sender in claimed and scores[sender] < slack][:many]
    if many < 1:
        return []
    worst = scores[chosen[-1]] if len(chosen) == many else 0.0
    for sender in ranked:
        if sender not in claimed and scores[sender] < min(worst, 0.0) - slack:
            raise ReplayError(
                f"the verdict {verdict.name} leaves in 0x{sender.hex()}, which the root set speaks against"
            )
    return chosen


def _by_direction(
    verdict: Verdict, closed: Sequence[Gradient], most: int, bench: Bench, claimed: frozenset[Address] | None
) -> dict[Address, str]:
    """Those whose cosine with the root set's own update is below -limit, whatever their length."""
    root = bench.jury.update(bench.model, bench.round)
    cosines = {g.sender: _cosine(g.values.astype(np.float64), root) for g in closed}
    scores = {sender: cosine + verdict.limit for sender, cosine in cosines.items()}
    return {
        sender: f"found a cosine of {cosines[sender]:.3f} with the update of the root set, "
        f"expected at least {-verdict.limit:g}"
        for sender in _chosen(verdict, scores, most, SLACK, claimed)
    }


def _cosine(a: Exact, b: Exact) -> float:
    lengths = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def _by_loss(
    verdict: Verdict, closed: Sequence[Gradient], most: int, bench: Bench, claimed: frozenset[Address] | None
) -> dict[Address, str]:
    """Those without whom the next model's loss on the root set is lower by more than `limit` of it.

    The one whose absence lowers the loss most goes first, then the rest are measured again.
    """
    left, found = list(closed), dict[Address, str]()
    many = max(1, len(closed) // _AT_ONCE)
    while len(found) < most:
        with_it, *without = _losses(left, bench)
        bound = with_it * (1 - verdict.limit)
        # Infinity is what a model that has blown up has: nothing is lower by a part of it, and anything finite is.
        scores = {g.sender: _part(loss - bound, with_it, loss) for g, loss in zip(left, without, strict=True)}
        told = dict(zip((g.sender for g in left), without, strict=True))
        left_over = None if claimed is None else claimed - found.keys()
        chosen = _chosen(verdict, scores, min(many, most - len(found)), SLACK, left_over)
        if not chosen:
            break
        for sender in chosen:
            found[sender] = (
                f"found a loss on the root set of {with_it:g} with it and {told[sender]:g} without it, "
                f"expected at most {verdict.limit:.3g} of the loss to go with it"
            )
        left = [g for g in left if g.sender not in found]
    return found


def _part(difference: float, loss: float, without: float) -> float:
    if math.isinf(loss):
        return 1.0 if math.isinf(without) else -1.0
    return difference / loss if loss > 0 else 1.0


def _losses(left: Sequence[Gradient], bench: Bench) -> list[float]:
    """Of the next model with all of them, then without each."""
    weights = [float(g.samples) for g in left]
    parts = [weight * g.values.astype(np.float64) for weight, g in zip(weights, left, strict=True)]
    order = sorted(range(len(left)), key=lambda i: left[i].sender)
    total, weight = sum((parts[i] for i in order), np.zeros(len(bench.model))), sum(weights)
    means = [total / weight]
    means += [
        (total - part) / (weight - mine) if weight > mine else 0 * part
        for part, mine in zip(parts, weights, strict=True)
    ]
    with np.errstate(over="ignore"):
        models = [(bench.model - bench.learning_rate * mean).astype(np.float32) for mean in means]
    return [math.inf if math.isnan(loss) else loss for loss in bench.jury.losses(models)]


Judge = Callable[[Verdict, Sequence[Gradient], int], Mapping[Address, str]]
"""What a verdict takes out of the list that it comes to, at most so many"""


def judged_by(bench: Bench | None) -> Judge:
    """An honest leader's."""

    def judge(verdict: Verdict, closed: Sequence[Gradient], most: int) -> Mapping[Address, str]:
        if bench is None:
            raise ReplayError(f"the filter {verdict.name} judges by a root set, and there is none here")
        return verdict.passed(closed, most, bench)

    return judge


def judged_before(refused: Collection[tuple[str, str]], bench: Bench | None = None) -> Judge:
    """What a closed list says, as (who, reason): believed, or with a bench checked first."""
    told = frozenset(refused)

    def judge(verdict: Verdict, closed: Sequence[Gradient], most: int) -> Mapping[Address, str]:
        claimed = [g.sender for g in closed if (g.node, verdict.reason) in told]
        if bench is not None and len(closed) >= FEWEST:
            verdict.check(closed, most, bench, claimed)
        return dict.fromkeys(claimed, "")

    return judge
