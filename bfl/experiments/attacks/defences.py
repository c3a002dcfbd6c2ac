"""Every attack beside the paper's own: what catches it, how soon, and what it costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bfl.experiments.attacks.detection import DEVICES, SERVER, Detection, defence_claims, measure_detection
from bfl.experiments.context import ExperimentContext
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import Figure, FigureResult, TextTable
from bfl.experiments.images import ImageFigure, ImageSource
from bfl.experiments.learning.curves import (
    PARTITIONS,
    accuracy,
    estimate_text,
    final_mean,
    seeds_text,
    seedwise_difference,
)
from bfl.experiments.learning.run_pictures import draw_bars
from bfl.experiments.learning.trials import RoundRecord, Trial, dataset_trial, run_trials

_DEVICES = "device=" + "+".join(map(str, DEVICES))
FILTERS = ("none", "norm-clip", "krum", "median", "trimmed-mean", "norm-clip+loss")
SERVER_ATTACKS = {
    "lying-aggregate": f"server={SERVER}",
    "poisoned-gradient": f"server={SERVER}",
    "inflated-weight": f"server={SERVER}",
    "wrong-model": f"server={SERVER}",
    "omitted-gradient": f"server={SERVER}",
    "withheld-iterate": f"server={SERVER},step=3",
    "equivocation": f"server={SERVER},step=3",
    "silent-leader, plan": f"server={SERVER},phase=plan",
    "silent-leader, close": f"server={SERVER},phase=close",
    "silent-leader, model": f"server={SERVER},phase=model",
    "silent-leader, seal": f"server={SERVER},phase=seal",
    "inflated-samples": _DEVICES,
    "forged": _DEVICES,
}
"""What rules catch, with options; tried on the chain without a filter"""
DEVICE_ATTACKS = {"sign-flip": _DEVICES, "noise": _DEVICES, "label-flip": _DEVICES}
"""What only filters can meet; tried under each of them"""
NOTES = (
    "An attack begins after an honest start and goes on to the end, whenever its author may post. Strengths are the "
    "defaults of docs/attacks.md. Attackers are server 1 of three, or devices 3 and 7 of ten.",
    "Lost is the accuracy of the honest run of the same seed and filter less that of the attacked one, both means of "
    "the last five evaluations; below zero is luck. Below honest is the distance to the honest run without a filter: "
    "what attack and filter cost together, for a filter may cost more than the attack. ± as in the figure `accuracy`.",
    "Runs are chaotic: once an exclusion changes who leads or offloads, a run differs from the honest one by chance "
    "alone, most in non-IID.",
    "After: the how-manyth attacked round was the first in which its author was accused or refused (1: the first), "
    "over the seeds. Who is excluded cannot attack, and what only a leader does needs server 1 to lead.",
    "Caught by a filter counts rounds in which an attacker's gradient was taken out; norm-clip, median and "
    "trimmed-mean change gradients and take none out. Honest refusals are those of honest nodes.",
    "What rules catch runs on the chain without a filter; filters are tried on consensus-no-chain, which has the same "
    "admission and the same filters.",
)
HEADER = ["attack", "filter", "data", "caught by", "after", "excluded", "rounds caught",
          "honest refusals", "accuracy at the end (%)", "lost (points)", "below honest (points)"]  # fmt: skip


@dataclass(frozen=True)
class AttackCase:
    """An attack under a filter on one kind of data."""

    attack: str
    filter: str
    partition: str

    @property
    def scheme(self) -> str:
        """On the chain what rules catch; the filters are the same without one."""
        return "bfl" if self.attack in SERVER_ATTACKS else "consensus-no-chain"

    def text(self, first: int, last: int) -> str:
        """As docs/attacks.md writes it."""
        options = (SERVER_ATTACKS | DEVICE_ATTACKS)[self.attack]
        return f"{self.attack.partition(',')[0]}@{first}-{last}:{options}"


@dataclass(frozen=True)
class DefencesFigure(ImageFigure):
    """All attacks, one run each."""

    name: str = "defences"
    images: ImageSource = ImageSource()

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Run every case honestly and attacked."""
        images, budget = self.images.locate(), context.budget
        seeds, rounds, first = range(budget.seeds), budget.defence_rounds, budget.honest_rounds + 1
        honest, attacked = {}, {}
        for case in attack_cases():
            for seed in seeds:
                plain = dataset_trial(images, case.scheme, case.partition, seed, rounds, filter=case.filter)
                honest[case, seed], attacked[case, seed] = plain, replace(plain, attack=case.text(first, rounds))
        lines = run_trials(context, self.name, dict.fromkeys([*honest.values(), *attacked.values()]))

        def runs(some: Mapping[tuple[AttackCase, int], Trial], case: AttackCase) -> list[Sequence[RoundRecord]]:
            return [lines[some[case, seed]] for seed in seeds]

        catches = {case: measure_detection(runs(attacked, case), case.attack, first) for case in attack_cases()}
        ends = {case: final_mean(runs(attacked, case), accuracy) for case in attack_cases()}
        lost = {
            case: seedwise_difference(final_mean(runs(honest, case), accuracy), ends[case]) for case in attack_cases()
        }
        unfiltered = {case: final_mean(runs(honest, replace(case, filter="none")), accuracy) for case in attack_cases()}
        below = {case: seedwise_difference(unfiltered[case], ends[case]) for case in attack_cases()}
        title = f"Attacks and what catches them, {images.dataset}"

        def draw(path: Path) -> None:
            label = "accuracy at the end below that of the honest run without a filter (points)"
            draw_bars(path, f"{title}, {seeds_text(budget.seeds)}", _groups(below), label)

        table = TextTable(
            HEADER, [_line(case, catches[case], ends[case], lost[case], below[case]) for case in attack_cases()]
        )
        verdicts = defence_claims({(c.attack, c.filter, c.partition): (catches[c], below[c]) for c in attack_cases()})
        spent = f"{seeds_text(budget.seeds)}, {rounds} rounds on {images.dataset}, attacked from round {first} on"
        return FigureResult(self.name, title, [], table, verdicts, list(NOTES), draw, table, spent)


def attack_cases() -> list[AttackCase]:
    """In the order of the table."""
    ruled = [AttackCase(attack, "none", partition) for attack in SERVER_ATTACKS for partition in PARTITIONS]
    filtered = [
        AttackCase(attack, name, partition) for attack in DEVICE_ATTACKS for name in FILTERS for partition in PARTITIONS
    ]
    return ruled + filtered


def _line(case: AttackCase, detection: Detection, at_end: Estimate, lost: Estimate, below: Estimate) -> list[str]:
    excluded = "-" if detection.excluded is None else "yes" if detection.excluded else "no"
    after = "never" if detection.after is None else detection.after_text
    shown = [
        detection.by or "nothing",
        after,
        excluded,
        f"{detection.hits} of {detection.attacks}",
        str(detection.honest_refusals),
    ]
    return [
        case.attack,
        case.filter,
        PARTITIONS[case.partition],
        *shown,
        estimate_text(at_end),
        estimate_text(lost),
        estimate_text(below),
    ]


def _groups(below: Mapping[AttackCase, Estimate]) -> dict[str, dict[str, Estimate]]:
    groups: dict[str, dict[str, Estimate]] = {shown: {} for shown in PARTITIONS.values()}
    for case, value in below.items():
        name = case.attack if case.attack in SERVER_ATTACKS else f"{case.attack}, filter {case.filter}"
        groups[PARTITIONS[case.partition]][name] = value
    return groups


FIGURES: dict[str, Figure] = {"defences": DefencesFigure()}
