"""`bfl policy evaluate`: agents on the same fresh states, beside the near-optimum."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bfl.errors import BflError
from bfl.policies.contestants import Stable
from bfl.policies.scores import read_score, write_score
from bfl.policies.tables import AgentRow, latency_table, ratio_table, write_csv, write_page, write_picture
from bfl.show.task_display import TaskDisplay
from policy.agents import OPTIMUM, Agent, policy_agent
from policy.evaluation import EVALUATION_SEED, Score, evaluate_agent
from policy.parameters import LatencyParams


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
        row = _evaluate_agent(request, name, console)
        if row is None:
            worlds = ", ".join(map(str, request.devices))
            print(f"{name}: serves none of these worlds ({worlds} devices, {request.servers} servers), left out")
            continue
        rows.append(row)
        yardstick = rows[0] if rows[0].agent == OPTIMUM else None
        write_csv(request.out / "evaluation.csv", rows, yardstick)
    if not rows:
        raise BflError(f"found nobody among {', '.join(request.agents)} who serves these worlds: try other --devices")
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


def _evaluate_agent(request: EvaluationRequest, name: str, console: Console) -> AgentRow | None:
    """Its scores in the worlds that it serves; None if there are none."""
    stable = Stable(request.cache, request.effort, request.seeds, request.weights, console)
    scores: dict[int, list[Score]] = {}
    for devices in request.devices:
        world = request.world(devices)
        for each in stable.contestants(name, world):
            path = request.out / "points" / f"{each.key}-M{request.servers}-G{request.channels}-N{devices}.json"
            score = read_score(path, name, world, request.states)
            if score is None:
                score = measure_score(name, each.make(), world, request.states, console)
                write_score(path, score)
            scores.setdefault(devices, []).append(score)
    return AgentRow(name, scores) if scores else None


def measure_score(
    name: str, agent: Agent, world: LatencyParams, states: int, console: Console, seed: int = EVALUATION_SEED
) -> Score:
    """Evaluate an agent, its progress shown."""
    with TaskDisplay(console).task(f"evaluate {name}, N = {world.devices}") as show_progress:
        done = 0

        def on_progress(more: int) -> None:
            nonlocal done
            done += more
            show_progress(done / states, f"{done:,} of {states:,} states")

        return evaluate_agent(name, agent, world, states, seed, on_progress)
