"""`bfl policy evaluate`: agents on the same fresh states, beside the near-optimum."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from rich.console import Console

from bfl.errors import BflError
from bfl.policies.comparison import cached_agent
from bfl.policies.scores import read_score, write_score
from bfl.policies.tables import AgentRow, latency_table, ratio_table, write_csv, write_page, write_picture
from bfl.show.task_display import Watch
from policy.actor.weights import SHIPPED
from policy.agents import LEARNERS, OPTIMUM, OURS, SEARCHES, Agent, fixed_agent, policy_agent
from policy.cache import AgentCache
from policy.evaluation import Score, evaluate_agent
from policy.parameters import LatencyParams

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
    cache: Path
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


def evaluate_agents(question: Question, console: Console) -> list[AgentRow]:
    """Evaluate one agent after the other; finished scores are kept in OUT/points, the CSV file grows with each."""
    _check(question)
    question.out.mkdir(parents=True, exist_ok=True)
    rows: list[AgentRow] = []
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


def _row(question: Question, name: str, worlds: list[int], console: Console) -> AgentRow:
    scores: dict[int, list[Score]] = {n: [] for n in worlds}
    for key, make in _contenders(question, name, console).items():
        for devices in worlds:
            path = question.out / "points" / f"{key}-M{question.servers}-G{question.channels}-N{devices}.json"
            score = read_score(path, name, question.world(devices), question.states)
            if score is None:
                score = _measured(question, name, make(), devices, console)
                write_score(path, score)
            scores[devices].append(score)
    return AgentRow(name, scores)


def _measured(question: Question, name: str, agent: Agent, devices: int, console: Console) -> Score:
    with Watch(console).part(f"evaluate {name}, N = {devices}") as told:
        done = 0

        def hear(states: int) -> None:
            nonlocal done
            done += states
            told(done / question.states, f"{done:,} of {question.states:,} states")

        return evaluate_agent(name, agent, question.world(devices), question.states, on_progress=hear)


def _contenders(question: Question, name: str, console: Console) -> dict[str, Callable[[], Agent]]:
    """An agent for each training seed there is, by a key that changes with what it is made of."""
    if name == OURS or name in SEARCHES:
        made = SEARCHES.get(name, policy_agent)
        paths = question.weights or (SHIPPED,)
        return {f"{name}-{sha256(path.read_bytes()).hexdigest()[:12]}": partial(made, path) for path in paths}
    fixed = fixed_agent(name)
    if fixed:
        return {name: lambda: fixed}
    world = LatencyParams(servers=question.servers, channels=question.channels)
    cache = AgentCache(question.cache, world, question.effort)
    return {
        cache.key(name, seed): lambda seed=seed: cached_agent(cache, name, seed, console)[0]  # type: ignore[misc]
        for seed in range(question.seeds)
    }
