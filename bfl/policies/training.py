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
from bfl.show.plots import can_plot, plot_lines
from bfl.show.task_display import TaskDisplay
from policy.actor.weights import write_weights
from policy.agents import LEARNERS, UPDATES, learning_params, policy_agent
from policy.evaluation import evaluate_agent
from policy.parameters import LatencyParams
from policy.training.train import CurvePoint, Training

CHECKPOINT = "checkpoint.pt"
CHECKPOINT_EVERY = 20
"""Updates between checkpoints"""
RECORD_DEVICES = (10, 20, 30, 50, 100)
RECORD_STATES = 1000


@dataclass(frozen=True)
class TrainingJob:
    """What `bfl policy train` was asked for one seed."""

    agent: str
    seed: int
    updates: int | None
    folder: Path
    resume: bool


def train_agent(job: TrainingJob, console: Console) -> None:
    """Train an agent of our own into its folder."""
    if job.agent not in LEARNERS:
        raise BflError(
            f"--agent: found {job.agent!r}, expected one of {', '.join(LEARNERS)}; "
            "agents of stable-baselines3 are trained by evaluate and compare when they are needed"
        )
    training, updates = _start_or_resume(job), job.updates or UPDATES[job.agent]
    if training.done > updates:
        raise BflError(f"--updates: found {updates}, expected at least the {training.done} that are done")
    job.folder.mkdir(parents=True, exist_ok=True)
    _run(job, training, updates, console)
    write_curve(job.folder, training.curve, f"{job.agent}, seed {job.seed}")
    path, record = job.folder / "weights.json", _record(job, training)
    write_weights(path, training.learner.actor, record)
    if training.params.architecture == "shared":
        write_weights(path, training.learner.actor, record | {"figures": _figures(path)})
    print(f"weights: {path}   curve: {job.folder / 'curve.csv'}, curve.png")


def _start_or_resume(job: TrainingJob) -> Training:
    """A new training, or where its checkpoint left it."""
    training, checkpoint = Training(learning_params(job.agent, job.seed), LatencyParams()), job.folder / CHECKPOINT
    if checkpoint.exists():
        if not job.resume:
            raise BflError(f"{job.folder} holds a training: go on with --resume, or choose another --out")
        training.resume(checkpoint)
    elif job.resume:
        print(f"{job.folder}: no checkpoint, beginning")
    return training


def _run(job: TrainingJob, training: Training, updates: int, console: Console) -> None:
    kept = training.done
    with TaskDisplay(console).task(f"train {job.agent}, seed {job.seed}") as show_progress:

        def on_progress(*_: Any) -> None:
            nonlocal kept
            text = f"update {training.done}/{updates}"
            if training.curve:
                text += f"  T/N {training.curve[-1].validation_s:.4f} s in validation states"
            show_progress(training.done / updates, text)
            if training.done % CHECKPOINT_EVERY == 0 or training.done == updates:
                training.save(job.folder / CHECKPOINT)
                kept = training.done

        try:
            training.run(updates, on_progress)
        except KeyboardInterrupt as error:
            print(f"Interrupted; {kept} updates are kept. Go on with the same command and --resume")
            raise typer.Exit(130) from error


def _record(job: TrainingJob, training: Training) -> dict[str, Any]:
    import torch

    return {
        "agent": job.agent,
        "command": f"bfl policy train --agent {job.agent} --seed {job.seed} --updates {training.done}",
        "seed": job.seed,
        "updates": training.done,
        "rounds": training.rounds,
        "cpu-minutes": round(training.cpu_s / 60, 1),
        "settings": asdict(training.params),
        "made-with": {"torch": torch.__version__.partition("+")[0], "numpy": np.__version__, "cpu": platform.machine()},
    }


def _figures(weights: Path) -> dict[str, Any]:
    """T/N on fresh states, for the record of the weights."""
    agent = policy_agent(weights)
    found = {}
    for devices in RECORD_DEVICES:
        score = evaluate_agent("a2c", agent, LatencyParams(devices=devices), RECORD_STATES)
        found[f"T/N at N = {devices}, s"] = f"{score.mean_s:.4f} ± {score.half_width_s:.4f}"
    return found | {"states": RECORD_STATES}


def write_curve(folder: Path, curve: Sequence[CurvePoint], title: str) -> None:
    """curve.csv and curve.png."""
    with (folder / "curve.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(CurvePoint.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(asdict(point) for point in curve)
    if can_plot():
        lines = {
            "decisions in validation states (N = 30)": [(p.rounds, p.validation_s) for p in curve],
            "actions drawn while learning (N = 30)": [(p.rounds, p.sampled_s) for p in curve],
        }
        plot_lines(lines, "rounds of the environment", "T / N (s)", title, folder / "curve.png")
