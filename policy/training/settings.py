"""How an agent learns, as settings; the defaults are those of the weights in the package."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from policy.actor.networks import HIDDEN, PASSES
from policy.errors import PolicyError


def check_counts(values: Mapping[str, object], least: int) -> None:
    """Raise `PolicyError` unless all are whole numbers from `least` to 2^63."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
            raise PolicyError(f"{name}: found {value!r}, expected a whole number from {least} on")


def check_positive(values: Mapping[str, float]) -> None:
    """Raise `PolicyError` unless all are finite and above 0."""
    for name, value in values.items():
        if not isinstance(value, int | float) or not 0 < value < math.inf:
            raise PolicyError(f"{name}: found {value!r}, expected a finite number above 0")


@dataclass(frozen=True)
class StepParams:
    """How the actor is stepped: trust region or plain gradient, and their rates."""

    method: str = "trust-region"
    """trust-region (TRPO) or gradient (a plain step of Adam: "vanilla")"""
    trust_region: float = 0.05
    """eps: KL(old || new) of one device's action"""
    actor_rate: float = 1.0
    """Where the line search begins, as a part of the largest step"""
    adam_rate: float = 3e-3
    """Of the actor's Adam: all the time for `gradient`, once settled for `trust-region`"""
    entropy_weight: float = 0.01
    damping: float = 0.01
    fisher_parts: int = 8
    """The curvature is measured on one in so many states of the batch"""
    iterations: int = 8
    """Of the conjugate gradient"""

    def __post_init__(self) -> None:
        if self.method not in ("trust-region", "gradient"):
            raise PolicyError(f"method: found {self.method!r}, expected trust-region or gradient")
        check_positive({name: getattr(self, name) for name in ("trust_region", "actor_rate", "adam_rate", "damping")})
        check_counts({name: getattr(self, name) for name in ("fisher_parts", "iterations")}, least=1)
        if not 0 <= self.entropy_weight < math.inf:
            raise PolicyError(f"entropy_weight: found {self.entropy_weight!r}, expected a finite number from 0 on")


@dataclass(frozen=True)
class LearningParams:
    """Networks, batch, rates and schedule with which an agent is trained."""

    architecture: str = "shared"
    """shared (any N, M, G) or paper (flat networks for one N)"""
    step: StepParams = field(default_factory=StepParams)
    has_advantage: bool = True
    """Without: the actor follows the credit itself, no critic is asked"""
    devices: tuple[int, ...] = (10, 20, 3, 30, 10, 50, 100)
    """Numbers of devices, one after the other, update by update"""
    rows: int = 1440
    """States of an update times devices"""
    samples: int = 8
    """Actions drawn in each state"""
    critic_rate: float = 3e-3
    critic_epochs: int = 4
    hidden: int = HIDDEN
    passes: int = PASSES
    settle_at: int = 400
    """The update from which on the actor takes `settled_passes`, is less noisy in its shares and follows Adam, whose
    memory spans the numbers of devices, within the same trust region"""
    settled_passes: int = 6
    settling: int = 900
    """Updates over which Adam's rate falls to a tenth from there on"""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.architecture not in ("shared", "paper"):
            raise PolicyError(f"architecture: found {self.architecture!r}, expected shared or paper")
        if not isinstance(self.step, StepParams) or not isinstance(self.devices, tuple):
            raise PolicyError(f"found step {self.step!r} and devices {self.devices!r}, expected StepParams and a tuple")
        if not self.devices or (self.architecture == "paper" and len(self.devices) != 1):
            raise PolicyError(f"devices: found {self.devices!r}, expected some numbers, one for the paper's networks")
        counts = {f"devices[{i}]": n for i, n in enumerate(self.devices)}
        for name in ("rows", "samples", "critic_epochs", "hidden", "passes", "settled_passes", "settling"):
            counts[name] = getattr(self, name)
        check_counts(counts, least=1)
        check_counts({"settle_at": self.settle_at, "seed": self.seed}, least=0)
        check_positive({"critic_rate": self.critic_rate})
