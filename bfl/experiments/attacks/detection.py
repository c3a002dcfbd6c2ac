"""What caught an attacker, and when: read from the offences, refusals and exclusions of a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bfl.experiments.claims import verdict
from bfl.experiments.figure import ClaimVerdict
from bfl.experiments.learning.curves import PARTITIONS
from bfl.experiments.learning.trials import RoundRecord

BY_REPLAY = ("lying-aggregate", "wrong-model", "omitted-gradient", "equivocation")
BY_ABSENCE = ("withheld-iterate",)
"""Computed by the others: no offence, and nobody is excluded for it"""
BY_TIME = ("silent-leader, plan", "silent-leader, close", "silent-leader, model", "silent-leader, seal")
BY_ADMISSION = ("inflated-weight", "inflated-samples", "forged")
LEADERS = ("wrong-model", "omitted-gradient", *BY_TIME)
"""What a server does only in rounds that it leads"""
OF_DEVICES = ("inflated-samples", "forged")
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


Detections = Mapping[tuple[str, str], Detection]
"""By attack and partition"""


def detection_claims(found: Detections) -> list[ClaimVerdict]:
    """What docs/attacks.md says of every kind; the paper tries none of them."""
    return [
        _judge_at_once("replay catches the first wrong post of a server", found, BY_REPLAY),
        _judge_at_once("iterates that are not there are noticed the first time", found, BY_ABSENCE),
        _judge_at_once("a leader that is silent is passed over the first time", found, BY_TIME),
        _judge_at_once("false weights and foreign keys are refused the first time", found, BY_ADMISSION),
        _judge_excluded("a server that is caught by replay is excluded", found, BY_REPLAY),
        _judge_not_excluded("nobody is excluded for silence", found, (*BY_ABSENCE, *BY_TIME)),
        _judge_no_false_accusation(found),
    ]


def _detections_of(found: Detections, kinds: Sequence[str]) -> dict[str, Detection]:
    return {f"{kind}, {PARTITIONS[p]}": detection for (kind, p), detection in found.items() if kind in kinds}


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
    wrong = sum(detection.false_offences for detection in found.values())
    return ClaimVerdict("(ours) no honest server is accused", f"{wrong} accusations", verdict(wrong == 0))
