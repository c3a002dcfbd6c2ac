"""What the paper says of accuracy and loss ("Evaluation of FL Performance")."""

from collections.abc import Mapping

from bfl.experiments.claims import FAILS, HOLDS, verdict
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import ClaimVerdict
from bfl.experiments.learning.curves import PARTITIONS, estimate_text, seedwise_difference

OURS, ALONE, TRADITIONAL = "bfl (consensus, φ = 5)", "no consensus", "traditional FL"
RIVALS = {ALONE: 8.0, TRADITIONAL: 14.0}
"""Per cent by which the paper is ahead of them, IID, on Fashion-MNIST; of SVHN it gives no number"""
STEPS = (5, 10, 15)
Key = tuple[str, str]
"""Partition and line"""
Ends = Mapping[Key, Estimate]


def steps_label(phi: int) -> str:
    """The line with this number of consensus rounds."""
    return f"φ = {phi}"


def is_clear(difference: Estimate) -> bool:
    """Above zero by more than its interval."""
    return difference.mean > difference.half_width


def scheme_claims(accuracy: Ends, loss: Ends, dataset: str) -> list[ClaimVerdict]:
    """Figs. "Comparison of different FL approaches"."""
    said = [
        judge_ahead("IID", accuracy, percent, rival) for rival, percent in RIVALS.items() if dataset == "fashion-mnist"
    ]
    return [
        *said,
        *(judge_best(f"consensus has the highest accuracy, {shown}", accuracy, p) for p, shown in PARTITIONS.items()),
        *(judge_best(f"consensus has the lowest loss, {shown}", loss, p, -1.0) for p, shown in PARTITIONS.items()),
        *(judge_wider(f"the gap to {rival} is larger in non-IID", accuracy, OURS, rival) for rival in RIVALS),
        *(
            judge_above(
                f"no consensus is better than traditional FL, {shown}", accuracy[p, ALONE], accuracy[p, TRADITIONAL]
            )
            for p, shown in PARTITIONS.items()
        ),
        judge_above("accuracy is lower in non-IID", accuracy["iid", OURS], accuracy["non-iid", OURS]),
    ]


def consensus_claims(accuracy: Ends, loss: Ends, dataset: str) -> list[ClaimVerdict]:  # noqa: ARG001 - as of schemes
    """Fig. "Comparison of BFL performance with different consensus rounds"."""
    first, last = steps_label(STEPS[0]), steps_label(STEPS[-1])
    return [
        *(
            judge_above(f"{last} is more accurate than {first}, {shown}", accuracy[p, last], accuracy[p, first])
            for p, shown in PARTITIONS.items()
        ),
        *(
            judge_above(f"{last} has a lower loss than {first}, {shown}", loss[p, last], loss[p, first], -1.0)
            for p, shown in PARTITIONS.items()
        ),
        judge_wider(f"the gap between {last} and {first} is larger in non-IID", accuracy, last, first),
    ]


def judge_ahead(where: str, accuracy: Ends, percent: float, rival: str) -> ClaimVerdict:
    """Ours is at least that many points ahead in IID, within the interval."""
    found = seedwise_difference(accuracy["iid", OURS], accuracy["iid", rival])
    claim = f"{where}: consensus improves accuracy by {percent:g} % over {rival}"
    return ClaimVerdict(claim, f"{estimate_text(found)} points", verdict(found.mean >= percent - found.half_width))


def judge_best(claim: str, ends: Ends, partition: str, sign: float = 1.0) -> ClaimVerdict:
    """Ours is beyond both rivals by more than the interval of the difference."""
    gaps = {rival: seedwise_difference(ends[partition, OURS], ends[partition, rival]) for rival in RIVALS}
    measured = ", ".join(f"{signed_text(found)} against {rival}" for rival, found in gaps.items())
    return ClaimVerdict(claim, measured, verdict(all(is_clear(found.times(sign)) for found in gaps.values())))


def judge_above(claim: str, upper: Estimate, lower: Estimate, sign: float = 1.0) -> ClaimVerdict:
    """One line is beyond another by more than the interval of the difference."""
    found = seedwise_difference(upper, lower)
    return ClaimVerdict(claim, signed_text(found), verdict(is_clear(found.times(sign))))


def judge_wider(claim: str, accuracy: Ends, one: str, other: str) -> ClaimVerdict:
    """The gap between two lines is larger in non-IID than in IID, by more than both intervals."""
    iid, non_iid = (seedwise_difference(accuracy[p, one], accuracy[p, other]) for p in PARTITIONS)
    is_wider = non_iid.mean - non_iid.half_width > iid.mean + iid.half_width
    return ClaimVerdict(
        claim, f"{signed_text(iid)} in IID, {signed_text(non_iid)} in non-IID", HOLDS if is_wider else FAILS
    )


def signed_text(value: Estimate) -> str:
    """A difference with its sign."""
    return f"+{estimate_text(value, 2)}" if value.mean >= 0 else estimate_text(value, 2)
