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

ActorForward = Callable[[slice], Outputs]
"""The actor's outputs in some of the batch's states, with a gradient"""


@dataclass(frozen=True)
class Advantages:
    """How much better than expected, of R samples in B states with N devices; larger is better."""

    choice: Tensor  # (R, B, N), broadcast
    shares: Tensor  # (R, B, N, 4), broadcast
    by_choice: Tensor | None = None
    """(B, N, 1 + S): the critic's opinion of every choice, also of those that were not drawn"""


def surrogate(old: Heads, new: Heads, sample: Sample, advantages: Advantages, entropy_weight: float) -> Tensor:
    """TRPO's surrogate objective: advantages weighted by how much likelier the new policy makes each part of an action.

    Its gradient at the old policy is E[A grad log pi]. Choice and parameters have ratios of their own, because each
    has an advantage of its own.
    """
    by_choice = torch.exp(choice_log_prob(new, sample) - choice_log_prob(old, sample)) * advantages.choice
    by_share = torch.exp(share_log_prob(new, sample) - share_log_prob(old, sample)) * advantages.shares
    objective = by_choice.mean() + by_share.sum(dim=3).mean() + entropy_weight * entropy(new)
    if advantages.by_choice is not None:
        objective = objective + (torch.softmax(new.logits, dim=2) * advantages.by_choice).sum(dim=2).mean()
    return objective


def trust_region_step(
    actor: nn.Module, forward: ActorForward, sample: Sample, advantages: Advantages, params: StepParams
) -> Step:
    """TRPO: the natural gradient, as long as the trust region allows, shortened until the surrogate improves (A28)."""
    parameters = list(actor.parameters())
    everything = slice(None)
    new = forward(everything).at(sample.choice)
    old = new.detach()
    objective = surrogate(old, new, sample, advantages, params.entropy_weight)
    gradient = flat_gradient(objective, parameters)
    some = slice(0, max(2, sample.choice.shape[1] // params.fisher_parts))
    few = Sample(sample.choice[:, some], sample.raw[:, some])
    heads = forward(some).at(few.choice)
    product = fisher_vector_product(divergence(heads.detach(), heads, few), parameters, params.damping)
    step = natural_step(gradient, product, params.trust_region, params.iterations)

    evaluate = _step_evaluator(forward, old, sample, advantages, params.entropy_weight, float(objective.detach()))
    return line_search(evaluate, actor, params.actor_rate * step, params.trust_region)


def _step_evaluator(
    forward: ActorForward, old: Heads, sample: Sample, advantages: Advantages, entropy_weight: float, before: float
) -> Callable[[], tuple[float, float]]:
    """A function of the actor as it is now: its surrogate minus the old one, and its KL from the old policy."""

    def evaluate() -> tuple[float, float]:
        with torch.no_grad():
            moved = forward(slice(None)).at(sample.choice)
            gained = float(surrogate(old, moved, sample, advantages, entropy_weight)) - before
            return gained, float(divergence(old, moved, sample))

    return evaluate


def gradient_step(
    actor: nn.Module,
    optimizer: torch.optim.Optimizer,
    forward: ActorForward,
    sample: Sample,
    advantages: Advantages,
    params: StepParams,
    is_bounded: bool,
) -> Step:
    """A step of the optimizer along the same gradient: as it is ("vanilla"), or shortened to the trust region."""
    before = flat_parameters(actor)
    new = forward(slice(None)).at(sample.choice)
    old = new.detach()
    objective = surrogate(old, new, sample, advantages, params.entropy_weight)
    optimizer.zero_grad()
    (-objective).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    evaluate = _step_evaluator(forward, old, sample, advantages, params.entropy_weight, float(objective.detach()))
    if not is_bounded:
        return Step(True, 1.0, *evaluate())
    full = flat_parameters(actor) - before
    set_flat_parameters(actor, before)
    return line_search(evaluate, actor, full, params.trust_region, must_improve=False)
