"""One update of the parameterised A2C (Algorithm 2): advantages in, a step of the actor within the trust region out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from policy.errors import PolicyError
from policy.hybrid import Heads, Outputs, Sample, choice_log_prob, divergence, entropy, share_log_prob
from policy.trust_region import (
    Step,
    fisher_vector_product,
    flat_gradient,
    flat_parameters,
    line_search,
    natural_step,
    set_flat_parameters,
)

Look = Callable[[slice], Outputs]
"""The actor's outputs in some of the batch's states, with a gradient"""


@dataclass(frozen=True)
class Advantages:
    """How much better than expected, of R samples in B states with N devices; larger is better."""

    choice: Tensor  # (R, B, N), broadcast
    shares: Tensor  # (R, B, N, 4), broadcast
    by_choice: Tensor | None = None
    """(B, N, 1 + S): the critic's opinion of every choice, also of those that were not drawn"""


@dataclass(frozen=True)
class StepParams:
    """How the actor moves."""

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


def surrogate(old: Heads, new: Heads, sample: Sample, advantages: Advantages, entropy_weight: float) -> Tensor:
    """What the new policy promises: advantages weighted by how much likelier it makes each part of each action.

    Its gradient at the old policy is E[A grad log pi]. Choice and parameters have ratios of their own, because each
    has an advantage of its own.
    """
    by_choice = torch.exp(choice_log_prob(new, sample) - choice_log_prob(old, sample)) * advantages.choice
    by_share = torch.exp(share_log_prob(new, sample) - share_log_prob(old, sample)) * advantages.shares
    promised = by_choice.mean() + by_share.sum(dim=3).mean() + entropy_weight * entropy(new)
    if advantages.by_choice is not None:
        promised = promised + (torch.softmax(new.logits, dim=2) * advantages.by_choice).sum(dim=2).mean()
    return promised


def trust_region_step(actor: nn.Module, look: Look, sample: Sample, advantages: Advantages, params: StepParams) -> Step:
    """TRPO: the natural gradient, as long as the trust region allows, shortened until the promise holds (A28)."""
    parameters = list(actor.parameters())
    everything = slice(None)
    new = look(everything).at(sample.choice)
    old = new.detached()
    promised = surrogate(old, new, sample, advantages, params.entropy_weight)
    gradient = flat_gradient(promised, parameters)
    some = slice(0, max(2, sample.choice.shape[1] // params.fisher_parts))
    few = Sample(sample.choice[:, some], sample.raw[:, some])
    heads = look(some).at(few.choice)
    product = fisher_vector_product(divergence(heads.detached(), heads, few), parameters, params.damping)
    step = natural_step(gradient, product, params.trust_region, params.iterations)

    promise = _promise(look, old, sample, advantages, params.entropy_weight, float(promised.detach()))
    return line_search(promise, actor, params.actor_rate * step, params.trust_region)


def _promise(
    look: Look, old: Heads, sample: Sample, advantages: Advantages, entropy_weight: float, before: float
) -> Callable[[], tuple[float, float]]:
    """What the actor promises more than before, and how far it is from the old policy."""

    def promise() -> tuple[float, float]:
        with torch.no_grad():
            moved = look(slice(None)).at(sample.choice)
            gained = float(surrogate(old, moved, sample, advantages, entropy_weight)) - before
            return gained, float(divergence(old, moved, sample))

    return promise


def gradient_step(
    actor: nn.Module,
    optimizer: torch.optim.Optimizer,
    look: Look,
    sample: Sample,
    advantages: Advantages,
    params: StepParams,
    is_bounded: bool,
) -> Step:
    """A step of the optimizer along the same gradient: as it is ("vanilla"), or shortened to the trust region."""
    before = flat_parameters(actor)
    new = look(slice(None)).at(sample.choice)
    old = new.detached()
    promised = surrogate(old, new, sample, advantages, params.entropy_weight)
    optimizer.zero_grad()
    (-promised).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    promise = _promise(look, old, sample, advantages, params.entropy_weight, float(promised.detach()))
    if not is_bounded:
        return Step(True, 1.0, *promise())
    full = flat_parameters(actor) - before
    set_flat_parameters(actor, before)
    return line_search(promise, actor, full, params.trust_region, must_improve=False)
