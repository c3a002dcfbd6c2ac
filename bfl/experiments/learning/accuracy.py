"""Figures of accuracy and loss over the rounds: the schemes, and the rounds of consensus."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bfl.experiments.context import Bench
from bfl.experiments.figure import ClaimVerdict, Figure, Result, Table
from bfl.experiments.images import Images, OnImages
from bfl.experiments.learning import accuracy_claims
from bfl.experiments.learning.accuracy_claims import Ends, Key
from bfl.experiments.learning.curves import PARTITIONS, Curve, accuracy, curve, end, loss, seeds_told, told
from bfl.experiments.learning.run_pictures import draw_accuracy
from bfl.experiments.learning.trials import Line, run_trials, trial_on

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
class Contestant:
    """A line of the figure."""

    label: str
    scheme: str
    phi: str = "5"
    weights: str = "optimal"


@dataclass(frozen=True)
class AccuracyFigure(OnImages):
    """Contestants learn from the same shares, IID and non-IID."""

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    claims: Callable[[Ends, Ends, str], list[ClaimVerdict]]
    notes: tuple[str, ...] = ()
    images: Images = Images()

    def measured(self, bench: Bench) -> Result:
        """Run every contestant with every seed on both partitions."""
        images, budget = self.images.found(), bench.budget
        trials = {
            (partition, each.label): [
                trial_on(images, each.scheme, partition, seed, budget.rounds, phi=each.phi, weights=each.weights)
                for seed in range(budget.seeds)
            ]
            for partition in PARTITIONS
            for each in self.contestants
        }
        lines = run_trials(bench, self.name, [trial for some in trials.values() for trial in some])
        runs = {key: [lines[trial] for trial in some] for key, some in trials.items()}
        ends = {what: {key: end(some, read) for key, some in runs.items()} for what, read in READ.items()}
        curves = {what: {key: curve(some, read) for key, some in runs.items()} for what, read in READ.items()}
        title = f"{self.title}, {images.dataset}"

        def draw(path: Path) -> None:
            draw_accuracy(path, f"{title}, {seeds_told(budget.seeds)}", curves)

        findings = self.claims(ends["accuracy (%)"], ends["loss"], images.dataset)
        csv = Table(COLUMNS, self._rows(curves, budget.seeds))
        spent = f"{seeds_told(budget.seeds)}, {budget.rounds} rounds on {images.dataset}"
        notes = [LIKE_WITH_LIKE, MEASURED, *self.notes]
        return Result(self.name, title, [], _table(ends, runs), findings, notes, draw, csv, spent)

    def _rows(self, curves: Mapping[str, Mapping[Key, Curve]], seeds: int) -> list[list[str]]:
        return [
            [self.name, *key, what, str(at), *(f"{value:.6g}" for value in values), str(seeds)]
            for what, some in curves.items()
            for key, each in some.items()
            for at, *values in zip(each.rounds, each.mean, each.low, each.high, strict=True)
        ]


def _table(ends: Mapping[str, Ends], runs: Mapping[Key, list[list[Line]]]) -> Table:
    labels = list(dict.fromkeys(label for _, label in runs))
    header = ["line", *(f"{what}, {shown}" for what in READ for shown in PARTITIONS.values())]
    lines = [
        [
            label,
            *(
                told(ends[what][partition, label], 3 if what == "loss" else 2)
                for what in READ
                for partition in PARTITIONS
            ),
        ]
        for label in labels
    ]
    return Table(header, lines)


_SCHEMES = (
    Contestant(accuracy_claims.OURS, "bfl"),
    Contestant(accuracy_claims.ALONE, "no-consensus-no-chain"),
    Contestant(accuracy_claims.TRADITIONAL, "traditional"),
    Contestant("FedAvg, one server (our reference)", "fedavg"),
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
            _SCHEME_NOTES, Images("svhn"),
        ),
        AccuracyFigure(
            "consensus-accuracy",
            "Accuracy and loss with different rounds of consensus",
            (
                *(
                    Contestant(accuracy_claims.steps_label(phi), "consensus-no-chain", str(phi), "paper")
                    for phi in accuracy_claims.STEPS
                ),
                Contestant("φ = 5, optimal weights (ours)", "consensus-no-chain"),
            ),
            accuracy_claims.consensus_claims,
            (
                "The paper's lines have the paper's weights, the largest d < 1/M; the last line has the optimal d of "
                "L9, the default. The chain is left out: gossip is the same arithmetic with and without it (P9).",
            ),
        ),
    )
}  # fmt: skip
