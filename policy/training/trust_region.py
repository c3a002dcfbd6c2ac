"""Trust-region steps: conjugate gradient, Fisher-vector products, backtracking line search. No policy in here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from policy.errors import PolicyError

TOLERANCE = 1e-10
TRIES = 10
"""Halvings before a line search stays where it was"""
Product = Callable[[Tensor], Tensor]


def flat_parameters(network: nn.Module) -> Tensor:
    """All parameters as one vector."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])


def set_flat_parameters(network: nn.Module, values: Tensor) -> None:
    """The reverse of `flat_parameters`."""
    parameters = list(network.parameters())
    count = sum(parameter.numel() for parameter in parameters)
    if values.shape != (count,):
        raise PolicyError(f"found parameters of shape {tuple(values.shape)}, expected ({count},)")
    offset = 0
    for parameter in parameters:
        parameter.data.copy_(values[offset : offset + parameter.numel()].view_as(parameter))
        offset += parameter.numel()


def flat_gradient(output: Tensor, parameters: Sequence[Tensor], keep_graph: bool = False) -> Tensor:
    """Gradient of a scalar as one vector; 0 for parameters it does not depend on."""
    gradients = torch.autograd.grad(
        output, parameters, create_graph=keep_graph, retain_graph=keep_graph or None, allow_unused=True
    )
    return _flat(gradients, parameters)


def _flat(parts: Sequence[Tensor | None], like: Sequence[Tensor]) -> Tensor:
    return torch.cat([(torch.zeros_like(b) if a is None else a).reshape(-1) for a, b in zip(parts, like, strict=True)])


def fisher_vector_product(divergence: Tensor, parameters: Sequence[Tensor], damping: float) -> Product:
    """v -> (H + damping I) v, with H the Hessian of the mean KL at the old policy, which is the Fisher matrix."""
    gradient = flat_gradient(divergence, parameters, keep_graph=True)

    def product(vector: Tensor) -> Tensor:
        hessian = torch.autograd.grad(gradient @ vector, parameters, retain_graph=True, allow_unused=True)
        return _flat(hessian, parameters) + damping * vector

    return product


def conjugate_gradient(product: Product, right: Tensor, iterations: int) -> Tensor:
    """x with product(x) = right, for a symmetric positive definite product; exact after as many steps as dimensions."""
    solution = torch.zeros_like(right)
    residual, direction = right.clone(), right.clone()
    norm = residual @ residual
    for _ in range(iterations):
        if norm < TOLERANCE:
            break
        image = product(direction)
        step = norm / (direction @ image)
        solution = solution + step * direction
        residual = residual - step * image
        next_norm = residual @ residual
        direction = residual + (next_norm / norm) * direction
        norm = next_norm
    return solution


def natural_step(gradient: Tensor, product: Product, bound: float, iterations: int) -> Tensor:
    """The longest step along the natural gradient with quadratic KL at most `bound`: sqrt(2 eps / v^T H v) v."""
    direction = conjugate_gradient(product, gradient, iterations)
    curvature = direction @ product(direction)
    if not torch.isfinite(curvature) or curvature <= 0:
        return torch.zeros_like(gradient)
    return torch.sqrt(2 * bound / curvature) * direction


@dataclass(frozen=True)
class Step:
    """Whether and how far the line search went, and what that changed."""

    is_taken: bool
    fraction: float
    improvement: float
    divergence: float


def line_search(
    evaluate: Callable[[], tuple[float, float]],
    network: nn.Module,
    full: Tensor,
    bound: float,
    must_improve: bool = True,
) -> Step:
    """Halve the step until the objective rises and the divergence stays within `bound`; else stay (A28).

    `evaluate` returns (objective minus the old one, divergence from the old policy) at the network's parameters. A
    direction with memory of other batches need not raise the objective of this one: `must_improve` is then False.
    """
    start, fraction = flat_parameters(network), 1.0
    for _ in range(TRIES):
        set_flat_parameters(network, start + fraction * full)
        improvement, divergence = evaluate()
        if (improvement > 0 or not must_improve) and divergence <= bound:
            return Step(True, fraction, improvement, divergence)
        fraction /= 2
    set_flat_parameters(network, start)
    return Step(False, 0.0, 0.0, 0.0)
