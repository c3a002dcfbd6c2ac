"""Trust-region steps against numpy, explicit Hessians, and line searches worked by hand."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal, kl_divergence

from policy.errors import PolicyError
from policy.training.trust_region import (
    Step,
    conjugate_gradient,
    fisher_vector_product,
    flat_gradient,
    flat_parameters,
    line_search,
    natural_step,
    set_flat_parameters,
)

FEATURES, OPTIONS, STATES = 3, 4, 7
SIZE = FEATURES * (OPTIONS + 1) + 1


def random_matrix(seed: int, size: int) -> Tensor:
    """Symmetric positive definite."""
    root = torch.randn((size, size), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return root @ root.T + 0.5 * torch.eye(size, dtype=torch.float64)


def random_vector(seed: int, size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_parameters_go_out_and_back_in_order() -> None:
    first = nn.Linear(3, 2)
    network = nn.Sequential(first, nn.Tanh(), nn.Linear(2, 1))
    values = torch.arange(11.0)
    set_flat_parameters(network, values)
    assert first.weight.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert first.bias.tolist() == [6, 7]
    assert torch.equal(flat_parameters(network), values)
    values[0] = 99.0
    assert flat_parameters(network)[0] == 0


def test_parameters_of_another_size_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, ...]] = [(10,), (12,), (11, 1), ()]
    for shape in cases:
        with subtests.test(shape=shape):
            network = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
            before = flat_parameters(network)
            with pytest.raises(PolicyError, match=r"expected \(11,\)"):
                set_flat_parameters(network, torch.zeros(shape))
            assert torch.equal(flat_parameters(network), before)


def test_the_gradient_of_a_quadratic_and_of_what_it_does_not_depend_on() -> None:
    """d/dx (x^T A x / 2 + b x) = A x + b, here [[2, 1], [1, 3]] (1, 2) + (1, -1)."""
    x, unused, y = (torch.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [[5.0, 6.0]], [4.0]))
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    output = x @ matrix @ x / 2 + x @ torch.tensor([1.0, -1.0]) + y[0] ** 2
    assert flat_gradient(output, [x, unused, y]).tolist() == [5, 6, 0, 0, 8]


def test_conjugate_gradients_solve_like_numpy(subtests: pytest.Subtests) -> None:
    cases: list[int] = [1, 2, 5, 12]
    for size in cases:
        with subtests.test(size=size):
            matrix, right = random_matrix(size, size), random_vector(size + 1, size)
            found = conjugate_gradient(matrix.__matmul__, right, 3 * size)
            assert found.numpy() == pytest.approx(np.linalg.solve(matrix.numpy(), right.numpy()), rel=1e-4, abs=1e-4)


def test_conjugate_gradients_need_as_many_steps_as_different_eigenvalues() -> None:
    asked: list[Tensor] = []

    def product(vector: Tensor) -> Tensor:
        asked.append(vector)
        return torch.tensor([2.0, 2.0, 5.0, 5.0], dtype=torch.float64) * vector

    found = conjugate_gradient(product, torch.tensor([2.0, 4.0, 10.0, 5.0], dtype=torch.float64), 50)
    assert found.tolist() == pytest.approx([1, 2, 2, 1])
    assert len(asked) == 2


def test_conjugate_gradients_stop_at_zero() -> None:
    def product(vector: Tensor) -> Tensor:
        raise AssertionError("nothing to solve")

    assert conjugate_gradient(product, torch.zeros(3), 10).tolist() == [0, 0, 0]


def divergence_from(old: Tensor, seen: Tensor) -> Callable[[Tensor], Tensor]:
    """Mean KL(old || new) of a policy: softmax of a linear layer, and a Gaussian around another."""

    def heads(values: Tensor) -> tuple[Categorical, Normal]:
        split = FEATURES * OPTIONS
        logits = seen @ values[:split].view(FEATURES, OPTIONS)
        return Categorical(logits=logits), Normal(seen @ values[split:-1], values[-1].exp())

    fixed = heads(old.detach())

    def divergence(values: Tensor) -> Tensor:
        return sum((kl_divergence(a, b).mean() for a, b in zip(fixed, heads(values), strict=True)), torch.zeros(()))

    return divergence


def test_a_fisher_vector_product_is_the_hessian_of_the_divergence(subtests: pytest.Subtests) -> None:
    cases: list[float] = [0.0, 0.1]
    for damping in cases:
        with subtests.test(damping=damping):
            seen = random_vector(0, STATES * FEATURES).view(STATES, FEATURES)
            old = random_vector(1, SIZE).requires_grad_()
            divergence = divergence_from(old, seen)
            hessian = torch.autograd.functional.hessian(divergence, old.detach())  # type: ignore[no-untyped-call]
            product = fisher_vector_product(divergence(old), [old], damping)
            for seed in range(2, 6):
                vector = random_vector(seed, SIZE)
                assert product(vector).numpy() == pytest.approx(
                    (hessian @ vector + damping * vector).numpy(), abs=1e-10
                )


def test_a_fisher_vector_product_is_the_spread_of_the_score_of_a_softmax() -> None:
    """Of logits themselves the Fisher matrix is diag(p) - p p^T; a parameter without a say is damped only."""
    logits, silent = random_vector(3, OPTIONS).requires_grad_(), torch.zeros(2, dtype=torch.float64, requires_grad=True)
    policy = Categorical(logits=logits)
    product = fisher_vector_product(
        kl_divergence(Categorical(logits=logits.detach()), policy), [logits, silent], damping=0.5
    )
    p, vector = policy.probs.detach(), random_vector(4, OPTIONS + 2)
    expected = torch.cat([(torch.diag(p) - torch.outer(p, p)) @ vector[:OPTIONS], torch.zeros(2)]) + 0.5 * vector
    assert product(vector).numpy() == pytest.approx(expected.numpy(), abs=1e-12)


def test_a_natural_step_goes_along_the_natural_gradient_to_the_edge_of_the_region(subtests: pytest.Subtests) -> None:
    cases: list[float] = [1e-3, 0.05]
    for bound in cases:
        with subtests.test(bound=bound):
            matrix, gradient = random_matrix(7, 6), random_vector(8, 6)
            step = natural_step(gradient, matrix.__matmul__, bound, 50)
            assert float(step @ matrix @ step / 2) == pytest.approx(bound, rel=1e-6)
            exact = torch.linalg.solve(matrix, gradient)
            assert float(torch.cosine_similarity(step, exact, dim=0)) == pytest.approx(1, abs=1e-9)


def test_there_is_no_natural_step_without_a_gradient_or_curvature(subtests: pytest.Subtests) -> None:
    all_curvatures: list[float] = [-1.0, 0.0, math.nan]
    all_gradients: list[list[float]] = [[0.0, 0.0], [1.0, 1.0]]
    for curvature in all_curvatures:
        for gradient in all_gradients:
            with subtests.test(curvature=curvature, gradient=gradient):
                assert natural_step(torch.tensor(gradient), torch.tensor(curvature).__mul__, 0.01, 5).tolist() == [0, 0]


def walker(start: float = 0.0) -> nn.Linear:
    """A network with one weight, w."""
    network = nn.Linear(1, 1, bias=False)
    set_flat_parameters(network, torch.tensor([start]))
    return network


def test_a_step_that_helps_is_taken_whole() -> None:
    network = walker(1.0)
    step = line_search(lambda: (network.weight.item() - 1, 0.01), network, torch.tensor([2.0]), 0.01)
    assert step == Step(True, 1.0, 2.0, 0.01)
    assert network.weight.item() == 3


def test_a_step_is_halved_until_the_objective_rises() -> None:
    """w - 2 w^2 is -1 at 1, 0 at 1/2 (no rise), 1/8 at 1/4."""
    network = walker()

    def evaluate() -> tuple[float, float]:
        w = network.weight.item()
        return w - 2 * w**2, 0.0

    step = line_search(evaluate, network, torch.tensor([1.0]), 1.0)
    assert step == Step(True, 0.25, 0.125, 0.0)
    assert network.weight.item() == 0.25


def test_a_step_is_halved_until_it_is_within_the_region() -> None:
    """KL = w^2 <= 0.02: 1, 1/4, 1/16 are not, 1/64 is."""
    network = walker()
    step = line_search(lambda: (network.weight.item(), network.weight.item() ** 2), network, torch.tensor([1.0]), 0.02)
    assert step == Step(True, 0.125, 0.125, 1 / 64)


def test_when_nothing_helps_the_parameters_are_as_they_were(subtests: pytest.Subtests) -> None:
    cases: list[tuple[float, float]] = [(-1.0, 0.0), (0.0, 0.0), (1.0, 9.0), (math.nan, 0.0), (1.0, math.nan)]
    for found in cases:
        with subtests.test(found=found):
            network, asked = walker(0.7), []

            def evaluate() -> tuple[float, float]:
                asked.append(network.weight.item())  # noqa: B023 - called within this turn of the loop
                return found  # noqa: B023

            before = flat_parameters(network)
            assert line_search(evaluate, network, torch.tensor([1.0]), 0.1) == Step(False, 0.0, 0.0, 0.0)
            assert torch.equal(flat_parameters(network), before)
            assert asked[:3] == pytest.approx([1.7, 1.2, 0.95])
            assert len(asked) == 10
