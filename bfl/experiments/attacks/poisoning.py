"""The paper's attack: a server adds noise to its iterate at consensus step 3 of two rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bfl.experiments.attacks.attacked_schemes import REFERENCE, SERVERS, SIDES, SIGMA, STEP, VICTIM, Side
from bfl.experiments.attacks.poisoning_claims import Drops, Named, attack_claims
from bfl.experiments.context import Bench
from bfl.experiments.figure import Figure, Result, Table
from bfl.experiments.images import Images, OnImages
from bfl.experiments.learning.curves import PARTITIONS, Curve, accuracy, curve, drop, over_seeds, seeds_told, told
from bfl.experiments.learning.run_pictures import draw_attack
from bfl.experiments.learning.trials import Line, Trial, run_trials, trial_on

COLUMNS = ["figure", "partition", "scheme", "quantity", "round", "mean", "low", "high", "seeds"]
NOTES = (
    f"Noise of standard deviation σ = η b M ϖ = {SIGMA:g} in the model (the paper does not give its ϖ; this is "
    f"our specification's). With consensus, server {VICTIM}, the middle of the line, adds "
    f"it to its iterate of step {STEP} of 5.",
    "A drop is the accuracy of the honest run of the same seed in that round less that of the attacked run: the two "
    "are the same run up to the round before, which is checked. The second round's drop is that of a run attacked in "
    "that round only, for after the first attack the runs have parted.",
    f"No consensus: the leader of that round is attacked, and its drop weighed with 1/{SERVERS}, the chance that an "
    "attacked server leads. Its curve shows the case that it does.",
    f"Traditional FL: the aggregator is attacked, as in the paper. Here that is all {SERVERS} servers, each with noise "
    f"of its own, for a device knows only its own; one attacked server of {SERVERS} would cost the mean a third.",
    "Ours: replay finds the wrong iterate before a model is made of it, everybody goes on with the right one (P14), "
    "and the server is excluded for ten rounds. If it would have led, the next in rank leads, from an iterate of its "
    "own. The paper leaves the server out instead, which costs accuracy.",
    "Thin dashed lines are the honest runs. Runs as in the figure `accuracy`: planner fixed, no filter.",
)


@dataclass(frozen=True)
class Trio:
    """The runs of one seed: honest, attacked twice, and attacked in the second round only."""

    honest: Trial
    twice: Trial
    late: Trial


@dataclass(frozen=True)
class AttackFigure(OnImages):
    """Four schemes under the same attack."""

    name: str
    title: str
    images: Images = Images()

    def measured(self, bench: Bench) -> Result:
        """Run every scheme honestly and attacked."""
        images, budget = self.images.found(), bench.budget
        trios = {
            (partition, side.label): [_trio(images, side, partition, seed, bench) for seed in range(budget.seeds)]
            for partition in PARTITIONS
            for side in SIDES
        }
        every = [trial for some in trios.values() for t in some for trial in (t.honest, t.twice, t.late)]
        lines = run_trials(bench, self.name, every)
        drops = _drops(trios, lines, budget.attack_rounds)
        named = [_named(trio, lines, budget.attack_rounds) for p in PARTITIONS for trio in trios[p, SIDES[0].label]]
        curves = {
            kind: {key: curve([lines[getattr(t, kind)] for t in some], accuracy) for key, some in trios.items()}
            for kind in ("twice", "honest")
        }
        title = f"Accuracy under model poisoning, {images.dataset}"

        def draw(path: Path) -> None:
            shown = {side.label: side.paper.get(images.dataset) for side in SIDES}
            draw_attack(path, f"{title}, {seeds_told(budget.seeds)}", curves, drops, shown, budget.attack_rounds)

        findings = attack_claims(drops, named, images.dataset)
        spent = f"{seeds_told(budget.seeds)}, {budget.rounds} rounds on {images.dataset}, "
        spent += f"attacked in rounds {budget.attack_rounds[0]} and {budget.attack_rounds[1]}"
        csv = Table(COLUMNS, self._rows(curves, drops, budget.seeds))
        table = _table(drops, images.dataset)
        return Result(self.name, title, [], table, findings, list(NOTES), draw, csv, spent)

    def _rows(self, curves: Mapping[str, Mapping[tuple[str, str], Curve]], drops: Drops, seeds: int) -> list[list[str]]:
        rows = []
        for kind, some in curves.items():
            what = "accuracy (%), " + ("attacked" if kind == "twice" else "honest")
            for key, each in some.items():
                for at, *values in zip(each.rounds, each.mean, each.low, each.high, strict=True):
                    rows.append([self.name, *key, what, str(at), *(f"{value:.6g}" for value in values), str(seeds)])
        for (partition, label, at), found in drops.items():
            values = [found.mean, found.mean - found.half_width, found.mean + found.half_width]
            what = "drop (points)"
            rows.append([self.name, partition, label, what, str(at), *(f"{v:.6g}" for v in values), str(seeds)])
        return rows


def _trio(images: Images, side: Side, partition: str, seed: int, bench: Bench) -> Trio:
    rounds, (first, second) = bench.budget.rounds, bench.budget.attack_rounds
    return Trio(
        trial_on(images, side.scheme, partition, seed, rounds),
        trial_on(images, side.scheme, partition, seed, rounds, attack=side.attack(f"{first},{second}")),
        trial_on(images, side.scheme, partition, seed, second, attack=side.attack(f"{second}"), evaluate_every=0),
    )


def _drops(
    trios: Mapping[tuple[str, str], Sequence[Trio]], lines: Mapping[Trial, Sequence[Line]], rounds: tuple[int, int]
) -> Drops:
    """By partition, scheme and round."""
    weights = {side.label: side.weight for side in SIDES}
    found = {}
    for (partition, label), some in trios.items():
        for at, kind in zip(rounds, ("twice", "late"), strict=True):
            values = [weights[label] * drop(lines[t.honest], lines[getattr(t, kind)], at) for t in some]
            found[partition, label, at] = over_seeds(values)
    return found


def _named(trio: Trio, lines: Mapping[Trial, Sequence[Line]], rounds: tuple[int, int]) -> Named:
    """Who was accused in the runs of one seed on the chain."""
    attacks = [(trio.twice, rounds[0]), (trio.late, rounds[1])]
    if VICTIM not in lines[trio.twice][rounds[1] - 2]["excluded"]:  # an excluded server posts nothing, so it cannot lie
        attacks.append((trio.twice, rounds[1]))
    culprit = f"server {VICTIM}"
    right = false = 0
    for trial in (trio.honest, trio.twice, trio.late):
        for line in lines[trial]:
            who = [(each["offender"], each["step"]) for each in line["offences"]]
            is_attacked = (trial, line["round"]) in attacks
            right += is_attacked and bool(who) and min(step for _, step in who) == STEP and who[0][0] == culprit
            false += sum(not is_attacked or offender != culprit for offender, _ in who)
    honest = sum(len(lines[trial]) for trial in (trio.honest, trio.twice, trio.late)) - len(attacks)
    drops = [
        (drop(lines[trio.honest], lines[trial], at), lines[trio.honest][at - 1]["leader"] == VICTIM)
        for trial, at in attacks[:2]
    ]
    led, followed = (tuple(value for value, is_led in drops if is_led == wanted) for wanted in (True, False))
    return Named(right, len(attacks), false, honest, followed, led)


def _table(drops: Drops, dataset: str) -> Table:
    rounds = list(dict.fromkeys(at for _, _, at in drops))
    header = ["drop in points", *(f"{shown}, round {at}" for shown in PARTITIONS.values() for at in rounds)]
    header += [f"paper, IID, {dataset}", "reference of our spec, IID, fashion-mnist"]
    return Table(
        header,
        [
            [
                side.label,
                *(told(drops[p, side.label, at]) for p in PARTITIONS for at in rounds),
                f"{side.paper[dataset]:g}" if dataset in side.paper else "-",
                f"{REFERENCE[side.scheme]:g}",
            ]
            for side in SIDES
        ],
    )


FIGURES: dict[str, Figure] = {
    "attack": AttackFigure("attack", "Accuracy under model poisoning"),
    "attack-svhn": AttackFigure("attack-svhn", "Accuracy under model poisoning", Images("svhn")),
}
