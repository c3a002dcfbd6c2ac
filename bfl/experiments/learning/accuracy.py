"""Figures of accuracy and loss over the rounds: the schemes, and the rounds of consensus."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bfl.experiments.context import ExperimentContext
from bfl.experiments.figure import ClaimVerdict, Figure, FigureResult, TextTable
from bfl.experiments.images import ImageFigure, ImageSource
from bfl.experiments.learning import accuracy_claims
from bfl.experiments.learning.accuracy_claims import Ends, Key
from bfl.experiments.learning.curves import (
    PARTITIONS,
    SeedCurve,
    accuracy,
    curve_over_seeds,
    estimate_text,
    final_mean,
    loss,
    seeds_text,
)
from bfl.experiments.learning.run_pictures import draw_accuracy
from bfl.experiments.learning.trials import RoundRecord, dataset_trial, run_trials

READ = {"accuracy (%)": accuracy, "loss": loss}
COLUMNS = ["figure", "partition", "line", "quantity", "round", "mean", "low", "high", "seeds"]
LIKE_WITH_LIKE = (
    "Like with like: all lines share the seeds (shares, first model, mini-batches), whole shares in every round, "
    "devices 0, 4, 5 offload (planner fixed), no filter, SGD 0.1, batch 25, 10 iterations, 3 servers in a line. The "
    "trained offloading policy and the default filter are left out: what they do differs from scheme to scheme."
)
MEASURED = (
    "Accuracy and loss are means of the last five evaluations on the test set; ± is the larger of the 95 % interval "
    "over these five and half of the spread between the seeds. Gaps are taken seed by seed. Bands span the seeds. "
    "Of one seed ± is the noise of the evaluations alone: another seed may well lie outside."
)


@dataclass(frozen=True)
class SchemeLine:
    """One curve of the figure: a scheme with its consensus steps and weights."""

    label: str
    scheme: str
    phi: str = "5"
    weights: str = "optimal"


@dataclass(frozen=True)
class AccuracyFigure(ImageFigure):
    """Accuracy and loss of several schemes that learn from the same shares, IID and non-IID."""

    name: str
    title: str
    schemes: tuple[SchemeLine, ...]
    claims: Callable[[Ends, Ends, str], list[ClaimVerdict]]
    notes: tuple[str, ...] = ()
    images: ImageSource = ImageSource()

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Run every scheme with every seed on both partitions."""
        images, budget = self.images.locate(), context.budget
        trials = {
            (partition, each.label): [
                dataset_trial(images, each.scheme, partition, seed, budget.rounds, phi=each.phi, weights=each.weights)
                for seed in range(budget.seeds)
            ]
            for partition in PARTITIONS
            for each in self.schemes
        }
        lines = run_trials(context, self.name, [trial for some in trials.values() for trial in some])
        runs = {key: [lines[trial] for trial in some] for key, some in trials.items()}
        ends = {what: {key: final_mean(some, read) for key, some in runs.items()} for what, read in READ.items()}
        curves = {
            what: {key: curve_over_seeds(some, read) for key, some in runs.items()} for what, read in READ.items()
        }
        title = f"{self.title}, {images.dataset}"

        def draw(path: Path) -> None:
            draw_accuracy(path, f"{title}, {seeds_text(budget.seeds)}", curves)

        verdicts = self.claims(ends["accuracy (%)"], ends["loss"], images.dataset)
        csv = TextTable(COLUMNS, self._rows(curves, budget.seeds))
        spent = f"{seeds_text(budget.seeds)}, {budget.rounds} rounds on {images.dataset}"
        notes = [LIKE_WITH_LIKE, MEASURED, *self.notes]
        return FigureResult(self.name, title, [], _table(ends, runs), verdicts, notes, draw, csv, spent)

    def _rows(self, curves: Mapping[str, Mapping[Key, SeedCurve]], seeds: int) -> list[list[str]]:
        return [
            [self.name, *key, what, str(at), *(f"{value:.6g}" for value in values), str(seeds)]
            for what, some in curves.items()
            for key, each in some.items()
            for at, *values in zip(each.rounds, each.mean, each.low, each.high, strict=True)
        ]


def _table(ends: Mapping[str, Ends], runs: Mapping[Key, list[list[RoundRecord]]]) -> TextTable:
    labels = list(dict.fromkeys(label for _, label in runs))
    header = ["line", *(f"{what}, {shown}" for what in READ for shown in PARTITIONS.values())]
    lines = [
        [
            label,
            *(
                estimate_text(ends[what][partition, label], 3 if what == "loss" else 2)
                for what in READ
                for partition in PARTITIONS
            ),
        ]
        for label in labels
    ]
    return TextTable(header, lines)


_SCHEMES = (
    SchemeLine(accuracy_claims.OURS, "bfl"),
    SchemeLine(accuracy_claims.ALONE, "no-consensus-no-chain"),
    SchemeLine(accuracy_claims.TRADITIONAL, "traditional"),
    SchemeLine("FedAvg, one server (our reference)", "fedavg"),
)
_SCHEME_NOTES = (
    "bfl runs on the chain: every gradient, iterate and model is posted, replayed and sealed. No consensus is the "
    "leader's own cluster average (L15), with a leader drawn anew every round; traditional is one model per server, "
    "their accuracies averaged; FedAvg is the exact mean over all training nodes, which perfect consensus gives.",
)
FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        AccuracyFigure(
            "accuracy", "Accuracy and loss of the schemes", _SCHEMES, accuracy_claims.scheme_claims, _SCHEME_NOTES
        ),
        AccuracyFigure(
            "accuracy-svhn", "Accuracy and loss of the schemes", _SCHEMES, accuracy_claims.scheme_claims,
            _SCHEME_NOTES, ImageSource("svhn"),
        ),
        AccuracyFigure(
            "consensus-accuracy",
            "Accuracy and loss with different rounds of consensus",
            (
                *(
                    SchemeLine(accuracy_claims.steps_label(phi), "consensus-no-chain", str(phi), "paper")
                    for phi in accuracy_claims.STEPS
                ),
                SchemeLine("φ = 5, optimal weights (ours)", "consensus-no-chain"),
            ),
            accuracy_claims.consensus_claims,
            (
                "The paper's lines have the paper's weights, the largest d < 1/M; the last line has the optimal d of "
                "L9, the default. The chain is left out: gossip is the same arithmetic with and without it (P9).",
            ),
        ),
    )
}  # fmt: skip
