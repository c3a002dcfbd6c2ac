"""Weights as a JSON file that says how they were made."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from policy.actor.flat_networks import FlatActor
from policy.actor.networks import SharedActor
from policy.errors import PolicyError
from policy.files import read_bounded_text
from policy.parameters import LatencyParams

FORMAT = 1
DIGITS = 9
"""Significant digits of a number: float32 comes back exactly"""
MOST_BYTES = 64 << 20
"""Of a file; the shipped one has 50 KB"""
MOST_HIDDEN, MOST_PASSES = 1024, 64
"""Of a network that a file asks for: ours has 32 and 4"""
Actor = SharedActor | FlatActor
SHIPPED = Path(__file__).parents[1] / "trained" / "a2c.json"


@dataclass(frozen=True)
class Weights:
    """What a file of weights holds."""

    architecture: str
    sizes: dict[str, int]
    tensors: dict[str, torch.Tensor]
    record: dict[str, Any]
    """How they were made: command, seed, settings, figures"""

    def fill(self, network: nn.Module) -> None:
        """Put the weights into a network."""
        try:
            network.load_state_dict(self.tensors)
        except RuntimeError as error:
            raise PolicyError(f"the weights do not fit the {self.architecture} network: {error}") from error


def write_weights(path: Path, actor: Actor, record: dict[str, Any]) -> None:
    """Write the actor's weights as JSON, with the record of how they were made."""
    tensors = {
        name: {"shape": list(tensor.shape), "values": [float(f"{v:.{DIGITS}g}") for v in tensor.flatten().tolist()]}
        for name, tensor in actor.state_dict().items()
    }
    known = {"format": FORMAT, "architecture": actor.architecture, "sizes": actor.sizes}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known | {"record": record, "weights": tensors}, indent=1) + "\n", encoding="utf-8")


def read_weights(path: Path = SHIPPED) -> Weights:
    """The weights of a file; `PolicyError` says what is wrong with it."""
    try:
        content = json.loads(read_bounded_text(path, MOST_BYTES))
    except FileNotFoundError as error:
        raise PolicyError(f"no weights at {path}; make them with: bfl policy train --out FOLDER") from error
    except (OSError, ValueError, RecursionError) as error:
        raise PolicyError(f"{path} holds no weights: {error}") from error
    try:
        if content["format"] != FORMAT:
            raise PolicyError(f"{path}: found format {content['format']!r}, expected {FORMAT}")
        tensors = {name: _tensor(name, part) for name, part in content["weights"].items()}
        sizes = {name: int(size) for name, size in content["sizes"].items()}
        return Weights(str(content["architecture"]), sizes, tensors, dict(content["record"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PolicyError(f"{path} holds no weights: found {type(error).__name__} {error}") from error


def _tensor(name: str, part: dict[str, Any]) -> torch.Tensor:
    values, shape = np.array(part["values"], np.float32), tuple(int(size) for size in part["shape"])
    if min(shape, default=1) < 1 or values.shape != (math.prod(shape),) or not np.isfinite(values).all():
        raise PolicyError(f"{name}: found {values.size} values, expected {math.prod(shape)} finite numbers")
    return torch.from_numpy(values).reshape(shape)


def actor_of(weights: Weights, params: LatencyParams) -> Actor:
    """The network a file of weights is for."""
    paper = {"devices": params.devices, "servers": params.servers, "channels": params.channels}
    if weights.architecture == "shared":
        if weights.sizes.keys() != {"hidden", "passes"} or min(weights.sizes.values()) < 1:
            raise PolicyError(f"found weights of sizes {weights.sizes}, expected hidden and passes of at least 1")
        if weights.sizes["hidden"] > MOST_HIDDEN or weights.sizes["passes"] > MOST_PASSES:
            most = {"hidden": MOST_HIDDEN, "passes": MOST_PASSES}
            raise PolicyError(f"found weights of sizes {weights.sizes}, expected at most {most}")
        shared = SharedActor(**weights.sizes)
        shared.settle(shared.passes)
        actor: Actor = shared
    elif weights.architecture == "paper":
        if weights.sizes != paper:
            raise PolicyError(f"found weights of the paper's network for {weights.sizes}, expected {paper}")
        actor = FlatActor(params)
    else:
        raise PolicyError(f"found weights of architecture {weights.architecture!r}, expected shared or paper")
    weights.fill(actor)
    return actor
