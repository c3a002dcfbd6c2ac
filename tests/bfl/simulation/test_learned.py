"""When a run is said to have learned nothing."""

from typing import Any

import pytest

from bfl.simulation.learned import why_nothing_learned


def line(round_: int, accuracy: float | None, loss: float | None, refused: int = 0, counted: int = 5) -> dict[str, Any]:
    """A round with ten classes."""
    reasons = [{"reason": "out-of-bounds"}] * refused
    return {"round": round_, "accuracy": accuracy, "loss": loss, "refused": reasons, "training-nodes": counted}


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (
            [line(1, 0.1, 2.3, refused=5, counted=0)],
            "no gradient counted in any of 1 rounds (out-of-bounds 5 times)",
        ),
        ([line(1, 0.1, 2.3, counted=0)], "no gradient counted in any of 1 rounds (nobody trained)"),
        ([line(1, 0.8, 0.5), line(2, 0.1, None)], "the loss is no number any more after round 2; try a smaller"),
        ([line(1, 0.1, 5e9)], "accuracy 10.00 % is that of guessing among 10 classes, and the loss 5e+09 is worse"),
        ([line(1, 0.11, 5e9)], "accuracy 11.00 % is that of guessing among 10 classes, and the loss 5e+09 is worse"),
        ([line(1, 0.1, 8.0), line(2, 0.1, 8.0)], "accuracy 10.00 % is that of guessing among 10 classes, and the loss"),
        ([line(1, 0.1, 2.3, refused=5)], "accuracy 10.00 % is that of guessing among 10 classes, and 5 gradients were"),
        ([line(k, 0.1, 2.3, refused=k == 3) for k in range(1, 11)], "accuracy 10.00 % is that of guessing among 10"),
    ],
)
def test_a_run_that_learned_nothing_is_told_why(metrics: list[dict[str, Any]], told: str) -> None:
    assert why_nothing_learned(metrics, 10).startswith(told)


@pytest.mark.parametrize(
    "metrics",
    [
        [],
        [line(1, None, None)],
        [line(1, 0.1, 2.29)],  # at its beginning
        [line(1, 0.1, 8.0)],  # of a deep network
        [line(k, 0.1, 2.3) for k in range(1, 30)],  # slow, and nobody was refused
        [line(1, 0.1, 2.3, refused=1)],  # one device of six
        [line(1, 0.8, 30.0)],  # sure of its errors, but right in most
        [line(1, 0.3, 2.1, refused=5)],
    ],
)
def test_a_run_that_learned_or_only_began_to_is_left_in_peace(metrics: list[dict[str, Any]]) -> None:
    assert why_nothing_learned(metrics, 10) == ""
