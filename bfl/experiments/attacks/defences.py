"""Gradients that look honest and are not, under every filter: what they cost against attackers that stay away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bfl.experiments.attacks.defence_claims import Table, defence_claims
from bfl.experiments.attacks.defence_pictures import draw_table
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
from bfl.experiments.learning.trials import RoundRecord, Trial, dataset_trial, run_trials
from bfl.show.measures import LAST_EVALUATIONS
from edge_servers.parameters import RoundParams

DEFAULT = str(RoundParams.__dataclass_fields__["filter"].default)
UNFILTERED = "none"
FILTERS = (
    UNFILTERED, DEFAULT, "norm-clip:2", "centred-clip:1", "median", "trimmed-mean:0.2", "krum:2", "nnm:2+krum:2",
    "nnm:2+trimmed-mean:0.2", "norm-clip:1+loss:0.02",
)  # fmt: skip
NOBODY, SCHEME = "", "consensus-no-chain"
AWAY = {"devices": "absent@all:device=3+7", "server": "withheld-gradient@all:server=1"}
"""The attackers stay away: what a perfect filter would give"""
ATTACKS = {
    "sign flip": "sign-flip@all:device=3+7",
    "label flip": "label-flip@all:device=3+7",
    "noise": "noise@all:device=3+7",
    "ALIE": "alie@all:device=3+7",
    "IPM": "ipm@all:device=3+7",
    "mimic": "mimic@all:device=3+7",
    "model replacement": "model-replacement@all:device=3+7",
    "own gradient x -5": "poisoned-gradient@all:server=1,strength=5",
}
_NODES = 10
"""That train in a round: seven devices, and three servers on what the others have offloaded"""
NOTES = (
    "Devices 3 and 7 of ten attack in every round, or server 1 of three with its own gradient, which is trained on "
    "what one device has offloaded to it. Strengths are the defaults of docs/attacks.md; colluders see all honest "
    "gradients.",
    "Lost: accuracy without a filter in the run of the same seed in which the attackers stay away, less that under "
    "attack; means of the last five rounds. Stay away is what a perfect filter gives: in non-IID data that alone costs "
    "labels. Below zero: the filter did better than leaving them out, or luck.",
    "Cost: accuracy of the honest run without a filter less that of the honest run with it. Honest nodes taken out: of "
    "all node-rounds of that run.",
    "On consensus-no-chain, which has the same filters and the same models as bfl. ± as in the figure `accuracy`; runs "
    "are chaotic, in non-IID data by 1 to 3 points.",
)


def away_of(attack: str) -> str:
    """What the run without the attackers is told."""
    return AWAY["server" if "server=" in ATTACKS[attack] else "devices"]


@dataclass(frozen=True)
class DefencesFigure(ImageFigure):
    """All filters against all of these attacks."""

    name: str = "defences"
    images: ImageSource = ImageSource()

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Run every filter honestly and under every attack; without one also without the attackers."""
        images, budget = self.images.locate(), context.budget

        def trial(partition: str, filter_: str, attack: str, seed: int) -> Trial:
            return dataset_trial(
                images, SCHEME, partition, seed, budget.defence_rounds, filter=filter_, attack=attack,
                evaluate_every=0, evaluate_last=LAST_EVALUATIONS,
            )  # fmt: skip

        cells = [(p, f, a) for p in PARTITIONS for f in FILTERS for a in (NOBODY, *ATTACKS.values())]
        cells += [(p, UNFILTERED, a) for p in PARTITIONS for a in AWAY.values()]
        trials = {cell: [trial(*cell, seed) for seed in range(budget.seeds)] for cell in cells}
        lines = run_trials(context, self.name, [each for some in trials.values() for each in some])
        runs = {cell: [lines[each] for each in some] for cell, some in trials.items()}
        ends = {cell: final_mean(some, accuracy) for cell, some in runs.items()}
        table = _losses(ends)
        title = f"What poisoned gradients cost under each filter, {images.dataset}, {seeds_text(budget.seeds)}"
        told = TextTable(
            ["data", "filter", "honest (%)", "cost", "honest out (%)", *ATTACKS],
            [_line(p, f, ends, table, runs) for p in PARTITIONS for f in FILTERS],
        )
        references = [
            f"{PARTITIONS[p]}: honest {estimate_text(ends[p, UNFILTERED, NOBODY])} %, devices 3 and 7 away "
            f"{estimate_text(ends[p, UNFILTERED, AWAY['devices']])} %, server 1's gradient away "
            f"{estimate_text(ends[p, UNFILTERED, AWAY['server']])} %."
            for p in PARTITIONS
        ]

        def draw(path: Path) -> None:
            draw_table(path, title, table, FILTERS, DEFAULT)

        spent = (
            f"{seeds_text(budget.seeds)}, {budget.defence_rounds} rounds on {images.dataset}, attacked in all of them"
        )
        verdicts = defence_claims(table, DEFAULT, UNFILTERED)
        return FigureResult(self.name, title, [], told, verdicts, [*references, *NOTES], draw, told, spent)


Cell = tuple[str, str, str]


def _losses(ends: Mapping[Cell, Estimate]) -> Table:
    """By partition and filter: the cost without attack, and what each attack loses."""
    table: dict[tuple[str, str], Mapping[str, Estimate]] = {}
    for p in PARTITIONS:
        for f in FILTERS:
            cost = seedwise_difference(ends[p, UNFILTERED, NOBODY], ends[p, f, NOBODY])
            lost = {
                name: seedwise_difference(ends[p, UNFILTERED, away_of(name)], ends[p, f, text])
                for name, text in ATTACKS.items()
            }
            table[p, f] = {"nobody": cost, **lost}
    return table


def honest_share_out(runs: Sequence[Sequence[RoundRecord]], filter_: str) -> float:
    """Per cent of the node-rounds of honest runs that a filter took out."""
    out = sum(len(line["refused"]) for run in runs for line in run)
    return 100 * out / (_NODES * sum(map(len, runs))) if filter_ != UNFILTERED else 0.0


def _line(
    partition: str,
    filter_: str,
    ends: Mapping[Cell, Estimate],
    table: Table,
    runs: Mapping[Cell, Sequence[Sequence[RoundRecord]]],
) -> list[str]:
    honest = partition, filter_, NOBODY
    found = table[partition, filter_]
    return [
        PARTITIONS[partition],
        f"{filter_} (default)" if filter_ == DEFAULT else filter_,
        estimate_text(ends[honest]),
        estimate_text(found["nobody"]),
        f"{honest_share_out(runs[honest], filter_):.1f}",
        *(estimate_text(found[name]) for name in ATTACKS),
    ]


FIGURES: dict[str, Figure] = {"defences": DefencesFigure()}
