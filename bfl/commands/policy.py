"""`bfl policy ...`: train agents, evaluate them against each other and the near-optimum, compare how they learn."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from bfl.commands.command import Command
from bfl.errors import BflError
from bfl.show.task_display import wide_console

app = typer.Typer(no_args_is_help=True, help="The offloading policy: train, evaluate and compare agents.")

DEFAULT_DEVICES = "10,20,30,50,100"
Agents = Annotated[
    str,
    typer.Option(
        "--agents", help="Agents by name, with commas; all, rules, a2c:weights.json, or your own module:function."
    ),
]
AgentFolder = Annotated[
    Path, typer.Option("--agents-dir", help="Folder of trained rivals; those that are missing are trained into it.")
]
Effort = Annotated[float, typer.Option("--effort", help="Part of the whole training of rivals that are missing.")]


@app.command(cls=Command)
def train(
    out: Annotated[Path, typer.Option("--out", help="Folder for weights, curve and checkpoint.")] = Path("runs/policy"),
    agent: Annotated[str, typer.Option("--agent", help="a2c, a2c-vanilla, actor-critic or a2c-paper.")] = "a2c",
    seed: Annotated[int, typer.Option("--seed", help="First training seed.")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", help="How many seeds, one after the other.")] = 1,
    updates: Annotated[int | None, typer.Option("--updates", help="Updates in all (default: the agent's).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints there are.")] = False,
) -> None:
    """Train an agent of our own; Ctrl-C and kill -9 leave the last checkpoint (every 20 updates) to go on from.

    Leaves OUT/AGENT-seedK/: weights.json, curve.csv, curve.png, checkpoint.pt.
    """
    if seeds < 1 or seed < 0 or (updates is not None and updates < 1):
        raise BflError("expected --seeds and --updates of at least 1 and --seed of at least 0")
    from bfl.policies.training import TrainingJob, train_agent

    for each in range(seed, seed + seeds):
        train_agent(TrainingJob(agent, each, updates, out / f"{agent}-seed{each}", resume), wide_console())


@app.command(cls=Command)
def evaluate(
    weights: Annotated[
        list[Path] | None,
        typer.Option("--weights", help="Weights of our own agent instead of the shipped ones; give several for seeds."),
    ] = None,
    devices: Annotated[str, typer.Option("--devices", help="Numbers of devices, with commas.")] = DEFAULT_DEVICES,
    servers: Annotated[int, typer.Option("--servers", help="Edge servers, M.")] = 5,
    channels: Annotated[int, typer.Option("--channels", help="Sub-channels of each, G.")] = 5,
    states: Annotated[int, typer.Option("--states", help="Fresh states for each number of devices.")] = 1000,
    agents: Agents = "all",
    agents_dir: AgentFolder = Path("runs/policy/agents"),
    effort: Effort = 1.0,
    seeds: Annotated[int, typer.Option("--seeds", help="Training seeds of the learned rivals.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder for the table.")] = Path("runs/policy/evaluation"),
) -> None:
    """Mean latency T/N on fresh states, with 95 % intervals, beside the near-optimum on the same states.

    Leaves OUT/evaluation.csv, evaluation.md, evaluation.png. Rivals that have to be trained are trained once.
    """
    from bfl.policies.evaluation import EvaluationRequest, evaluate_agents

    request = EvaluationRequest(
        weights=tuple(weights or ()),
        devices=numbers(devices, "--devices"),
        servers=servers,
        channels=channels,
        states=states,
        agents=names(agents),
        cache=agents_dir,
        effort=effort,
        seeds=seeds,
        out=out,
        command=shlex.join(["bfl", *sys.argv[1:]]),
    )
    evaluate_agents(request, wide_console())


@app.command(cls=Command)
def leaderboard(
    agents: Annotated[
        str, typer.Option("--agents", help="Beside the rules, a2c and the near-optimum: by name, or module:function.")
    ] = "",
    scenarios: Annotated[str, typer.Option("--scenarios", help="Worlds by name, with commas; or all.")] = "all",
    states: Annotated[int, typer.Option("--states", help="Fresh states with each of the five fixed seeds.")] = 40,
    agents_dir: AgentFolder = Path("runs/policy/agents"),
    effort: Effort = 1.0,
    out: Annotated[Path, typer.Option("--out", help="Folder of the board; it keeps everybody's scores.")] = Path(
        "runs/policy/leaderboard"
    ),
) -> None:
    """Agents x scenarios as one table, beside the near-optimum: OUT/leaderboard.md, leaderboard.csv.

    Who is on the board stays there: one agent more is scored alone, and again only if its code or its decisions change.
    """
    from bfl.policies.contestants import Stable
    from bfl.policies.leaderboard import BoardRequest, make_leaderboard
    from bfl.policies.scenarios import chosen_scenarios

    console = wide_console()
    request = BoardRequest(
        agents=names(agents) if agents else (),
        scenarios=tuple(chosen_scenarios(scenarios)),
        states=states,
        stable=Stable(agents_dir, effort, 1, (), console),
        out=out,
        command=shlex.join(["bfl", *sys.argv[1:]]),
    )
    make_leaderboard(request, console)


@app.command(cls=Command)
def compare(
    agents: Annotated[str, typer.Option("--agents", help="Agents by name, with commas; or all, or rules.")] = "all",
    agents_dir: AgentFolder = Path("runs/policy/agents"),
    effort: Effort = 1.0,
    seeds: Annotated[int, typer.Option("--seeds", help="Training seeds of each.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Folder for the plot.")] = Path("runs/policy/comparison"),
) -> None:
    """Learning curves of all agents on one plot: OUT/comparison.png, comparison.csv."""
    if seeds < 1:
        raise BflError(f"--seeds: found {seeds}, expected at least 1")
    from bfl.policies.comparison import compare_agents

    compare_agents(names(agents, open_to=False), agents_dir, effort, seeds, out, wide_console())


@app.command("agents", cls=Command)
def list_agents() -> None:
    """List the agents by name; your own come beside them as module:function (docs/agents.md)."""
    from rich.table import Table

    from policy.agents import DESCRIPTIONS

    table = Table("name", "what it is", "learned")
    for each in DESCRIPTIONS:
        table.add_row(each.name, each.text, "yes" if each.is_learned else "")
    wide_console().print(table)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers above 0, with commas."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise BflError(f"{option}: found {text!r}, expected whole numbers with commas, such as 10,30") from error
    if min(found) < 1:
        raise BflError(f"{option}: found {min(found)}, expected at least 1")
    return found


def names(text: str, open_to: bool = True) -> tuple[str, ...]:
    """Agents by name, `all` or `rules` (those that need no training); own ones, as module:function, are permitted."""
    from bfl.policies.contestants import permitted_name
    from policy.agents import DESCRIPTIONS, NAMES, check_name

    if text == "all":
        return tuple(NAMES)
    if text == "rules":
        return tuple(each.name for each in DESCRIPTIONS if not each.is_learned)
    found = tuple(part.strip() for part in text.split(","))
    for name in found:
        if open_to:
            permitted_name(name)
        else:
            check_name(name)
    return found
