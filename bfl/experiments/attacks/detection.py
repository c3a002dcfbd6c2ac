"""What caught an attacker, and when: read from the offences, refusals and exclusions of a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bfl.experiments.claims import INCOMPARABLE, verdict
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import ClaimVerdict
from bfl.experiments.learning.curves import PARTITIONS
from bfl.experiments.learning.trials import RoundRecord

BY_REPLAY = ("lying-aggregate", "wrong-model", "omitted-gradient", "equivocation")
BY_ABSENCE = ("withheld-iterate",)
"""Computed by the others: no offence, and nobody is excluded for it"""
BY_TIME = ("silent-leader, plan", "silent-leader, close", "silent-leader, model", "silent-leader, seal")
BY_ADMISSION = ("inflated-weight", "inflated-samples", "forged")
BY_NOBODY = ("poisoned-gradient",)
"""Well-formed and within bounds: no rule catches it"""
BY_FILTERS = ("sign-flip", "noise", "label-flip")
LEADERS = ("wrong-model", "omitted-gradient", *BY_TIME)
"""What a server does only in rounds that it leads"""
OF_DEVICES = ("inflated-samples", "forged", *BY_FILTERS)
SERVER, DEVICES = 1, (3, 7)
"""The attackers; these devices of ten do not offload, so both send gradients"""


@dataclass(frozen=True)
class Detection:
    """How one attack was detected, over the runs of all seeds."""

    by: str
    """Kinds of offence and reasons of refusal, with how often"""
    after: tuple[int, ...] | None
    """The how-manyth attack was the first to be caught, of every seed; None if some seed caught none"""
    excluded: bool | None
    """Whether the server was excluded in every seed; None of devices"""
    hits: int
    """Rounds in which an attack was caught"""
    attacks: int
    """Rounds with an attack: not those in which its author is excluded or does not lead"""
    honest_refusals: int
    false_offences: int

    @property
    def after_text(self) -> str:
        """`after` as a range, such as "1-3"."""
        low, high = (min(self.after), max(self.after)) if self.after else (0, 0)
        return str(low) if low == high else f"{low}-{high}"


def is_attacked(attack: str, before: RoundRecord, line: RoundRecord) -> bool:
    """Whether the attacker could act in a round: who is excluded posts nothing, who does not lead posts no model.

    A leader that is accused of its closed list is excluded before the model, so another one is recorded as leader.
    """
    if attack in OF_DEVICES:
        return True
    leads = SERVER in (*line["failed-leaders"], line["leader"]) or any(
        each["offender"] == f"server {SERVER}" for each in line["offences"]
    )
    return SERVER not in before["excluded"] and (attack not in LEADERS or leads)


def measure_detection(runs: Sequence[Sequence[RoundRecord]], attack: str, first: int) -> Detection:
    """Count what offences, refusals and exclusions say of an attack that begins in round `first`."""
    culprits = {f"device {n}" for n in DEVICES} if attack in OF_DEVICES else {f"server {SERVER}"}
    by: Counter[str] = Counter()
    after: list[int] = []
    excluded: list[bool] = []
    hits = attacks = honest_refusals = false_offences = 0
    for run in runs:
        played, found = 0, list[int]()
        for before, line in zip([{"excluded": []}, *run], run, strict=False):
            reasons = {each["kind"] for each in line["offences"] if each["offender"] in culprits}
            reasons |= {each["reason"] for each in line["refused"] if each["node"] in culprits}
            reasons |= {"absent" for name in line.get("absent", []) if name in culprits}
            if not reasons:
                reasons = {"passed over" for m in line["failed-leaders"] if f"server {m}" in culprits}
            is_on = line["round"] >= first
            false_offences += sum(not is_on or each["offender"] not in culprits for each in line["offences"])
            honest_refusals += sum(not is_on or each["node"] not in culprits for each in line["refused"])
            if is_on and is_attacked(attack, before, line):
                played += 1
                found += [played] * bool(reasons)
                by.update(reasons)
        hits, attacks, after = hits + len(found), attacks + played, after + found[:1]
        excluded.append(any(SERVER in line["excluded"] for line in run))
    return Detection(
        ", ".join(f"{kind} ({count}x)" for kind, count in by.most_common()),
        tuple(after) if len(after) == len(runs) else None,
        None if attack in OF_DEVICES else all(excluded),
        hits,
        attacks,
        honest_refusals,
        false_offences,
    )


Detections = Mapping[tuple[str, str, str], tuple[Detection, Estimate]]
"""By attack, filter and partition: the detection, and how far below the honest run without a filter it ends"""


def defence_claims(found: Detections) -> list[ClaimVerdict]:
    """What docs/attacks.md says of every kind; the paper tries none of them."""
    return [
        _judge_at_once("replay catches the first wrong post of a server", found, BY_REPLAY),
        _judge_at_once("iterates that are not there are noticed the first time", found, BY_ABSENCE),
        _judge_at_once("a leader that is silent is passed over the first time", found, BY_TIME),
        _judge_at_once("false weights and foreign keys are refused the first time", found, BY_ADMISSION),
        _judge_excluded("a server that is caught by replay is excluded", found, BY_REPLAY),
        _judge_not_excluded("nobody is excluded for silence", found, (*BY_ABSENCE, *BY_TIME)),
        _judge_no_false_accusation(found),
        *(_judge_best_filter(kind, p, found) for kind, name, p in found if kind in BY_FILTERS and name == "none"),
        *(_judge_uncaught(kind, found) for kind in BY_NOBODY),
    ]


def _detections_of(found: Detections, kinds: Sequence[str]) -> dict[str, Detection]:
    return {f"{kind}, {PARTITIONS[p]}": detection for (kind, _, p), (detection, _) in found.items() if kind in kinds}


def _judge_at_once(claim: str, found: Detections, kinds: Sequence[str]) -> ClaimVerdict:
    some = _detections_of(found, kinds)
    late = [f"{name}: {detection.after_text if detection.after else 'never'}" for name, detection in some.items()
            if detection.after is None or max(detection.after) > 1]  # fmt: skip
    told = f"{len(some) - len(late)} of {len(some)} cases" + (f"; not {', '.join(late)}" if late else "")
    return ClaimVerdict(f"(ours) {claim}", told, verdict(not late))


def _judge_excluded(claim: str, found: Detections, kinds: Sequence[str]) -> ClaimVerdict:
    some = _detections_of(found, kinds)
    free = [name for name, detection in some.items() if not detection.excluded]
    told = f"{len(some) - len(free)} of {len(some)} cases" + (f"; not {', '.join(free)}" if free else "")
    return ClaimVerdict(f"(ours) {claim}", told, verdict(not free))


def _judge_not_excluded(claim: str, found: Detections, kinds: Sequence[str]) -> ClaimVerdict:
    some = _detections_of(found, kinds)
    out = [name for name, detection in some.items() if detection.excluded]
    told = f"{len(some) - len(out)} of {len(some)} cases" + (f"; not {', '.join(out)}" if out else "")
    return ClaimVerdict(f"(ours) {claim}", told, verdict(not out))


def _judge_no_false_accusation(found: Detections) -> ClaimVerdict:
    wrong = sum(detection.false_offences for detection, _ in found.values())
    return ClaimVerdict("(ours) no honest server is accused", f"{wrong} accusations", verdict(wrong == 0))


def _judge_best_filter(kind: str, partition: str, found: Detections) -> ClaimVerdict:
    """Some filter ends half as far below the honest run without one, its own cost counted; told with the best."""
    lost = {name: value for (k, name, p), (_, value) in found.items() if (k, p) == (kind, partition)}
    bare = lost["none"]
    best = min((name for name in lost if name != "none"), key=lambda name: lost[name].mean)
    told = f"below honest without a filter {bare.mean:.2f}, with {best} {lost[best].mean:.2f}, "
    told += f"with the default norm-clip {lost['norm-clip'].mean:.2f} points"
    claim = f"(ours) some filter halves the damage of {kind} by 2 of 10 devices, {PARTITIONS[partition]}"
    if bare.mean <= bare.half_width:
        return ClaimVerdict(claim, f"{told}; no clear damage to halve", INCOMPARABLE)
    return ClaimVerdict(claim, told, verdict(lost[best].mean <= bare.mean / 2))


def _judge_uncaught(kind: str, found: Detections) -> ClaimVerdict:
    some = _detections_of(found, [kind])
    seen = [name for name, detection in some.items() if detection.by]
    told = f"caught in {len(seen)} of {len(some)} cases without a filter"
    return ClaimVerdict(f"(ours) no rule catches {kind}: it is left to the filters", told, verdict(not seen))
