"""`bfl policy evaluate`: agents on the same fresh states, beside the near-optimum."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bfl.errors import BflError
from bfl.policy_comparison import shelved
from bfl.policy_tables import Row, latency_table, ratio_table, write_csv, write_page, write_picture
from bfl.watch import Watch
from policy.agents import LEARNERS, OPTIMUM, OURS, SEARCHES, Agent, fixed_agent, policy_agent
from policy.evaluation import Score, evaluated
from policy.parameters import LatencyParams
from policy.shelf import Shelf

ONE_WORLD = ("a2c-paper",)
"""Agents whose networks serve the number of devices they were trained for"""


@dataclass(frozen=True)
class Question:
    """What is evaluated, in which worlds."""

    weights: tuple[Path, ...]
    devices: tuple[int, ...]
    servers: int
    channels: int
    states: int
    agents: tuple[str, ...]
    shelf: Path
    effort: float
    seeds: int
    out: Path
    command: str

    def world(self, devices: int) -> LatencyParams:
        """A world with so many devices."""
        return LatencyParams(devices=devices, servers=self.servers, channels=self.channels)

    @property
    def title(self) -> str:
        """What the tables are about."""
        return f"{self.states:,} fresh states, M = {self.servers}, G = {self.channels}"


def evaluate_agents(question: Question, console: Console) -> list[Row]:
    """Evaluate one agent after the other; what is known is in the CSV file after each."""
    _check(question)
    question.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in sorted(question.agents, key=lambda name: name != OPTIMUM):  # the yardstick first
        worlds = [n for n in question.devices if name not in ONE_WORLD or n == LEARNERS[name].devices[0]]
        if not worlds:
            print(f"{name}: serves N = {LEARNERS[name].devices[0]} only, left out")
            continue
        rows.append(_row(question, name, worlds, console))
        yardstick = rows[0] if rows[0].agent == OPTIMUM else None
        write_csv(question.out / "evaluation.csv", rows, yardstick)
    console.print(latency_table(rows, question.devices, question.title))
    if yardstick:
        console.print(ratio_table(rows, yardstick, question.devices))
    write_page(question.out / "evaluation.md", rows, yardstick, question.devices, question.title, question.command)
    drawn = write_picture(question.out / "evaluation.png", rows, question.title) if len(question.devices) > 1 else ""
    print(f"table: {question.out / 'evaluation.csv'}, evaluation.md{drawn}")
    return rows


def _check(question: Question) -> None:
    if question.states < 2 or question.effort <= 0 or question.seeds < 1:
        raise BflError("expected --states of at least 2, --seeds of at least 1 and --effort above 0")
    for path in question.weights:
        policy_agent(path)  # what cannot be read is refused before anything is computed
    for devices in question.devices:
        question.world(devices)


def _row(question: Question, name: str, worlds: list[int], console: Console) -> Row:
    seeds = _agents(question, name, console)
    scores: dict[int, list[Score]] = {}
    total = len(worlds) * len(seeds) * question.states
    with Watch(console).part(f"evaluate {name}") as told:
        done = 0

        def hear(states: int) -> None:
            nonlocal done
            done += states
            told(done / total, f"{done:,} of {total:,} states")

        for devices in worlds:
            world = question.world(devices)
            scores[devices] = [evaluated(name, agent, world, question.states, told=hear) for agent in seeds]
    return Row(name, scores)


def _agents(question: Question, name: str, console: Console) -> list[Agent]:
    """An agent for each training seed there is."""
    if name == OURS or name in SEARCHES:
        made = SEARCHES.get(name, policy_agent)
        return [made(path) for path in question.weights] if question.weights else [made()]
    fixed = fixed_agent(name)
    if fixed:
        return [fixed]
    world = LatencyParams(servers=question.servers, channels=question.channels)
    shelf = Shelf(question.shelf, world, question.effort)
    return [shelved(shelf, name, seed, console)[0] for seed in range(question.seeds)]
