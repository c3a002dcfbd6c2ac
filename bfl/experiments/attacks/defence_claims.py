"""What is promised of the default filter, beside what was measured."""

from collections.abc import Mapping

from bfl.experiments.claims import verdict
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import ClaimVerdict
from bfl.experiments.learning.curves import PARTITIONS

Table = Mapping[tuple[str, str], Mapping[str, Estimate]]
"""By partition and filter: points lost, by attack; under `nobody` what the filter costs without one"""
_MOST_LOST = {"iid": 1.0, "non-iid": 3.0}
_MOST_COST = {"iid": 0.3, "non-iid": 1.0}


def defence_claims(table: Table, default: str, unfiltered: str) -> list[ClaimVerdict]:
    """The goals, one line for each partition and attack; and that the attacks are ones."""
    claims = [_judge_cost(partition, table[partition, default]) for partition in PARTITIONS]
    for partition in PARTITIONS:
        claims += [
            _judge_loss(partition, attack, table, default) for attack in table[partition, default] if attack != "nobody"
        ]
    return [*claims, _judge_attacks(table, unfiltered)]


def _judge_cost(partition: str, found: Mapping[str, Estimate]) -> ClaimVerdict:
    cost, most = found["nobody"], _MOST_COST[partition]
    claim = f"(ours) the default costs at most {most:g} points without an attack, {PARTITIONS[partition]}"
    return ClaimVerdict(claim, f"{cost.mean:.2f} points", verdict(cost.mean <= most))


def _judge_loss(partition: str, attack: str, table: Table, default: str) -> ClaimVerdict:
    """Told with the best filter: where even that one misses the goal, no filter here is known to reach it."""
    lost, most = table[partition, default][attack].mean, _MOST_LOST[partition]
    best = min((some[attack].mean, name) for (where, name), some in table.items() if where == partition)
    told = f"{lost:.2f} points; best of all {best[1]} with {best[0]:.2f}"
    claim = f"(ours) under {attack} the default loses at most {most:g} points, {PARTITIONS[partition]}"
    return ClaimVerdict(claim, told, verdict(lost <= most))


def _judge_attacks(table: Table, unfiltered: str) -> ClaimVerdict:
    """An attack that costs nothing without a filter shows nothing with one."""
    harmless = [
        f"{attack}, {PARTITIONS[partition]}"
        for (partition, name), some in table.items()
        if name == unfiltered
        for attack, lost in some.items()
        if attack != "nobody" and lost.mean <= lost.half_width
    ]
    told = f"not {', '.join(harmless)}" if harmless else "all of them"
    return ClaimVerdict("(ours) without a filter every attack costs something", told, verdict(not harmless))
