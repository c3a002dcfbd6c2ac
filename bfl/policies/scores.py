"""Scores that were measured, kept as files, so that a long evaluation can be interrupted and goes on."""

import json
from pathlib import Path

import numpy as np

from policy.evaluation import Score
from policy.files import read_bounded_text, replacing
from policy.parameters import LatencyParams

MOST_BYTES = 64 << 20


def write_score(path: Path, score: Score) -> None:
    """The score, whole or not at all."""
    content = {"agent": score.agent, "per_state_s": score.per_state_s.tolist(), "wall_s": score.wall_s}
    content["decide_ms"] = score.decide_ms
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_score(path: Path, agent: str, params: LatencyParams, states: int) -> Score | None:
    """The score of so many states; None if it is not there, damaged or of another number of states."""
    try:
        content = json.loads(read_bounded_text(path, MOST_BYTES))
        values = np.array(content["per_state_s"], np.float64)
        found = Score(agent, params, values, float(content["wall_s"]), float(content["decide_ms"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return found if values.shape == (states,) else None


def read_agent(path: Path) -> str:
    """Whose score it is; nothing if the file does not say."""
    try:
        return str(json.loads(read_bounded_text(path, MOST_BYTES))["agent"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return ""
