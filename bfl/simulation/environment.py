"""What a run's numbers depend on besides its seed (P11)."""

import platform
from typing import Any

import numpy as np
import torch
from torch import nn

from bfl.errors import BflError
from clients.plugins import GIVEN, OPEN_POINTS, code_names, plugin_digest
from clients.training import uses_stacked
from edge_servers.parameters import Settings


def use_threads(settings: Settings) -> int:
    """Let torch compute with as many threads as the settings say; how many that is."""
    if settings.training.threads:
        torch.set_num_threads(settings.training.threads)
    return torch.get_num_threads()


def describe_environment(settings: Settings, network: nn.Module) -> dict[str, Any]:
    """Engine, chunk, threads, torch, instruction set, plug-ins: with these equal, the same seed gives the same run."""
    training = settings.training
    return {
        "engine": "stacked" if uses_stacked(network, training.engine, training.optimizer) else "sequential",
        "chunk": settings.training.chunk,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        **_code_of_others(settings),
    }


def _code_of_others(settings: Settings) -> dict[str, str]:
    """sha256 of every plug-in; what was given in Python without a name has its digest in its name."""
    flat = settings.flat()
    return {
        f"{kind} {name}": plugin_digest(kind, name, BflError)
        for kind in OPEN_POINTS
        for name in code_names(kind, str(flat.get(kind, "")))
        if not name.startswith(GIVEN)
    }


def differences(recorded: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """What differs between the environment a run was started in and this one, for people."""
    return [
        f"{key}: the run has {recorded[key]}, this process {here.get(key)}"
        for key in recorded
        if recorded[key] != here.get(key)
    ]
