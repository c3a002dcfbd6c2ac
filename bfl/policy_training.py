"""`bfl policy train`: the folder of a training, its progress, its curve."""

import csv
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from bfl.errors import BflError
from bfl.plots import can_plot, plot_lines
from bfl.watch import Watch
from policy.agents import LEARNERS, UPDATES, learning_params, policy_agent
from policy.baselines.library import LIBRARY_AGENTS, trained
from policy.evaluation import evaluated
from policy.parameters import LatencyParams
from policy.train import Point, Training
from policy.weights import write_weights

CHECKPOINT_EVERY = 20
"""Updates between checkpoints"""
RECORD_DEVICES = (10, 20, 30, 50, 100)
RECORD_STATES = 1000


@dataclass(frozen=True)
class Job:
    """One training."""

    agent: str
    seed: int
    updates: int | None
    folder: Path
    resume: bool


def train_agent(job: Job, console: Console) -> None:
    """Train an agent of our own or of the library into its folder."""
    if job.agent in LIBRARY_AGENTS:
        _train_library(job, console)
    elif job.agent in LEARNERS:
        _train_own(job, console)
    else:
        expected = ", ".join([*LEARNERS, *LIBRARY_AGENTS])
        raise BflError(f"--agent: found {job.agent!r}, expected one that learns: {expected}")


def _train_own(job: Job, console: Console) -> None:
    world, params = LatencyParams(), learning_params(job.agent, job.seed)
    training, updates = Training(params, world), job.updates or UPDATES[job.agent]
    checkpoint = job.folder / "checkpoint.pt"
    if job.resume:
        training.resume(checkpoint)
    elif checkpoint.exists():
        raise BflError(f"{job.folder} holds a training: go on with --resume, or choose another --out")
    job.folder.mkdir(parents=True, exist_ok=True)
    with Watch(console).part(f"train {job.agent}, seed {job.seed}") as told:

        def hear(*_: Any) -> None:
            text = f"update {training.done}/{updates}"
            if training.curve:
                text += f"  T/N {training.curve[-1].validation_s:.4f} s in validation states"
            told(training.done / updates, text)
            if training.done % CHECKPOINT_EVERY == 0 or training.done == updates:
                training.save(checkpoint)

        try:
            training.run(updates, hear)
        except KeyboardInterrupt as error:
            kept = training.done // CHECKPOINT_EVERY * CHECKPOINT_EVERY
            print(f"Interrupted; update {kept} is kept. Go on with the same command and --resume")
            raise typer.Exit(130) from error
    write_curve(job.folder, training.curve, f"{job.agent}, seed {job.seed}")
    path, record = job.folder / "weights.json", _record(job, updates, training)
    write_weights(path, training.learner.actor, record)
    if params.architecture == "shared":
        write_weights(path, training.learner.actor, record | {"figures": _figures(path)})
    print(f"weights: {path}   curve: {job.folder / 'curve.csv'}, curve.png")


def _record(job: Job, updates: int, training: Training) -> dict[str, Any]:
    import torch

    settings = asdict(training.params)
    return {
        "agent": job.agent,
        "command": f"bfl policy train --agent {job.agent} --seed {job.seed} --updates {updates}",
        "seed": job.seed,
        "updates": updates,
        "rounds": training.rounds,
        "settings": settings,
        "made-with": {"torch": torch.__version__.partition("+")[0], "numpy": np.__version__, "cpu": platform.machine()},
    }


def _figures(weights: Path) -> dict[str, Any]:
    """T/N on fresh states, for the record of the weights."""
    agent = policy_agent(weights)
    found = {}
    for devices in RECORD_DEVICES:
        score = evaluated("a2c", agent, LatencyParams(devices=devices), RECORD_STATES)
        found[f"T/N at N = {devices}, s"] = f"{score.mean_s:.4f} ± {score.half_width_s:.4f}"
    return found | {"states": RECORD_STATES}


def write_curve(folder: Path, curve: Sequence[Point], title: str) -> None:
    """curve.csv and curve.png."""
    with (folder / "curve.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Point.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(asdict(point) for point in curve)
    if can_plot():
        lines = {
            "decisions in validation states (N = 30)": [(p.rounds, p.validation_s) for p in curve],
            "actions drawn while learning (various N)": [(p.rounds, p.sampled_s) for p in curve],
        }
        plot_lines(lines, "rounds of the environment", "T / N (s)", title, folder / "curve.png")


def _train_library(job: Job, console: Console) -> None:
    if job.resume:
        raise BflError(f"{job.agent} is trained by stable-baselines3 in one go; expected no --resume")
    rounds = job.updates or LIBRARY_AGENTS[job.agent].rounds
    points: list[tuple[float, float]] = []
    with Watch(console).part(f"train {job.agent}, seed {job.seed}") as told:

        def hear(done: int, per_device_s: float) -> None:
            points.append((done, per_device_s))
            told(min(1.0, done / rounds), f"round {done}/{rounds}  T/N {per_device_s:.4f} s while learning")

        agent = trained(job.agent, LatencyParams(), rounds, job.seed, hear)
    job.folder.mkdir(parents=True, exist_ok=True)
    agent.save(job.folder / "weights.zip")
    if can_plot():
        title = f"{job.agent}, seed {job.seed}"
        plot_lines(
            {"while learning": points}, "rounds of the environment", "T / N (s)", title, job.folder / "curve.png"
        )
    print(f"weights: {job.folder / 'weights.zip'}")
