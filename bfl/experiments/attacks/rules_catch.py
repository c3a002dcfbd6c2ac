"""Attacks that break a rule, beside the paper's own: what catches them, how soon, and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bfl.experiments.attacks.detection import DEVICES, SERVER, Detection, detection_claims, measure_detection
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
RULED_ATTACKS = {
    "lying-aggregate": f"server={SERVER}",
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
NOTES = (
    "An attack begins after an honest start and goes on to the end, whenever its author may post. Strengths are the "
    "defaults of docs/attacks.md. Attackers are server 1 of three, or devices 3 and 7 of ten.",
    "Lost is the accuracy of the honest run of the same seed less that of the attacked one, both means of the last "
    "five evaluations; below zero is luck. ± as in the figure `accuracy`.",
    "Runs are chaotic: once an exclusion changes who leads or offloads, a run differs from the honest one by chance "
    "alone, most in non-IID.",
    "After: the how-manyth attacked round was the first in which its author was accused or refused (1: the first), "
    "over the seeds. Who is excluded cannot attack, and what only a leader does needs server 1 to lead.",
    "Honest refusals are those of honest nodes. What no rule catches, gradients that look honest, is in `defences`.",
)
HEADER = ["attack", "data", "caught by", "after", "excluded", "rounds caught",
          "honest refusals", "accuracy at the end (%)", "lost (points)"]  # fmt: skip


@dataclass(frozen=True)
class RuledCase:
    """An attack on one kind of data."""

    attack: str
    partition: str

    def text(self, first: int, last: int) -> str:
        """As docs/attacks.md writes it."""
        return f"{self.attack.partition(',')[0]}@{first}-{last}:{RULED_ATTACKS[self.attack]}"


@dataclass(frozen=True)
class DetectionFigure(ImageFigure):
    """All of these attacks, one run each."""

    name: str = "detection"
    images: ImageSource = ImageSource()

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Run every case honestly and attacked, on the chain and without a filter."""
        images, budget = self.images.locate(), context.budget
        seeds, rounds, first = range(budget.seeds), budget.defence_rounds, budget.honest_rounds + 1
        honest, attacked = {}, {}
        for case in ruled_cases():
            for seed in seeds:
                plain = dataset_trial(images, "bfl", case.partition, seed, rounds)
                honest[case, seed], attacked[case, seed] = plain, replace(plain, attack=case.text(first, rounds))
        lines = run_trials(context, self.name, dict.fromkeys([*honest.values(), *attacked.values()]))

        def runs(some: Mapping[tuple[RuledCase, int], Trial], case: RuledCase) -> list[Sequence[RoundRecord]]:
            return [lines[some[case, seed]] for seed in seeds]

        catches = {case: measure_detection(runs(attacked, case), case.attack, first) for case in ruled_cases()}
        ends = {case: final_mean(runs(attacked, case), accuracy) for case in ruled_cases()}
        lost = {
            case: seedwise_difference(final_mean(runs(honest, case), accuracy), ends[case]) for case in ruled_cases()
        }
        title = f"Attacks that break a rule, and what catches them, {images.dataset}"

        def draw(path: Path) -> None:
            label = "accuracy at the end below that of the honest run (points)"
            draw_bars(path, f"{title}, {seeds_text(budget.seeds)}", _groups(lost), label)

        table = TextTable(HEADER, [_line(case, catches[case], ends[case], lost[case]) for case in ruled_cases()])
        verdicts = detection_claims({(case.attack, case.partition): catches[case] for case in ruled_cases()})
        spent = f"{seeds_text(budget.seeds)}, {rounds} rounds on {images.dataset}, attacked from round {first} on"
        return FigureResult(self.name, title, [], table, verdicts, list(NOTES), draw, table, spent)


def ruled_cases() -> list[RuledCase]:
    """In the order of the table."""
    return [RuledCase(attack, partition) for attack in RULED_ATTACKS for partition in PARTITIONS]


def _line(case: RuledCase, detection: Detection, at_end: Estimate, lost: Estimate) -> list[str]:
    excluded = "-" if detection.excluded is None else "yes" if detection.excluded else "no"
    after = "never" if detection.after is None else detection.after_text
    return [
        case.attack,
        PARTITIONS[case.partition],
        detection.by or "nothing",
        after,
        excluded,
        f"{detection.hits} of {detection.attacks}",
        str(detection.honest_refusals),
        estimate_text(at_end),
        estimate_text(lost),
    ]


def _groups(lost: Mapping[RuledCase, Estimate]) -> dict[str, dict[str, Estimate]]:
    groups: dict[str, dict[str, Estimate]] = {shown: {} for shown in PARTITIONS.values()}
    for case, value in lost.items():
        groups[PARTITIONS[case.partition]][case.attack] = value
    return groups


FIGURES: dict[str, Figure] = {"detection": DetectionFigure()}
