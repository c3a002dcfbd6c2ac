"""Verdicts by a root set (P7): on a quadratic loss worked by hand, and whether another's verdict can stand."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.wire.address import Address
from clients.models import Vector
from edge_servers.errors import ReplayError
from edge_servers.learning.filters import make_filters
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.verdicts import SLACK, Bench, Verdict, judged_before, judged_by
from tests.edge_servers.addresses import address

MODEL = np.array([4], np.float32)  # with eta = 1 a gradient of 4 leads to the best model


def gradient(n: int, values: list[float], samples: int = 100, iterations: int = 1) -> Gradient:
    return Gradient(address(n), f"device {n}", 0, samples, iterations, "model", "plan", np.array(values, np.float32))


def gradients(*values: float) -> list[Gradient]:
    return [gradient(n, [value]) for n, value in enumerate(values)]


def square(model: Vector) -> float:
    """Loss w^2, best at 0."""
    return float((model.astype(np.float64) ** 2).sum())


class Quadratic:
    """A jury whose loss is given, and whose own update is a vector of ones."""

    def __init__(self, loss: Callable[[Vector], float] = square) -> None:
        self.loss, self.seen = loss, 0

    def losses(self, models: Sequence[Vector]) -> list[float]:
        self.seen += len(models)
        return [self.loss(model) for model in models]

    def update(self, model: Vector, round_: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.ones(len(model))


def bench(loss: Callable[[Vector], float] = square, model: Vector = MODEL) -> Bench:
    return Bench(Quadratic(loss), model, 1, 1.0)


def by_loss(
    closed: list[Gradient], limit: float = 0.02, loss: Callable[[Vector], float] = square
) -> dict[Address, str]:
    return dict(make_filters(f"harm:{limit}")(closed, judged_by(bench(loss))).removed)


def test_the_gradient_without_which_the_loss_is_lower_is_removed_with_both_losses() -> None:
    # The mean of 2, 2, 2, -6 is 0: loss 16. Without -6 it is 2: loss 4. Without a 2 it is -2/3: loss 21.8.
    told = (
        "found a loss on the root set of 16 with it and 4 without it, expected at most 0.02 of the loss to go with it"
    )
    assert by_loss(gradients(2, 2, 2, -6)) == {address(3): told}


def test_the_worst_goes_first_and_the_rest_are_measured_again() -> None:
    # 4, 4, 4, -1, -21: mean -2, loss 36. Without -21: 2.75, loss 1.5625. Then without -1: 4, loss 0.
    assert list(by_loss(gradients(4, 4, 4, -1, -21))) == [address(4), address(3)]


def test_one_that_only_looked_bad_beside_a_liar_stays() -> None:
    # 6, 3, 3, 12, 0: mean 4.8, loss 0.64. Without 0: 6, loss 4; without 12: 3, loss 1; without 6: 4.5, loss 0.25.
    assert list(by_loss(gradients(6, 3, 3, 12, 0))) == [address(0)]


def test_weights_are_samples_as_in_fedavg() -> None:
    heavy = [gradient(0, [4], 300), gradient(1, [3], 100), gradient(2, [-4], 100)]
    # mean (12 + 3 - 4) / 5 = 2.2, loss 3.24; without the last 3.75, loss 0.0625
    assert by_loss(heavy)[address(2)].startswith("found a loss on the root set of 3.24 with it and 0.0625 without it")


@pytest.mark.parametrize(("limit", "removed"), [(0.74, [address(3)]), (0.76, [])])
def test_a_gain_within_the_limit_removes_nobody(limit: float, removed: list[Address]) -> None:
    # From 16 to 4 is a gain of 75 %.
    assert list(by_loss(gradients(2, 2, 2, -6), limit)) == removed


def test_fewer_than_half_can_be_removed_and_of_equals_the_lower_address_goes_first() -> None:
    assert list(by_loss(gradients(4, 4, -9, -9, -9, -9))) == [address(2), address(3)]


@pytest.mark.parametrize("closed", [[], gradients(4), gradients(4, -90)])
def test_of_two_or_fewer_nobody_is_judged(closed: list[Gradient]) -> None:
    jury = Quadratic()
    result = make_filters("direction+loss")(closed, judged_by(Bench(jury, MODEL, 1, 1.0)))
    assert (list(result.kept), result.removed, jury.seen) == (closed, {}, 0)


def test_the_order_of_the_list_does_not_change_the_verdict() -> None:
    closed = gradients(4, 4, 4, -1, -21)
    assert by_loss(closed[::-1]) == by_loss(closed)


def test_a_gradient_that_blows_the_model_up_is_removed() -> None:
    def fragile(model: Vector) -> float:
        return math.nan if abs(model[0]) > 100 else square(model)

    found = by_loss(gradients(4, 4, 4, 1e6), loss=fragile)
    assert found[address(3)].startswith("found a loss on the root set of inf with it and 0 without it")


def test_loss_after_a_clip_looks_at_what_will_count() -> None:
    # Cut to 2 x 3, 80 makes the mean 4, which is the best; as it is, the mean would be 18.8.
    closed = gradients(3, 3, 3, 5, 80)
    found = make_filters("norm-clip:2+loss")(closed, judged_by(bench()))
    assert ([float(g.values[0]) for g in found.kept], found.removed) == ([3, 3, 3, 5, 6], {})
    assert next(iter(make_filters("harm+norm-clip:2+loss")(closed, judged_by(bench())).removed)) == address(4)


def test_direction_looks_at_the_angle_whatever_the_length() -> None:
    # The root set's update is (1, 1): cosines 1, 0, -0.316, -1, -1.
    closed = [
        gradient(n, values)
        for n, values in enumerate([[1.0, 1.0], [9.0, -9.0], [1.0, -2.0], [-1e-3, -1e-3], [-50.0, -50.0]])
    ]
    result = make_filters("direction:0.2")(closed, judged_by(bench(model=np.zeros(2, np.float32))))
    assert list(result.removed) == [address(3), address(4)], "two of five at most, the worst first"
    assert result.removed[address(3)] == (
        "found a cosine of -1.000 with the update of the root set, expected at least -0.2"
    )
    assert set(result.reasons.values()) == {"direction"}


def test_verdicts_and_other_stages_run_from_left_to_right() -> None:
    """-40 goes before the median is taken: of 2, 2, 3, 8 that is 2.5. With it, it would be 3."""
    closed = gradients(2, 2, 3, 8, -40)
    result = make_filters("direction+norm-clip:1")(closed, judged_by(bench()))
    assert [float(g.values[0]) for g in result.kept] == [2, 2, 2.5, 2.5]
    assert (result.touched, list(result.removed)) == (2, [address(4)])


def test_all_verdicts_together_take_out_less_than_half() -> None:
    closed = gradients(4, 4, 4, -9, -9, 40, 41)
    result = make_filters("direction+harm")(closed, judged_by(bench()))
    assert {result.reasons[who] for who in result.removed} == {"direction", "harm"}
    assert len(result.removed) == 3


def test_of_many_several_are_taken_out_at_a_time_and_the_passes_stay_few() -> None:
    jury = Quadratic()
    closed = gradients(*[4.0] * 90, *[-4.0] * 10)
    result = make_filters("harm:0.03")(closed, judged_by(Bench(jury, MODEL, 1, 1.0)))
    assert set(result.removed) == {address(n) for n in range(90, 100)}
    assert jury.seen == 101 + 96 + 91, "five, five, and nobody"


# --- another's verdict


def checked(text: str, closed: list[Gradient], refused: Sequence[tuple[str, str]]) -> list[Address]:
    result = make_filters(text)(
        closed, judged_before(refused, bench(model=np.full(len(closed[0].values), 4, np.float32)))
    )
    return list(result.removed)


@pytest.mark.parametrize(
    "text", ["harm:0.04", "loss:0.04", "direction:0.1", "direction:0.1+norm-clip:1+loss:0.02", "loss+nnm+direction"]
)
@given(values=st.lists(st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=3), min_size=3, max_size=25))
def test_what_an_honest_server_judges_stands_before_every_other(text: str, values: list[list[float]]) -> None:
    closed = [gradient(n, row) for n, row in enumerate(values)]
    mine = make_filters(text)(closed, judged_by(bench(model=np.full(3, 4, np.float32))))
    said = [(f"device {n}", mine.reasons[address(n)]) for n in range(len(closed)) if address(n) in mine.removed]
    assert set(checked(text, closed, said)) == set(mine.removed)


def test_a_verdict_against_an_honest_one_is_refused() -> None:
    with pytest.raises(ReplayError, match="the verdict loss takes out device 0, which nothing speaks against"):
        checked("loss", gradients(4, 4, 4, 4), [("device 0", "loss")])
    with pytest.raises(ReplayError, match="the verdict direction takes out device 1, which nothing speaks against"):
        checked("direction", gradients(4, 4, 4, 4), [("device 1", "direction")])


def test_a_verdict_that_spares_a_liar_is_refused() -> None:
    for text in ("loss", "direction"):
        with pytest.raises(ReplayError, match=f"the verdict {text} leaves in 0x.*, which the root set speaks against"):
            checked(text, gradients(2, 2, 2, -6), [])


def test_a_verdict_that_takes_out_another_than_the_worst_is_refused() -> None:
    with pytest.raises(ReplayError, match="leaves in"):
        checked("harm", gradients(4, 4, 4, -1, -21), [("device 3", "harm")])


@pytest.mark.parametrize("away", [-0.8 * SLACK, 0.8 * SLACK])
def test_at_the_limit_both_verdicts_stand(away: float) -> None:
    """Without the last the loss goes from 16 to 4, by 75 %: a limit next to that accuses nobody, whoever it was."""
    closed, text = gradients(2, 2, 2, -6), f"harm:{0.75 + away}"
    assert checked(text, closed, []) == []
    assert checked(text, closed, [("device 3", "harm")]) == [address(3)]


def test_without_a_root_set_what_was_judged_is_believed_and_nobody_can_judge() -> None:
    closed = gradients(4, 4, 4, 4)
    assert list(make_filters("loss")(closed, judged_before([("device 0", "loss")])).removed) == [address(0)]
    with pytest.raises(ReplayError, match="the filter loss judges by a root set, and there is none here"):
        make_filters("loss")(closed, judged_by(None))


def test_a_verdict_is_told_by_its_reason_and_its_limit() -> None:
    assert make_filters("norm-clip+loss:0.1").stages[1] == Verdict("loss:0.1", "loss", 0.1)
    assert make_filters("direction+krum+loss").verdicts == ["direction", "loss"]
    assert make_filters("direction+krum+loss").reasons == {"direction", "krum", "loss"}
