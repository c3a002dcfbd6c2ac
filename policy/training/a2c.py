"""One update of the parameterised A2C (Algorithm 2): advantages in, a step of the actor within the trust region out."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from policy.actor.hybrid_action import Heads, Outputs, Sample, choice_log_prob, divergence, entropy, share_log_prob
from policy.training.settings import StepParams
from policy.training.trust_region import (
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
