"""What every figure is measured with: a budget, a folder that keeps finished parts, and a display of the progress."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bfl.show.task_display import TaskDisplay
from policy.files import read_bounded_text, replacing

MOST_BYTES = 64 << 20
"""Of a file of measured points"""


@dataclass(frozen=True)
class Budget:
    """Seeds, states, rounds and training effort of the figures."""

    seeds: int = 3
    """Trainings of every learned agent"""
    states: int = 1_000
    optimum_states: int = 200
    """Of the same states, those in which the near-optimum is searched"""
    effort: float = 1.0
    """Part of the whole training"""
    is_retrained: bool = False
    """Train the rivals anew in every world of a sweep"""
    rounds: int = 100
    """K of every federated run"""
    attack_rounds: tuple[int, int] = (20, 60)
    """When the paper's attacker strikes"""
    defence_rounds: int = 30
    """K of the runs in which every kind of attack is tried"""
    honest_rounds: int = 5
    """Of these, those before the attack begins"""


QUICK = Budget(
    seeds=1,
    states=100,
    optimum_states=20,
    effort=0.05,
    rounds=30,
    attack_rounds=(6, 18),
    defence_rounds=12,
    honest_rounds=3,
)


@dataclass(frozen=True)
class ExperimentContext:
    """Budget, folder and display of one `bfl reproduce`; finished parts are in the folder and not measured again."""

    folder: Path
    budget: Budget
    display: TaskDisplay
    jobs: int = 1
    """Federated runs at a time, each in a process of its own"""

    def cached_values(self, key: str, count: int, measure: Callable[[], list[float]]) -> list[float]:
        """The `count` values under this key in FOLDER/points, measured if they are not there."""
        path = self.folder / "points" / f"{key}.json"
        try:
            values = [float(value) for value in json.loads(read_bounded_text(path, MOST_BYTES))]
        except (FileNotFoundError, ValueError, TypeError, RecursionError):  # not there, or no list of numbers
            values = []
        if len(values) == count:
            return values
        values = measure()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(json.dumps(values) + "\n", encoding="utf-8")
        return values
