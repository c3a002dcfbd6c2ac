"""Leave-one-out validation loss (P7) on quadratic losses worked by hand."""

import math

import numpy as np
import pytest

from chain.wire.address import Address
from clients.models import Vector
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.validation import loss_verdicts
from tests.edge_servers.addresses import address


def gradient(n: int, values: list[float], samples: int = 100, iterations: int = 1) -> Gradient:
    return Gradient(address(n), f"device {n}", 0, samples, iterations, "model", "plan", np.array(values, np.float32))


def gradients(*values: float) -> list[Gradient]:
    return [gradient(n, [value]) for n, value in enumerate(values)]


def square(model: Vector) -> float:
    """Loss w^2, best at 0."""
    return float((model.astype(np.float64) ** 2).sum())


MODEL = np.array([4], np.float32)  # with eta = 1 a gradient of 4 leads to the best model


def test_the_gradient_without_which_the_loss_is_lower_is_removed_with_both_losses() -> None:
    # The mean of 2, 2, 2, -6 is 0: loss 16. Without -6 it is 2: loss 4. Without a 2 it is -2/3: loss 21.8.
    assert loss_verdicts(gradients(2, 2, 2, -6), MODEL, 1.0, square) == {
        address(3): "found a validation loss of 16 with it and 4 without it, "
        "expected at most 0.02 of the loss to go with it"
    }


def test_the_worst_goes_first_and_the_rest_are_measured_again() -> None:
    # 4, 4, 4, -1, -21: mean -2, loss 36. Without -21: 2.75, loss 1.5625. Then without -1: 4, loss 0.
    assert list(loss_verdicts(gradients(4, 4, 4, -1, -21), MODEL, 1.0, square)) == [address(4), address(3)]


def test_one_that_only_looked_bad_beside_a_liar_stays() -> None:
    # 6, 3, 3, 12, 0: mean 4.8, loss 0.64. Without 12: 3, loss 1. Without 6: 4.5, loss 0.25; without a 3 or 0: worse.
    # After 6 has gone, 3, 3, 12, 0 have a loss of 0.25, and without 3: 5, without 12: 2, without 0: 6 - all worse.
    assert list(loss_verdicts(gradients(6, 3, 3, 12, 0), MODEL, 1.0, square)) == [address(0)]


def test_weights_are_samples_as_in_fedavg() -> None:
    heavy = [gradient(0, [4], 300), gradient(1, [3], 100), gradient(2, [-4], 100)]
    # mean (12 + 3 - 4) / 5 = 2.2, loss 3.24; without the last 3.75, loss 0.0625
    verdict = loss_verdicts(heavy, MODEL, 1.0, square)
    assert verdict[address(2)].startswith("found a validation loss of 3.24 with it and 0.0625 without it")


@pytest.mark.parametrize(("tolerance", "removed"), [(0.74, [address(3)]), (0.76, [])])
def test_a_gain_within_the_tolerance_removes_nobody(tolerance: float, removed: list[Address]) -> None:
    # From 16 to 4 is a gain of 75 %.
    assert list(loss_verdicts(gradients(2, 2, 2, -6), MODEL, 1.0, square, tolerance)) == removed


def test_equal_gradients_are_all_kept() -> None:
    assert loss_verdicts(gradients(3, 3, 3, 3, 3), MODEL, 1.0, square) == {}


def test_fewer_than_half_can_be_removed_and_of_equals_the_lower_address_goes_first() -> None:
    assert list(loss_verdicts(gradients(4, 4, -9, -9, -9, -9), MODEL, 1.0, square)) == [address(2), address(3)]


@pytest.mark.parametrize("closed", [[], gradients(4), gradients(4, -90)])
def test_of_two_or_fewer_nobody_is_removed_and_nothing_is_evaluated(closed: list[Gradient]) -> None:
    def never(model: Vector) -> float:
        raise AssertionError("evaluated")

    assert loss_verdicts(closed, MODEL, 1.0, never) == {}


def test_the_order_of_the_list_does_not_change_the_verdict() -> None:
    closed = gradients(4, 4, 4, -1, -21)
    assert loss_verdicts(closed[::-1], MODEL, 1.0, square) == loss_verdicts(closed, MODEL, 1.0, square)


def test_a_gradient_that_blows_the_model_up_is_removed() -> None:
    def fragile(model: Vector) -> float:
        return math.nan if abs(model[0]) > 100 else square(model)

    verdict = loss_verdicts(gradients(4, 4, 4, 1e6), MODEL, 1.0, fragile)
    assert verdict[address(3)].startswith("found a validation loss of inf with it and 0 without it")


def test_a_gradient_with_flipped_sign_times_ten_is_removed() -> None:
    rng = np.random.default_rng(3)
    rows = 1 + 0.5 * rng.normal(size=(13, 50))
    rows[3] *= -10
    closed = [gradient(n, row.tolist()) for n, row in enumerate(rows)]
    assert list(loss_verdicts(closed, np.full(50, 2, np.float32), 1.0, square)) == [address(3)]


def test_the_first_pass_evaluates_once_per_gradient_and_once_for_all() -> None:
    seen = []

    def counted(model: Vector) -> float:
        seen.append(model)
        return square(model)

    loss_verdicts(gradients(3, 3, 3, 3, 3), MODEL, 1.0, counted)
    assert len(seen) == 6
