"""`bfl policy leaderboard`: agents x scenarios on fixed seeds, kept by what each agent is made of."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bfl.errors import BflError
from bfl.experiments.figure_files import markdown_table
from bfl.policies.contestants import Contestant, Stable
from bfl.policies.evaluation import measure_score
from bfl.policies.scenarios import SEEDS, Scenario, scenario_key
from bfl.policies.scores import read_agent, read_score, write_score
from bfl.show.text import printable
from policy.agents import OPTIMUM
from policy.evaluation import Ratio, Score, half_width, ratio
from policy.world.state import Array

STANDING = (OPTIMUM, "a2c", "greedy-channel", "threshold", "all-offload", "all-local", "random")
"""Always on the board: the reference, ours and the simple rules"""
_EXPLAINED = (
    "Latency per device T/N in s, less is better, ± half of the 95 % interval of the mean; in brackets over the "
    f"{OPTIMUM} on the same states. The first column is the mean of these ratios, over the scenarios an agent serves."
)


@dataclass(frozen=True)
class BoardRequest:
    """What `bfl policy leaderboard` was asked."""

    agents: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    states: int
    """With each seed"""
    stable: Stable
    out: Path
    command: str


@dataclass(frozen=True)
class Standing:
    """An agent on the board: its scores by scenario, the states of all seeds one after the other."""

    agent: str
    scores: dict[str, Score]
    ratios: dict[str, Ratio]

    @property
    def overall(self) -> float:
        """The mean ratio to the near-optimum, over the scenarios it serves."""
        return float(np.mean([each.value for each in self.ratios.values()]))

    @property
    def decide_ms(self) -> float:
        """Milliseconds of a decision, the mean over scenarios."""
        return float(np.mean([score.decide_ms for score in self.scores.values()]))

    def text(self, scenario: str) -> str:
        """Latency and ratio in a scenario."""
        if scenario not in self.scores:
            return "-"
        score = self.scores[scenario]
        return f"{score.mean_s:.3f} ± {score.half_width_s:.3f} ({self.ratios[scenario].value:.3f})"


def make_leaderboard(request: BoardRequest, console: Console) -> list[Standing]:
    """Score who is missing; whoever was scored into OUT before stays on the board."""
    if request.states < 2:
        raise BflError(f"--states: found {request.states}, expected at least 2")
    points = request.out / "points"
    points.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys((*STANDING, *request.agents)):
        for scenario in request.scenarios:
            _score(request, name, scenario, console)
    board = read_board(points, request.scenarios, request.states)
    columns = [scenario.name for scenario in request.scenarios]
    title = f"{len(SEEDS)} seeds x {request.states} states in each scenario"
    table = Table("agent", "over the near-optimum", *columns, "ms a decision", title=title, title_justify="left")
    for each in board:
        table.add_row(*map(Text, map(printable, _cells(each, columns))))
    console.print(table)
    write_board(request.out, board, request, title)
    print(f"table: {request.out / 'leaderboard.md'}, leaderboard.csv")
    return board


def _cells(standing: Standing, columns: Sequence[str]) -> list[str]:
    served = "" if len(standing.scores) == len(columns) else f" (of {len(standing.scores)})"
    overall = f"{standing.overall:.3f}{served}"
    return [standing.agent, overall, *map(standing.text, columns), f"{standing.decide_ms:.2f}"]


def _score(request: BoardRequest, name: str, scenario: Scenario, console: Console) -> None:
    """The scores of an agent in a scenario, measured where they are not there; nothing if it does not serve it."""
    end, total = scenario_key(scenario, request.states), request.states * len(SEEDS)
    for number, each in enumerate(request.stable.contestants(name, scenario.world)):
        path = request.out / "points" / f"{each.key}--{end}.json"
        shown = name if number == 0 else f"{name}, seed {number}"
        if read_score(path, shown, scenario.world, total) is None:
            write_score(path, _measure(shown, each, scenario, request.states, console))
        else:
            path.touch()  # of two versions of an agent the one that was asked for last is on the board


def _measure(name: str, contestant: Contestant, scenario: Scenario, states: int, console: Console) -> Score:
    agent = contestant.make()
    found = [measure_score(f"{name}, {scenario.name}", agent, scenario.world, states, console, seed) for seed in SEEDS]
    return Score(
        name,
        scenario.world,
        np.concatenate([score.per_state_s for score in found]),
        float(np.mean([score.wall_s for score in found])),
        float(np.mean([score.decide_ms for score in found])),
    )


def read_board(points: Path, scenarios: Sequence[Scenario], states: int) -> list[Standing]:
    """Everybody who has scores in these scenarios, the best first; those that serve not all of them behind."""
    scores: dict[str, dict[str, Score]] = {}
    for scenario in scenarios:
        found = points.glob(f"*--{scenario_key(scenario, states)}.json")
        for path in sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name)):
            name = read_agent(path)
            score = read_score(path, name, scenario.world, states * len(SEEDS))
            if name and score:
                scores.setdefault(name, {})[scenario.name] = score
    best = scores.get(OPTIMUM, {})
    board = [
        Standing(name, own, {where: _ratio(score, best[where]) for where, score in own.items() if where in best})
        for name, own in scores.items()
    ]
    return sorted(board, key=lambda each: (-len(each.scores), each.overall))


def _ratio(score: Score, best: Score) -> Ratio:
    return ratio(score.per_state_s, best.per_state_s)


def write_board(out: Path, board: Sequence[Standing], request: BoardRequest, title: str) -> None:
    """leaderboard.md, and leaderboard.csv with one line for each agent, scenario and seed, `all` for all seeds."""
    columns = [scenario.name for scenario in request.scenarios]
    head = ["agent", "over the near-optimum", *columns, "ms a decision"]
    about = [[each.name, each.text] for each in request.scenarios]
    parts = [
        f"{title}. {_EXPLAINED} Made with `{request.command}`.",
        markdown_table(head, [_cells(each, columns) for each in board]),
        markdown_table(["scenario", "what it is"], about),
    ]
    (out / "leaderboard.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    with (out / "leaderboard.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = ["mean_s", "half_width_s", "over_optimum", "over_optimum_half_width", "wall_s", "decide_ms"]
        writer.writerow(["agent", "scenario", "seed", "states", *names])
        for each in board:
            for where, score in each.scores.items():
                over = each.ratios[where]
                numbers = [*_latency(score.per_state_s), f"{over.value:.5f}", f"{over.half_width:.5f}"]
                last = [f"{score.wall_s:.4f}", f"{score.decide_ms:.3f}"]
                writer.writerow([each.agent, where, "all", score.per_state_s.size, *numbers, *last])
                for seed, part in zip(SEEDS, np.split(score.per_state_s, len(SEEDS)), strict=True):
                    writer.writerow([each.agent, where, seed, part.size, *_latency(part), "", "", "", ""])


def _latency(values: Array) -> list[str]:
    return [f"{values.mean():.6f}", f"{half_width(values):.6f}"]
