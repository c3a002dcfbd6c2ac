"""What a deadline costs: accuracy and simulated latency against how long servers wait for devices of unequal speed.

    python -m benchmarks.deadline [--rounds 15] [--seeds 0-2] [--out runs/deadline]

Fashion-MNIST in non-IID shares (whoever is left out takes labels with it), ten devices of which every
third has a CPU twenty times slower, three edge servers that gossip, without a chain, which makes the same models. Each
deadline with a planner that lets everybody train, and with the trained one, which sends data of slow devices to
servers. Writes deadline.csv, one line per run, and two pictures; prints the table of docs/devices.md.
"""

import argparse
import csv
import json
import shutil
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path

from bfl.config import read_settings
from bfl.experiments.figure_files import markdown_table
from bfl.show.plots import plot_lines
from bfl.simulation import run as simulation
from edge_servers.report import RoundReport

DEADLINES_S = (0.5, 2.0, 5.0, 600.0)
PLANNERS = ("all-local", "a2c")
TARGET = 0.5
"""Accuracy whose time is told"""
GROUND: dict[str, object] = {
    "scheme": "consensus-no-chain", "partition": "non-iid", "device-speeds": "1,1,0.05", "threads": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One run."""

    planner: str
    deadline_s: float
    seed: int
    accuracy: float
    """Mean of the last five rounds."""
    late: float
    """Devices that missed a round, on average."""
    wall_s: float
    """T_wall of a round under `real`, on average."""
    until_target_s: float
    """Simulated seconds until the accuracy was reached for the first time; infinite where it never was."""


def ignore(report: RoundReport) -> None:
    """Nobody watches."""


def outcome(planner: str, deadline_s: float, seed: int, rounds: int, folder: Path) -> Outcome:
    """Run it, and take its numbers from its metrics."""
    flags = {**GROUND, "planner": planner, "deadline-s": deadline_s, "seed": seed, "rounds": rounds}
    simulation.run(simulation.start(read_settings(flags=flags), folder), ignore)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    walls = [line["latency"]["real"]["T_wall"] for line in lines]
    reached = next((k for k, line in enumerate(lines, 1) if line["accuracy"] >= TARGET), None)
    return Outcome(
        planner, deadline_s, seed,
        statistics.mean(line["accuracy"] for line in lines[-5:]),
        statistics.mean(line["latency"]["real"]["n_late"] for line in lines),
        statistics.mean(walls),
        float("inf") if reached is None else sum(walls[:reached]),
    )  # fmt: skip


def table(found: Sequence[Outcome]) -> str:
    """Means over the seeds, the spread of the accuracy beside it."""
    header = ("planner", "deadline, s", "late of 10", "accuracy, %", "T_wall, s a round", f"s until {TARGET:.0%}")
    lines = []
    for planner, deadline_s, group in grouped(found):
        accuracies = [100 * each.accuracy for each in group]
        spread = statistics.stdev(accuracies) if len(group) > 1 else 0.0
        untils = [each.until_target_s for each in group]
        reached = [each for each in untils if each != float("inf")]
        until = (
            f"{statistics.mean(reached):.1f}" if len(reached) == len(untils) else f"in {len(reached)} of {len(untils)}"
        )
        lines.append((
            planner, f"{deadline_s:g}", f"{statistics.mean(each.late for each in group):.1f}",
            f"{statistics.mean(accuracies):.1f} ± {spread:.1f}",
            f"{statistics.mean(each.wall_s for each in group):.2f}", until,
        ))  # fmt: skip
    return markdown_table(header, lines)


def grouped(found: Sequence[Outcome]) -> Iterator[tuple[str, float, list[Outcome]]]:
    """The runs of each planner and deadline."""
    for planner in dict.fromkeys(each.planner for each in found):
        mine = [each for each in found if each.planner == planner]
        for deadline_s in dict.fromkeys(each.deadline_s for each in mine):
            yield planner, deadline_s, [each for each in mine if each.deadline_s == deadline_s]


def draw(found: Sequence[Outcome], out: Path) -> None:
    """Accuracy and latency of a round against the deadline; 600 s, which nobody misses, stands at the right."""
    accuracy: dict[str, list[tuple[float, float]]] = {}
    wall: dict[str, list[tuple[float, float]]] = {}
    for planner, deadline_s, group in grouped(found):
        at = min(deadline_s, 2 * DEADLINES_S[-2])
        accuracy.setdefault(planner, []).append((at, statistics.mean(100 * each.accuracy for each in group)))
        wall.setdefault(planner, []).append((at, statistics.mean(each.wall_s for each in group)))
    label, seeds = "deadline (s); the last point: 600", len({each.seed for each in found})
    told = f"one CPU in three 20 x slower, {seeds} seeds"
    plot_lines(accuracy, label, "accuracy (%)", f"Accuracy against the deadline, {told}", out / "accuracy.png")
    plot_lines(wall, label, "T_wall of a round (s)", f"Latency against the deadline, {told}", out / "latency.png")


def main() -> None:
    """All runs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seeds", default="0-2", help="first-last")
    parser.add_argument("--out", type=Path, default=Path("runs/deadline"))
    asked = parser.parse_args()
    first, _, last = asked.seeds.partition("-")
    asked.out.mkdir(parents=True, exist_ok=True)
    found: list[Outcome] = []
    seeds = range(int(first), int(last or first) + 1)
    for seed, planner, deadline_s in product(seeds, PLANNERS, DEADLINES_S):
        folder = asked.out / f"{planner}-{deadline_s:g}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        found.append(outcome(planner, deadline_s, seed, asked.rounds, folder))
        print(found[-1], flush=True)
    with (asked.out / "deadline.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)])
        writer.writeheader()
        writer.writerows(map(asdict, found))
    draw(found, asked.out)
    print(table(found))


if __name__ == "__main__":
    main()
