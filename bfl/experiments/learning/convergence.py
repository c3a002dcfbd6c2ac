"""Convergence, measured: spectral radii, the divergence of real rounds, consensus errors against their bound."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bfl.experiments.context import ExperimentContext
from bfl.experiments.figure import Figure, FigureResult, TextTable
from bfl.experiments.images import ImageFigure, ImageSource
from bfl.experiments.learning.aggregates import real_aggregates
from bfl.experiments.learning.convergence_claims import convergence_claims
from bfl.experiments.learning.curves import PARTITIONS, SeedCurve, curve_over_seeds, divergence_of, seeds_text
from bfl.experiments.learning.mixing import SHOWN_STEPS, SIZES, WEIGHTED_GRAPHS, XIS, Key, MixingResult, error_bound
from bfl.experiments.learning.mixing_pictures import draw_convergence
from bfl.experiments.learning.trials import dataset_trial, run_trials

SHOWN_STEP = 5
"""Of the errors in the table"""
NOTES = (
    "λ is the spectral radius of Λ − 11ᵀ/M (Assumption 1) for the optimal constant weight of L9 and for the paper's "
    "largest d < 1/M, both on the grid of 1/4096 (P9).",
    "Ξ (Definition 1) is the largest distance between two servers' partial aggregates in a round, of runs with "
    "consensus (φ = 5, 3 servers in a line, planner fixed, no filter).",
    "Errors are those of the worst server, |M x_m(l) − Σ x_m(0)|, from real aggregates of the last round, mixed in the "
    "integers of P9. The bound is that of Theorem 1's proof, |c_m|² ≤ M λ^(2φ) Ξ², with L11's factor M: "
    "|c_m| ≤ M^(3/2) λ^l Ξ (term (d) of Theorem 1 then reads 24 M³ λ^(2φ) Ξ²). Errors stop falling near 1e-5, where "
    "rounding to 2^-24 in every step keeps them; a bound that is smaller says nothing about integers.",
    "φ of Corollary 1 is L16's, 1/2 [log_λ(ξ / (√K Ξ² M³))]⁺ and at least 1. Really needed are the steps until the "
    "error itself is √(ξ/√K), which is what the corollary wants. It may ask for too many: it knows Ξ alone.",
    "Left out: the average gradient norm that Theorem 1 bounds. It needs gradients of the whole data set in every "
    "round, and a smoothness constant β that a network with ReLU does not have.",
)
COLUMNS = ["figure", "quantity", "graph", "servers", "weights", "partition", "x", "value"]


@dataclass(frozen=True)
class ConvergenceFigure(ImageFigure):
    """Quantities of "Convergence Analysis"."""

    name: str = "convergence"
    images: ImageSource = ImageSource()

    def measure(self, context: ExperimentContext) -> FigureResult:
        """Run both partitions, take the last aggregates, and mix them on every graph."""
        images, budget = self.images.locate(), context.budget
        trials = {
            partition: [
                dataset_trial(images, "consensus-no-chain", partition, seed, budget.rounds)
                for seed in range(budget.seeds)
            ]
            for partition in PARTITIONS
        }
        lines = run_trials(context, self.name, [trial for some in trials.values() for trial in some])
        runs = {p: [lines[trial] for trial in some] for p, some in trials.items()}
        aggregates = {(p, m): real_aggregates(context, images, p, m) for p in PARTITIONS for m in SIZES}
        mixed = {
            (p, weighted): MixingResult.of(weighted, aggregates[p, weighted.servers], budget.rounds)
            for p in PARTITIONS
            for weighted in WEIGHTED_GRAPHS
        }
        spread = {p: curve_over_seeds(some, divergence_of) for p, some in runs.items()}
        title = f"Convergence quantities, {images.dataset}"

        def draw(path: Path) -> None:
            draw_convergence(path, f"{title}, {seeds_text(budget.seeds)}", spread, mixed, SHOWN_STEPS)

        verdicts = convergence_claims(runs, mixed)
        spent = f"{seeds_text(budget.seeds)}, {budget.rounds} rounds on {images.dataset}; "
        spent += f"aggregates of seed 0 in round {budget.defence_rounds}"
        csv = TextTable(COLUMNS, self._rows(spread, mixed))
        return FigureResult(self.name, title, [], _table(mixed), verdicts, list(NOTES), draw, csv, spent)

    def _rows(self, spread: Mapping[str, SeedCurve], mixed: Mapping[Key, MixingResult]) -> list[list[str]]:
        rows = [
            [self.name, "Xi", "line", "3", "optimal", partition, str(at), f"{value:.6g}"]
            for partition, each in spread.items()
            for at, value in zip(each.rounds, each.mean, strict=True)
        ]
        for (partition, weighted), found in mixed.items():
            where = [weighted.name, str(weighted.servers), weighted.rule]
            if partition == "iid":
                rows.append([self.name, "lambda", *where, "", "", f"{weighted.radius:.6g}"])
            numbers: dict[str, Mapping[Any, float | None]] = {
                "Xi of the aggregates": {"": found.xi},
                "consensus error": dict(enumerate(found.errors[: SHOWN_STEPS + 1])),
                "bound of the error": {step: error_bound(weighted, found.xi, step) for step in range(SHOWN_STEPS + 1)},
                "phi of Corollary 1, by xi": found.asked,
                "steps really needed, by xi": found.needed,
            }
            for what, values in numbers.items():
                rows += [
                    [self.name, what, *where, partition, str(x), f"{value:.6g}" if value is not None else ""]
                    for x, value in values.items()
                ]
        return rows


def _table(mixed: Mapping[Key, MixingResult]) -> TextTable:
    """One line for every graph, size and weight; errors and steps of IID / non-IID."""
    asked = [f"φ of Corollary 1 / really needed, ξ = {xi:g}, {shown}" for shown in PARTITIONS.values() for xi in XIS]
    header = ["graph", "M", "weights", "λ", "Ξ, IID / non-IID", f"error / bound at step {SHOWN_STEP}, non-IID", *asked]
    lines = []
    for weighted in WEIGHTED_GRAPHS:
        both = [mixed[partition, weighted] for partition in PARTITIONS]
        last = both[-1]
        lines.append(
            [
                weighted.name,
                str(weighted.servers),
                weighted.rule,
                f"{weighted.radius:.4f}",
                " / ".join(f"{found.xi:.4f}" for found in both),
                f"{last.errors[SHOWN_STEP]:.2e} / {error_bound(weighted, last.xi, SHOWN_STEP):.2e}",
                *(f"{found.asked[xi]} / {_number(found.needed[xi])}" for found in both for xi in XIS),
            ]
        )
    return TextTable(header, lines)


def _number(steps: int | None) -> str:
    return "more" if steps is None else str(steps)


FIGURES: dict[str, Figure] = {"convergence": ConvergenceFigure()}
