"""What the paper says of its attack ("Attack Evaluation"), and what we claim of replay."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bfl.experiments.attacks.attacked_schemes import ATTACKED_SCHEMES
from bfl.experiments.claims import INCOMPARABLE, verdict
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import ClaimVerdict
from bfl.experiments.learning.curves import PARTITIONS

Drops = Mapping[tuple[str, str, int], Estimate]
"""By partition, scheme and attacked round"""
ALIKE = (0.5, 2.0)
"""The attack is about the paper's if traditional FL loses so many times what it loses there"""


@dataclass(frozen=True)
class Accusations:
    """Who was accused in the runs of one seed on the chain."""

    right: int
    """Attacks of which round, step and server were named"""
    attacks: int
    false: int
    """Accusations in honest rounds, or of honest servers"""
    honest_rounds: int
    drops: tuple[float, ...] = ()
    """Of the attacked rounds that another server leads"""
    drops_led: tuple[float, ...] = ()
    """Of those that the attacker would have led"""


def attack_claims(drops: Drops, accusations: Sequence[Accusations], dataset: str) -> list[ClaimVerdict]:
    """Its numbers (IID), its order (both), and ours: exact names, no false ones, no drop."""
    return [
        *_judge_numbers(drops, dataset),
        *(judge_order(f"the drops are in the paper's order, {shown}", drops, p) for p, shown in PARTITIONS.items()),
        *(judge_least(f"ours drops least, {shown}", drops, p) for p, shown in PARTITIONS.items()),
        _judge_no_drop(accusations),
        _judge_accusations(accusations),
        _judge_false_accusations(accusations),
    ]


def mean_drop(drops: Drops, partition: str, label: str) -> float:
    """Of one scheme, the mean over the attacked rounds."""
    return statistics.fmean(each.mean for (p, name, _), each in drops.items() if (p, name) == (partition, label))


def _judge_numbers(drops: Drops, dataset: str) -> list[ClaimVerdict]:
    """Each drop as a part of traditional FL's, for how strong the paper's noise was only its traditional FL tells."""
    *robust, traditional = ATTACKED_SCHEMES
    if dataset not in traditional.paper:
        return []
    said, whole = traditional.paper[dataset], mean_drop(drops, "iid", traditional.label)
    found = [
        ClaimVerdict(
            f"{traditional.label} drops by {said:g} %, IID",
            f"{whole:.2f} points; its ϖ is not given, ours is that of our specification",
            INCOMPARABLE,
        )
    ]
    for scheme in robust:
        value = mean_drop(drops, "iid", scheme.label)
        measured = f"{value:.2f} where it drops by {whole:.2f}"
        if ALIKE[0] <= whole / said <= ALIKE[1]:
            measured += f": {value / whole:.2f} of it, the paper's {scheme.paper[dataset] / said:.2f}"
            judged = verdict(value / whole <= scheme.paper[dataset] / said)
        else:
            measured += f", {whole / said:.2f} times the paper's: the attacks differ"
            judged = INCOMPARABLE
        claim = f"{scheme.label} drops by only {scheme.paper[dataset]:g} % "
        claim += f"where {traditional.label} drops by {said:g} %, IID"
        found.append(ClaimVerdict(claim, measured, judged))
    return found


def judge_order(claim: str, drops: Drops, partition: str) -> ClaimVerdict:
    """Every scheme loses more than the one before it, in the mean over the attacked rounds."""
    values = {scheme.label: mean_drop(drops, partition, scheme.label) for scheme in ATTACKED_SCHEMES}
    measured = " < ".join(f"{label} {value:.2f}" for label, value in sorted(values.items(), key=lambda each: each[1]))
    return ClaimVerdict(claim, measured, verdict(all(a < b for a, b in pairwise(values.values()))))


def judge_least(claim: str, drops: Drops, partition: str) -> ClaimVerdict:
    """Ours loses less than every other scheme, in the mean over the attacked rounds."""
    ours, *others = (mean_drop(drops, partition, scheme.label) for scheme in ATTACKED_SCHEMES)
    return ClaimVerdict(claim, f"{ours:.2f} points, least of the others {min(others):.2f}", verdict(ours < min(others)))


def _judge_no_drop(accusations: Sequence[Accusations]) -> ClaimVerdict:
    """Repair puts back the iterate that eq. 9 gives, so the model is the honest one to the bit.

    Where the attacker would have led, it is excluded before it can: the next in rank publishes from an iterate of its
    own, which is another one by what consensus has left.
    """
    followed = [each for one in accusations for each in one.drops]
    led = [each for one in accusations for each in one.drops_led]
    told = f"largest {max(map(abs, followed)):.4f} in {len(followed)} rounds" if followed else "no such round"
    if led:
        told += f"; {min(led):.2f} to {max(led):.2f} in {len(led)} in which it would have led"
    is_so = verdict(max(map(abs, followed)) == 0) if followed else INCOMPARABLE
    return ClaimVerdict("(ours) repair leaves a drop of exactly 0 where the attacker does not lead", told, is_so)


def _judge_accusations(accusations: Sequence[Accusations]) -> ClaimVerdict:
    right, attacks = sum(each.right for each in accusations), sum(each.attacks for each in accusations)
    told = f"{right} of {attacks} attacks"
    return ClaimVerdict("(ours) round, step and server are named every time", told, verdict(right == attacks > 0))


def _judge_false_accusations(accusations: Sequence[Accusations]) -> ClaimVerdict:
    false, rounds = sum(each.false for each in accusations), sum(each.honest_rounds for each in accusations)
    return ClaimVerdict("(ours) nobody is accused wrongly", f"{false} in {rounds:,} honest rounds", verdict(false == 0))
