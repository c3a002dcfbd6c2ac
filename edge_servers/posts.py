"""What is posted in a round, by whom, in which phase (the table of protocol.md)."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Plan:
    """The leader's plan of a round: who offloads where AFTER projection, and what everyone computes with."""

    round: int
    state_digest: str
    assignment: tuple[int, ...]
    """Server each device offloads to, by device; -1 trains itself."""
    samples: tuple[int, ...]
    """D_n of the round, by device."""
    iterations: tuple[int, ...]
    """e_n, by device."""
    server_iterations: tuple[int, ...]
    """e_m, by server."""
    phi: int
    deadline_s: float
    divergence: float
    """Xi of the round before, which `phi = auto` uses."""
    policy_digest: str
    """Names the planner and its weights."""

    @cached_property  # every order and every reply of a round names it
    def digest(self) -> str:
        """sha256 of the plan as canonical JSON."""
        return canonical_digest(asdict(self))


@dataclass(frozen=True)
class Gradient:
    """A training node's cumulative gradient C_y; the weight D_y, e_y never leaves it."""

    sender: str
    """Address of the training node."""
    node: str
    """Its name for people: "device 3" or "server 0"."""
    server: int
    """The server m in whose Y_m it counts: a device's home, or the server itself."""
    samples: int
    iterations: int
    model_digest: str
    plan_digest: str
    values: NDArray[np.floating]


@dataclass(frozen=True)
class Refusal:
    """A training node that is not in the closed list, and why (P4)."""

    node: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Close:
    """The leader's closed list: whose gradients count, in order, and whose do not (P4)."""

    accepted: tuple[str, ...]
    refused: tuple[Refusal, ...]


def canonical_digest(content: object) -> str:
    """sha256 of canonical JSON: sorted keys, no spaces."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
