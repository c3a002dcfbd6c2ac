"""What the paper says of its attack ("Attack Evaluation"), and what we claim of replay."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bfl.experiments.claims import INCOMPARABLE, verdict
from bfl.experiments.curves import PARTITIONS
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import Finding
from bfl.experiments.sides import SIDES

Drops = Mapping[tuple[str, str, int], Estimate]
"""By partition, scheme and attacked round"""
ALIKE = (0.5, 2.0)
"""The attack is about the paper's if traditional FL loses so many times what it loses there"""
EXACT = 1e-9


@dataclass(frozen=True)
class Named:
    """Who was accused in the runs of one seed on the chain."""

    right: int
    """Attacks of which round, step and server were named"""
    attacks: int
    false: int
    """Accusations in honest rounds, or of honest servers"""
    honest_rounds: int


def attack_claims(drops: Drops, named: Sequence[Named], dataset: str) -> list[Finding]:
    """Its numbers (IID), its order (both), and ours: exact names, no false ones, no drop."""
    return [
        *_numbers(drops, dataset),
        *(ordered(f"the drops are in the paper's order, {shown}", drops, p) for p, shown in PARTITIONS.items()),
        *(least(f"ours drops least, {shown}", drops, p) for p, shown in PARTITIONS.items()),
        _no_drop(drops),
        _names(named),
        _false_flags(named),
    ]


def mean_drop(drops: Drops, partition: str, label: str) -> float:
    """Over the attacked rounds."""
    return statistics.fmean(each.mean for (p, name, _), each in drops.items() if (p, name) == (partition, label))


def _numbers(drops: Drops, dataset: str) -> list[Finding]:
    """Upper limits, if the attack is as strong as the paper's; how strong that was, its traditional FL tells."""
    *robust, traditional = SIDES
    if dataset not in traditional.paper:
        return []
    strength = mean_drop(drops, "iid", traditional.label) / traditional.paper[dataset]
    is_alike = ALIKE[0] <= strength <= ALIKE[1]
    found = [
        Finding(
            f"{traditional.label} drops by {traditional.paper[dataset]:g} %, IID",
            f"{mean_drop(drops, 'iid', traditional.label):.2f} points; its ϖ is not given, ours was chosen to fit",
            INCOMPARABLE,
        )
    ]
    for side in robust:
        value, said = mean_drop(drops, "iid", side.label), side.paper[dataset]
        measured = f"{value:.2f} points"
        if not is_alike:
            measured += f"; traditional FL loses {strength:.2f} times the paper's, so the attacks differ"
        found.append(
            Finding(
                f"{side.label} drops by no more than {said:g} %, IID",
                measured,
                verdict(value <= said) if is_alike else INCOMPARABLE,
            )
        )
    return found


def ordered(claim: str, drops: Drops, partition: str) -> Finding:
    """Every scheme loses more than the one before it, in the mean over the attacked rounds."""
    values = {side.label: mean_drop(drops, partition, side.label) for side in SIDES}
    measured = " < ".join(f"{label} {value:.2f}" for label, value in sorted(values.items(), key=lambda each: each[1]))
    return Finding(claim, measured, verdict(all(a < b for a, b in pairwise(values.values()))))


def least(claim: str, drops: Drops, partition: str) -> Finding:
    """Ours loses less than every other scheme in every attacked round."""
    ours, *others = SIDES
    rounds = dict.fromkeys(at for _, _, at in drops)
    is_so = all(
        drops[partition, ours.label, at].mean < drops[partition, side.label, at].mean
        for side in others
        for at in rounds
    )
    told = [f"round {at}: {drops[partition, ours.label, at].mean:.2f}" for at in rounds]
    rival = min(drops[partition, side.label, at].mean for side in others for at in rounds)
    return Finding(claim, f"{', '.join(told)}; least of the others {rival:.2f}", verdict(is_so))


def _no_drop(drops: Drops) -> Finding:
    """Repair puts back the iterate that eq. 9 gives, so the model is the honest one to the bit."""
    ours = [each for (_, label, _), each in drops.items() if label == SIDES[0].label]
    largest = max(abs(each.mean) + each.half_width for each in ours)
    return Finding("(ours) repair leaves a drop of exactly 0", f"largest {largest:.4f}", verdict(largest < EXACT))


def _names(named: Sequence[Named]) -> Finding:
    right, attacks = sum(each.right for each in named), sum(each.attacks for each in named)
    told = f"{right} of {attacks} attacks"
    return Finding("(ours) round, step and server are named every time", told, verdict(right == attacks > 0))


def _false_flags(named: Sequence[Named]) -> Finding:
    false, rounds = sum(each.false for each in named), sum(each.honest_rounds for each in named)
    return Finding("(ours) nobody is accused wrongly", f"{false} in {rounds:,} honest rounds", verdict(false == 0))
