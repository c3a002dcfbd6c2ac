"""What reputation costs honest devices, and what it brings against attackers.

    python -m benchmarks.reputation honest [--filters krum krum:1] [--rounds 300] [--seeds 0 1]
    python -m benchmarks.reputation attacked --filters krum --reputation 8 --window 20 --absence 10 [--rounds 30]

honest: nobody attacks. One run per filter, partition and seed, in which everything is noted and nobody is set aside;
the rules R3-R7 are then folded over its rounds for each pair of strikes and window. Without the effect that one absence
has on the next, that is what each pair would do. Of each: the share of its rounds that the WORST device is set aside,
and the mean of all. The goal is 2 % for the worst. `filtered` is the floor: how often the filter takes out a gradient.

attacked: runs with devices 3 and 7 of ten attacking throughout, with and without reputation, beside the same run in
which nobody attacks. Accuracy is that of the last five evaluations, in percent; then the shares of their rounds that
attackers and the worst honest device are set aside.

No chain: the rules are the same without one, and a run is quicker.
"""

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bfl.config import RunSettings, read_settings
from bfl.simulation import run as simulation
from edge_servers.learning.reputation import JudgedRound, Reputation, ReputationTerms, after
from edge_servers.report import RoundReport

GRID = ((3, 20), (4, 20), (6, 20), (8, 20), (10, 20), (12, 20), (15, 20), (18, 20))
"""Strikes and window"""
ABSENCE, SERVERS, DEVICES = 10, 3, 10
NEVER = 1_000_000
ATTACKERS = (3, 7)
ATTACKS = ("sign-flip@all:device=3+7,strength=4", "sign-flip@all:device=3+7", "label-flip@all:device=3+7",
           "noise@all:device=3+7,strength=30")  # fmt: skip
_FLAGS = {"scheme": "consensus-no-chain", "edges": SERVERS, "devices": DEVICES}


def settings_of(**flags: Any) -> RunSettings:
    """The defaults of a simulation, but for these."""
    return read_settings(None, flags={key.replace("_", "-"): value for key, value in {**_FLAGS, **flags}.items()})


def reports_of(settings: RunSettings) -> list[RoundReport]:
    """A whole run, in a folder that goes."""
    found: list[RoundReport] = []
    with tempfile.TemporaryDirectory() as folder:
        simulation.run(simulation.start(settings, Path(folder) / "run"), found.append)
    return found


# --- honest


def honest_rounds(filter_: str, partition: str, seed: int, rounds: int) -> list[JudgedRound]:
    """What the filter says of honest devices, round by round."""
    flags = {"filter": filter_, "partition": partition, "seed": seed, "rounds": rounds, "evaluate_every": 0}
    reports = reports_of(settings_of(**flags, reputation=NEVER, reputation_window=NEVER))
    return [JudgedRound(each.round, each.leader, each.standing.filtered) for each in reports if each.standing]


def shares_aside(judged: Iterable[JudgedRound], terms: ReputationTerms) -> list[float]:
    """Of its rounds, the share in which each device would have been set aside."""
    known, aside, rounds = Reputation(), Counter[int](), 0
    for each in judged:
        away = known.aside(each.round)
        aside.update(away)
        there = tuple(n for n in each.filtered if n not in away)
        known = after(known, JudgedRound(each.round, each.leader, there), terms, DEVICES)
        rounds += 1
    return [aside[n] / rounds for n in range(DEVICES)]


def honest(filters: Sequence[str], partitions: Sequence[str], seeds: Sequence[int], rounds: int) -> Table:
    """The worst device and the mean of all, by filter and partition, for each pair of strikes and window."""
    table = Table(title=f"honest devices set aside, % of their {rounds} rounds: worst (mean), {len(seeds)} seeds")
    for column in ("filter", "data", "filtered", *(f"{k} in {w}" for k, w in GRID)):
        table.add_column(column)
    for filter_ in filters:
        for partition in partitions:
            runs = [honest_rounds(filter_, partition, seed, rounds) for seed in seeds]
            often = [[sum(n in each.filtered for each in run) / rounds for n in range(DEVICES)] for run in runs]
            cells = [_worst(often)]
            for k, window in GRID:
                terms = ReputationTerms(k, window, ABSENCE, SERVERS)
                cells.append(_worst([shares_aside(run, terms) for run in runs]))
            table.add_row(filter_, partition, *cells)
    return table


def _worst(shares: Sequence[Sequence[float]]) -> str:
    every = [share for run in shares for share in run]
    return f"{100 * max(every):.1f} ({100 * statistics.mean(every):.1f})"


# --- attacked


def attacked(
    filter_: str, terms: ReputationTerms, partitions: Sequence[str], seeds: Sequence[int], rounds: int
) -> Table:
    """Accuracy with and without reputation; who was set aside."""
    title = (
        f"devices 3 and 7 attack, {filter_}, {terms.filtered} in {terms.window}, {rounds} rounds, {len(seeds)} seeds"
    )
    table = Table(title=title)
    for column in ("data", "attack", "nobody attacks", "without", "with", "gain", "attackers aside", "honest aside"):
        table.add_column(column)
    for partition in partitions:
        base = {"filter": filter_, "partition": partition, "rounds": rounds}
        calm = _mean_accuracy([reports_of(settings_of(**base, seed=seed)) for seed in seeds])
        for attack in ATTACKS:
            flags = {**base, "attack": attack}
            without = _mean_accuracy([reports_of(settings_of(**flags, seed=seed)) for seed in seeds])
            on = {"reputation": terms.filtered, "reputation_window": terms.window, "reputation_rounds": terms.rounds}
            runs = [reports_of(settings_of(**flags, **on, seed=seed)) for seed in seeds]
            with_ = _mean_accuracy(runs)
            bad, good = _aside(runs)
            table.add_row(
                partition, attack.replace(":device=3+7", "").replace("@all", ""), f"{calm:.1f}", f"{without:.1f}",
                f"{with_:.1f}", f"{with_ - without:+.1f}", f"{bad:.0f} %", f"{good:.1f} %",
            )  # fmt: skip
    return table


def _mean_accuracy(runs: Sequence[Sequence[RoundReport]]) -> float:
    last = [[each.scores.accuracy for each in run if each.scores][-5:] for run in runs]
    return 100 * statistics.mean(accuracy for run in last for accuracy in run)


def _aside(runs: Sequence[Sequence[RoundReport]]) -> tuple[float, float]:
    """Percent of their rounds: the mean of the attackers, and the worst of the honest."""
    bad, good = [], []
    for run in runs:
        aside = Counter(one.device for each in run if each.standing for one in each.standing.aside)
        bad += [100 * aside[n] / len(run) for n in ATTACKERS]
        good += [100 * aside[n] / len(run) for n in range(DEVICES) if n not in ATTACKERS]
    return statistics.mean(bad), max(good)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("honest", "attacked"))
    parser.add_argument("--filters", nargs="+", default=["krum"])
    parser.add_argument("--partitions", nargs="+", default=["iid", "non-iid"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--reputation", type=int, default=8)
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--absence", type=int, default=ABSENCE)
    asked = parser.parse_args()
    console = Console(width=160)
    if asked.what == "honest":
        console.print(honest(asked.filters, asked.partitions, asked.seeds, asked.rounds))
        return
    terms = ReputationTerms(asked.reputation, asked.window, asked.absence, SERVERS)
    for filter_ in asked.filters:
        console.print(attacked(filter_, terms, asked.partitions, asked.seeds, asked.rounds))


if __name__ == "__main__":
    main()
