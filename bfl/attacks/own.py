"""Attacks that somebody else wrote (clients/plugins.py): what they are told, and what they may return."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bfl.errors import ConfigError
from clients.plugins import load_plugin

POSTS = ("gradient", "iterate", "model")
"""What a server may lie about"""
OPTIONS: Mapping[str, str] = {"device": "", "server": "", "post": "gradient", "step": "0", "strength": "1"}
"""Of all of them, with their defaults: devices, or a server and which of its posts"""
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Scene:
    """Where an attack takes place."""

    who: str
    """`device 3` or `server 1`."""
    round: int
    what: str
    """gradient, iterate or model."""
    strength: float
    rng: np.random.Generator
    """The attacker's own numbers of this round."""


def attacked(name: str, honest: NDArray[Any], scene: Scene) -> Values:
    """What the function `name` of (honest values, scene) makes of them."""
    function: Callable[[Values, Scene], Any] = load_plugin("attack", name, ConfigError)
    said = np.asarray(function(honest.astype(np.float64), scene), dtype=np.float64)
    if said.shape != honest.shape or not np.isfinite(said).all():
        raise ConfigError(f"attack {name}: found values of shape {said.shape}, expected {honest.shape} finite numbers")
    return said
