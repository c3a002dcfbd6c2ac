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
from bfl.show.task_display import TaskDisplay
from policy.actor.weights import SHIPPED
from policy.agents import LEARNERS, OPTIMUM, OURS, SEARCHES, Agent, fixed_agent, policy_agent
from policy.cache import AgentCache
from policy.evaluation import Score, evaluate_agent
from policy.parameters import LatencyParams

ONE_WORLD = ("a2c-paper",)
"""Agents whose networks serve the number of devices they were trained for"""


@dataclass(frozen=True)
class EvaluationRequest:
    """What `bfl policy evaluate` was asked: agents, worlds, number of states, folders."""

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
        """Title of the tables: how many states, M and G."""
        return f"{self.states:,} fresh states, M = {self.servers}, G = {self.channels}"


def evaluate_agents(request: EvaluationRequest, console: Console) -> list[AgentRow]:
    """Evaluate one agent after the other; finished scores are kept in OUT/points, the CSV file grows with each."""
    _check(request)
    request.out.mkdir(parents=True, exist_ok=True)
    rows: list[AgentRow] = []
    for name in sorted(request.agents, key=lambda name: name != OPTIMUM):  # the yardstick first
        worlds = [n for n in request.devices if name not in ONE_WORLD or n == LEARNERS[name].devices[0]]
        if not worlds:
            print(f"{name}: serves N = {LEARNERS[name].devices[0]} only, left out")
            continue
        rows.append(_evaluate_agent(request, name, worlds, console))
        yardstick = rows[0] if rows[0].agent == OPTIMUM else None
        write_csv(request.out / "evaluation.csv", rows, yardstick)
    console.print(latency_table(rows, request.devices, request.title))
    if yardstick:
        console.print(ratio_table(rows, yardstick, request.devices))
    write_page(request.out / "evaluation.md", rows, yardstick, request.devices, request.title, request.command)
    drawn = write_picture(request.out / "evaluation.png", rows, request.title) if len(request.devices) > 1 else ""
    print(f"table: {request.out / 'evaluation.csv'}, evaluation.md{drawn}")
    return rows


def _check(request: EvaluationRequest) -> None:
    if request.states < 2 or request.effort <= 0 or request.seeds < 1:
        raise BflError("expected --states of at least 2, --seeds of at least 1 and --effort above 0")
    for path in request.weights:
        policy_agent(path)  # what cannot be read is refused before anything is computed
    for devices in request.devices:
        request.world(devices)


def _evaluate_agent(request: EvaluationRequest, name: str, worlds: list[int], console: Console) -> AgentRow:
    scores: dict[int, list[Score]] = {n: [] for n in worlds}
    for key, make in _agent_factories(request, name, console).items():
        for devices in worlds:
            path = request.out / "points" / f"{key}-M{request.servers}-G{request.channels}-N{devices}.json"
            score = read_score(path, name, request.world(devices), request.states)
            if score is None:
                score = _measure_score(request, name, make(), devices, console)
                write_score(path, score)
            scores[devices].append(score)
    return AgentRow(name, scores)


def _measure_score(request: EvaluationRequest, name: str, agent: Agent, devices: int, console: Console) -> Score:
    with TaskDisplay(console).task(f"evaluate {name}, N = {devices}") as show_progress:
        done = 0

        def on_progress(states: int) -> None:
            nonlocal done
            done += states
            show_progress(done / request.states, f"{done:,} of {request.states:,} states")

        return evaluate_agent(name, agent, request.world(devices), request.states, on_progress=on_progress)


def _agent_factories(request: EvaluationRequest, name: str, console: Console) -> dict[str, Callable[[], Agent]]:
    """An agent for each training seed there is, by a key that changes with what it is made of."""
    if name == OURS or name in SEARCHES:
        made = SEARCHES.get(name, policy_agent)
        paths = request.weights or (SHIPPED,)
        return {f"{name}-{sha256(path.read_bytes()).hexdigest()[:12]}": partial(made, path) for path in paths}
    fixed = fixed_agent(name)
    if fixed:
        return {name: lambda: fixed}
    world = LatencyParams(servers=request.servers, channels=request.channels)
    cache = AgentCache(request.cache, world, request.effort)
    return {
        cache.key(name, seed): lambda seed=seed: cached_agent(cache, name, seed, console)[0]  # type: ignore[misc]
        for seed in range(request.seeds)
    }
