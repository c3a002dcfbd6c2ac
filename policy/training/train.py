"""Training: updates one after the other, a learning curve, checkpoints to go on from."""

import io
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

from policy.actor.planner import Policy
from policy.errors import PolicyError, StoredFileError
from policy.files import read_bounded, replacing
from policy.parameters import LatencyParams
from policy.torch_files import read_torch_file
from policy.training.learner import Learner, SharedLearner, UpdateReport
from policy.training.settings import LearningParams
from policy.world.latency import latency_of, reward
from policy.world.state import State, new_state

VALIDATION_SEED = 5_000_000
"""Validation states come from seeds beyond those of training and below those of evaluation"""
VALIDATION_STATES = 100
MOST_BYTES = 256 << 20
"""Of a checkpoint"""
CHECK_EVERY = 10
"""Updates between two points of the learning curve"""


@dataclass(frozen=True)
class CurvePoint:
    """A point of the learning curve."""

    update: int
    rounds: int  # of the environment, played so far
    sampled_s: float  # T / N of the actions drawn while learning, as last seen with the validation's number of devices
    validation_s: float  # T / N of the policy's decisions in states kept for this
    reward: float  # of those decisions
    entropy: float
    divergence: float


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums are taken in the same order every time, so that the same seed gives the same weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def new_learner(params: LearningParams, world: LatencyParams) -> Learner:
    """A learner with freshly initialised networks."""
    with torch.random.fork_rng(devices=[]):  # others' random numbers are left alone
        torch.manual_seed(params.seed)
        if params.architecture == "shared":
            return SharedLearner(params, world)
        from policy.training.flat_learner import FlatLearner  # plays on gymnasium, which is in an extra

        return FlatLearner(params, world)


class Training:
    """A learner on its way through `updates`; goes on from where a checkpoint left it."""

    def __init__(self, params: LearningParams, world: LatencyParams, validation_devices: int = 30) -> None:
        self.params, self.world = params, world
        devices = validation_devices if params.architecture == "shared" else params.devices[0]
        self._validation = replace(world, devices=devices)
        self._states: State = new_state(self._validation, VALIDATION_STATES, np.random.default_rng(VALIDATION_SEED))
        self.learner: Learner = new_learner(params, world)
        self.done, self.rounds, self.cpu_s = 0, 0, 0.0
        self._sampled_s = math.nan
        self.curve: list[CurvePoint] = []

    @property
    def policy(self) -> Policy:
        """The policy as it is now, for the world of the validation states."""
        return Policy(self.learner.actor, self._validation)

    def run(self, updates: int, on_update: Callable[[UpdateReport, CurvePoint | None], None] | None = None) -> None:
        """Go on until `updates` are done; `on_update` is called after each."""
        with one_thread():
            while self.done < updates:
                began = time.process_time()
                report = self.learner.update(self.done)
                self.cpu_s += time.process_time() - began
                self.done += 1
                if report.devices == self._validation.devices:
                    self._sampled_s = report.per_device_s
                self.rounds += report.rounds
                point = None
                if self.done % CHECK_EVERY == 0 or self.done == updates:
                    point = self._point(report)
                    self.curve.append(point)
                if on_update:
                    on_update(report, point)

    def _point(self, report: UpdateReport) -> CurvePoint:
        latency = latency_of(self.policy.decide(self._states), self._states, self._validation)
        return CurvePoint(
            update=self.done,
            rounds=self.rounds,
            sampled_s=self._sampled_s,
            validation_s=float(latency.per_device_s.mean()),
            reward=float(reward(latency.total_s, self._validation.devices, self._validation).mean()),
            entropy=report.entropy,
            divergence=report.step.divergence,
        )

    def save(self, path: Path) -> None:
        """Write a checkpoint; a process killed meanwhile leaves the old one."""
        with replacing(path) as part:
            torch.save(
                {
                    "settings": _settings(self.params, self.world),
                    "memory": self.learner.state_dict(),
                    "done": self.done,
                    "rounds": self.rounds,
                    "cpu_s": self.cpu_s,
                    "sampled_s": self._sampled_s,
                    "curve": [asdict(point) for point in self.curve],
                },
                part,
            )

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint of the same settings."""
        found = _read_checkpoint(path)
        expected = _settings(self.params, self.world)
        if found["settings"] != expected:
            changed = [key for key in expected if found["settings"].get(key) != expected[key]]
            raise PolicyError(f"{path} was made with other settings: {', '.join(changed)}; expected the same")
        try:
            self.learner.load_state_dict(found["memory"])
            self.curve = [CurvePoint(**point) for point in found["curve"]]
            self.done, self.rounds = int(found["done"]), int(found["rounds"])
            self.cpu_s, self._sampled_s = float(found["cpu_s"]), float(found["sampled_s"])
            self.learner.prepare(self.done - 1)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise PolicyError(f"{path} is a damaged checkpoint: {error}") from error


def _read_checkpoint(path: Path) -> dict[str, Any]:
    """What is in a checkpoint; only numbers are read, nothing is executed."""
    try:
        raw = read_bounded(path, MOST_BYTES)
        read_torch_file(raw)  # asks for no more than there is
        found = torch.load(io.BytesIO(raw), weights_only=True)
    except FileNotFoundError as error:
        raise PolicyError(f"no checkpoint at {path}") from error
    except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError, StoredFileError) as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        raise PolicyError(f"{path} is no checkpoint: {said}") from error
    parts = {"settings", "memory", "done", "rounds", "cpu_s", "sampled_s", "curve"}
    if not isinstance(found, dict) or found.keys() != parts or not isinstance(found["settings"], dict):
        raise PolicyError(f"{path} is no checkpoint: expected {', '.join(sorted(parts))}")
    return found


def _settings(params: LearningParams, world: LatencyParams) -> dict[str, Any]:
    flat = asdict(params) | asdict(params.step) | {f"world-{name}": value for name, value in asdict(world).items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in flat.items() if name != "step"}
