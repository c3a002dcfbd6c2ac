"""What a gradient may be at most, at the borders themselves."""

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_servers.errors import GradientRefusedError
from edge_servers.learning.bounds import check_gradient
from edge_servers.learning.gradients import Gradient
from edge_servers.parameters import RoundParams
from tests.edge_servers.addresses import address

BOUNDS = RoundParams(gradient_bound=4.0, norm_bound=5.0)
"""Of one iteration; over two iterations a value may be 8, and the norm 10."""


def gradient(*values: float, iterations: int = 2) -> Gradient:
    return Gradient(address(1), "device 1", 0, 40, iterations, "", "", np.array(values, np.float32))


def reason(found: Gradient, size: int = 2, dtype: type[np.floating] = np.float32) -> str:
    """Why it is refused; empty if it is not."""
    try:
        check_gradient(found, size, BOUNDS, np.dtype(dtype))
    except GradientRefusedError as error:
        return error.reason
    return ""


@pytest.mark.parametrize(
    ("values", "iterations", "expected"),
    [
        ((8.0, 0.0), 2, ""),
        ((0.0, -8.0), 2, ""),
        ((8.001, 0.0), 2, "out-of-bounds"),
        ((0.0, -8.001), 2, "out-of-bounds"),
        ((8.0, 0.0), 1, "out-of-bounds"),
        ((6.0, 8.0), 2, ""),  # norm 10
        ((6.001, 8.0), 2, "out-of-bounds"),
        ((3.0, 4.0), 1, ""),  # norm 5
        ((3.001, 4.0), 1, "out-of-bounds"),
        ((np.nan, 0.0), 2, "not-finite"),
        ((0.0, -np.inf), 2, "not-finite"),
    ],
)
def test_what_is_on_the_border_counts_and_what_is_beyond_does_not(
    values: tuple[float, ...], iterations: int, expected: str
) -> None:
    assert reason(gradient(*values, iterations=iterations)) == expected


def test_a_refusal_says_which_bound_was_left() -> None:
    with pytest.raises(GradientRefusedError, match=r"found \|value\| 9, expected at most 8"):
        check_gradient(gradient(9.0, 0.0), 2, BOUNDS)
    with pytest.raises(GradientRefusedError, match=r"found norm 11.3137, expected at most 10"):
        check_gradient(gradient(8.0, 8.0), 2, BOUNDS)


@pytest.mark.parametrize("values", [np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.zeros((1, 2))])
def test_another_shape_is_malformed(values: NDArray[np.float64]) -> None:
    assert reason(gradient(0.0, 0.0)) == ""
    assert reason(Gradient(address(1), "device 1", 0, 40, 2, "", "", values.astype(np.float32))) == "malformed"


def test_other_numbers_than_those_expected_are_malformed() -> None:
    assert reason(gradient(0.0, 0.0), dtype=np.float64) == "malformed"
    assert reason(Gradient(address(1), "device 1", 0, 40, 2, "", "", np.zeros(2)), dtype=np.float64) == ""
