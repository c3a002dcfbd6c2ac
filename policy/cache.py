"""A folder of trained agents: each is trained once, with its learning curve, and taken from there afterwards."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from policy.actor.weights import FORMAT, write_weights
from policy.agents import LEARNERS, UPDATES, Agent, check_name, fixed_agent, policy_agent
from policy.errors import PolicyError
from policy.files import read_bounded_text
from policy.parameters import LatencyParams
from policy.rivals.library import LIBRARY_AGENTS, load_agent, train_agent
from policy.training.settings import LearningParams
from policy.training.train import VALIDATION_SEED, VALIDATION_STATES, Training
from policy.world.latency import latency_of
from policy.world.state import new_state

MOST_BYTES = 64 << 20
"""Of a learning curve"""
TrainingProgress = Callable[[float, float], None]
"""Called with the fraction that is done, in [0, 1], and T / N while learning"""


@dataclass(frozen=True)
class LearningCurve:
    """A learning curve: T / N of what the agent did while it learned, over rounds of the environment."""

    agent: str
    seed: int
    rounds: list[int]
    per_device_s: list[float]
    final_s: float  # T / N of its decisions in the validation states, N = 30


def read_curve(path: Path) -> LearningCurve | None:
    """The curve in a file; None if there is none yet."""
    if not path.exists():
        return None
    try:
        return LearningCurve(**json.loads(read_bounded_text(path, MOST_BYTES)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise PolicyError(f"{path} holds no learning curve: {error}; remove it to train again") from error


@dataclass(frozen=True)
class AgentCache:
    """Trained agents of one world, in a folder."""

    folder: Path
    world: LatencyParams
    effort: float = 1.0
    """A part of the whole training, for a quick look"""

    def __post_init__(self) -> None:
        if not 0 < self.effort < math.inf:
            raise PolicyError(f"effort: found {self.effort!r}, expected a number above 0")

    def agent(
        self,
        name: str,
        seed: int = 0,
        on_progress: TrainingProgress | None = None,
        params: LearningParams | None = None,
    ) -> tuple[Agent, LearningCurve | None]:
        """The agent and its learning curve, trained if it is not there yet. Only learned agents have a curve.

        `params` are other settings for one of our own.
        """
        check_name(name)
        if name not in LEARNERS and name not in LIBRARY_AGENTS:
            fixed = fixed_agent(name)
            if fixed is None:
                raise PolicyError(f"{name} cannot be trained")
            return fixed, None
        own = self._own_params(name, seed, params)
        path = self.folder / f"{self.key(name, seed, own)}.{'json' if own else 'zip'}"
        curve = read_curve(path.with_suffix(".curve.json"))
        if curve is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            curve = self._train(name, seed, own, path, on_progress)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(asdict(curve)) + "\n", encoding="utf-8")
            part.replace(path.with_suffix(".curve.json"))  # last: the sign that the agent is whole
        return (policy_agent(path) if name in LEARNERS else load_agent(path).decide), curve

    def key(self, name: str, seed: int, params: LearningParams | None = None) -> str:
        """A name made of what the agent was trained with: effort, world, settings."""
        own = self._own_params(name, seed, params)
        settings = (asdict(own), UPDATES[name], FORMAT) if own else (LIBRARY_AGENTS[name].rounds,)
        known = json.dumps([asdict(self.world), settings], sort_keys=True)
        digest = hashlib.sha256(known.encode()).hexdigest()[:8]
        return f"{name}-seed{seed}-effort{self.effort:g}-{digest}"

    def _own_params(self, name: str, seed: int, params: LearningParams | None) -> LearningParams | None:
        """The settings of one of our own; None for the library's."""
        return replace(params or LEARNERS[name], seed=seed) if name in LEARNERS else None

    def _train(
        self, name: str, seed: int, own: LearningParams | None, path: Path, on_progress: TrainingProgress | None
    ) -> LearningCurve:
        if own is None:
            return self._train_library(name, seed, path, on_progress)
        scaled = replace(
            own, settle_at=self._scale_by_effort(own.settle_at), settling=self._scale_by_effort(own.settling)
        )
        return train_own_agent(scaled, self.world, self._scale_by_effort(UPDATES[name]), path, name, on_progress)

    def _scale_by_effort(self, amount: int) -> int:
        return max(1, round(amount * self.effort))

    def _train_library(self, name: str, seed: int, path: Path, on_progress: TrainingProgress | None) -> LearningCurve:
        rounds = self._scale_by_effort(LIBRARY_AGENTS[name].rounds)
        points: list[tuple[int, float]] = []

        def on_rounds(done: int, per_device_s: float) -> None:
            points.append((done, per_device_s))
            if on_progress:
                on_progress(min(1.0, done / rounds), per_device_s)

        agent = train_agent(name, self.world, rounds, seed, on_rounds)
        agent.save(path)
        played, latencies = zip(*points, strict=True)
        return LearningCurve(name, seed, list(played), list(latencies), validation_latency_s(agent.decide, self.world))


def train_own_agent(
    params: LearningParams,
    world: LatencyParams,
    updates: int,
    path: Path,
    name: str,
    on_progress: TrainingProgress | None,
) -> LearningCurve:
    """Train one of our own agents and write its weights."""
    training = Training(params, world)
    points: list[tuple[int, float]] = []

    def on_rounds(report: Any, _point: Any) -> None:
        if report.devices == (30 if 30 in params.devices else params.devices[0]):
            points.append((training.rounds, report.per_device_s))
        if on_progress:
            on_progress(training.done / updates, report.per_device_s)

    training.run(updates, on_rounds)
    write_weights(path, training.learner.actor, {"agent": name})
    points = points or [(point.rounds, point.validation_s) for point in training.curve]  # too short to meet N = 30
    played, latencies = zip(*points, strict=True)
    return LearningCurve(name, params.seed, list(played), list(latencies), training.curve[-1].validation_s)


def validation_latency_s(agent: Agent, world: LatencyParams) -> float:
    """T / N in the validation states."""
    state = new_state(world, VALIDATION_STATES, np.random.default_rng(VALIDATION_SEED))
    decision = agent(state, world, np.random.default_rng(VALIDATION_SEED))
    return float(latency_of(decision, state, world).per_device_s.mean())
