"""The filters of P7: by hand, as properties, and bit for bit whatever the order and the memory layout of the list."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from clients.errors import ParameterError
from edge_servers.learning.filtered import Filtered
from edge_servers.learning.filters import make_filter, make_filters
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.rules import folded_sum, krum_scores, norm_per_iteration
from tests.edge_servers.addresses import address

EVERY = [
    "none",
    "norm-clip",
    "norm-clip:1",
    "krum",
    "krum:1",
    "trimmed-mean",
    "trimmed-mean:0.4",
    "median",
    "nnm",
    "nnm:2",
    "centred-clip",
    "centred-clip:0.5",
]
COMBINED = [
    "norm-clip:1.5+median",
    "krum+norm-clip:1",
    "norm-clip+krum:1+trimmed-mean",
    "nnm:2+krum:2",
    "nnm+trimmed-mean",
]


def gradient(n: int, values: ArrayLike, iterations: int = 1, dtype: type = np.float32) -> Gradient:
    return Gradient(address(n), f"device {n}", 0, 100 + n, iterations, "model", "plan", np.array(values, dtype))


def gradients(*rows: ArrayLike) -> list[Gradient]:
    return [gradient(n, row) for n, row in enumerate(rows)]


def honest_and_flipped(devices: int = 13, size: int = 200) -> list[Gradient]:
    """Alike but for noise; device 3 sends its gradient with the sign flipped, times ten."""
    rows = 1 + 0.5 * np.random.default_rng(3).normal(size=(devices, size))
    rows[3] *= -10
    return gradients(*rows)


def bits(result: Filtered) -> tuple[object, ...]:
    """All that an auditor recomputes, whatever the order."""
    kept = sorted((g.sender, g.samples, g.iterations, g.values.astype(np.float64).tobytes()) for g in result.kept)
    return kept, sorted(result.removed.items()), result.touched


finite = st.floats(-100, 100, width=32)


@st.composite
def closed_lists(draw: st.DrawFn, fewest: int = 0, most: int = 9) -> list[Gradient]:
    size = draw(st.integers(1, 5))
    vector = st.lists(finite, min_size=size, max_size=size)
    rows = draw(st.lists(st.tuples(vector, st.integers(1, 20)), min_size=fewest, max_size=most))
    return [gradient(n, values, iterations) for n, (values, iterations) in enumerate(rows)]


def test_norm_clip_scales_what_is_longer_than_three_medians_down_to_three_medians() -> None:
    closed = gradients([3, 4], [0, 5], [30, 40], [15, 0], [-5, 0])  # norms 5, 5, 50, 15, 5: at 15 nothing happens
    result = make_filter("norm-clip")(closed)
    assert result.kept[2].values.tolist() == pytest.approx([9, 12], rel=1e-15)
    assert result.kept[2].values.dtype == np.float64
    assert [a is b for a, b in zip(result.kept, closed, strict=True)] == [True, True, False, True, True]
    assert (result.touched, result.removed) == (1, {})


def test_norm_clip_compares_norms_per_iteration() -> None:
    closed = [gradient(0, [6, 8], 10), gradient(1, [1, 0]), gradient(2, [0, 40], 10)]  # norms 1, 1, 4 per iteration
    result = make_filter("norm-clip:2")(closed)
    assert [g.values.tolist() for g in result.kept] == [[6, 8], [1, 0], [0, 20]]
    assert [g.iterations for g in result.kept] == [10, 1, 10]


def test_krum_keeps_those_that_have_near_neighbours() -> None:
    closed = gradients([0], [1], [2], [9], [4])  # n = 5, f = 1: two nearest of each
    result = make_filter("krum")(closed)  # scores 1+4, 1+1, 1+4, 25+49, 4+9
    assert [g.node for g in result.kept] == ["device 0", "device 1", "device 2", "device 4"]
    assert all(a is b for a, b in zip(result.kept, [*closed[:3], closed[4]], strict=True))
    sums = "found 74 as sum of squared distances to its 2 nearest, expected at most 13"
    assert (result.removed, result.touched) == ({address(3): sums}, 0)


def test_krum_compares_gradients_per_iteration() -> None:
    closed = [gradient(n, [10.0 * n], 10) for n in range(4)] + [gradient(4, [30], 1)]
    assert list(make_filter("krum")(closed).removed) == [address(4)]


def test_krum_breaks_ties_by_address() -> None:
    assert list(make_filter("krum")(gradients([-2], [-1], [0], [1], [2])).removed) == [address(4)]


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("krum", {3: 0, 4: 0, 5: 1, 13: 2, 14: 2, 15: 3, 100: 20}),
        ("krum:2", {6: 0, 7: 2, 100: 2}),
        ("krum:5", {12: 0, 13: 5}),
    ],
)
def test_krum_takes_out_one_in_five_or_as_many_as_told_and_none_of_too_few(text: str, removed: dict[int, int]) -> None:
    for devices, expected in removed.items():
        closed = gradients(*np.random.default_rng(devices).normal(size=(devices, 4)))
        assert len(make_filter(text)(closed).removed) == expected


def test_trimmed_mean_replaces_both_ends_of_each_coordinate_by_the_mean_of_the_middle() -> None:
    closed = gradients([1, 5], [2, 5], [6, 5], [100, 4], [-9, 6])
    result = make_filter("trimmed-mean")(closed)  # middles 1, 2, 6 and 5, 5, 5
    assert [g.values.tolist() for g in result.kept] == [[1, 5], [2, 5], [6, 5], [3, 5], [3, 5]]
    assert result.touched == 2
    assert result.kept[0] is closed[0]


def test_trimmed_mean_cuts_its_share_at_each_end_and_times_iterations_again() -> None:
    closed = [gradient(n, [v], e) for n, (v, e) in enumerate([(0, 2), (2, 2), (8, 2), (40, 4), (400, 8)])]
    result = make_filter("trimmed-mean:0.4")(closed)  # 0, 1, 4, 10, 50 per iteration: 4 is the middle
    assert [g.values.tolist() for g in result.kept] == [[8], [8], [8], [16], [32]]
    assert result.kept[2] is closed[2]


def test_rounding_does_not_carry_the_trimmed_mean_out_of_the_middle() -> None:
    closed = [gradient(n, [value], dtype=np.float64) for n, value in enumerate([9, *[0.1] * 10, -9])]
    assert make_filter("trimmed-mean")(closed).kept[0].values.tolist() == [0.1]  # ten times 0.1 is 0.9999999999999999


def test_median_gives_everyone_the_median_times_its_iterations() -> None:
    closed = [gradient(0, [1, 8], 1), gradient(1, [4, 0], 2), gradient(2, [90, 12], 3)]
    result = make_filter("median")(closed)  # per iteration 1, 2, 30 and 8, 0, 4
    assert [g.values.tolist() for g in result.kept] == [[2, 4], [4, 8], [6, 12]]
    assert [(g.samples, g.iterations) for g in result.kept] == [(100, 1), (101, 2), (102, 3)]
    assert result.touched == 3


def test_the_median_of_an_even_number_is_between_the_middle_two_and_who_has_it_already_is_the_same_object() -> None:
    closed = gradients([1], [3.5], [3.5], [100])
    result = make_filter("median")(closed)
    assert [a is b for a, b in zip(result.kept, closed, strict=True)] == [False, True, True, False]
    assert {float(g.values[0]) for g in make_filter("median")(gradients([1], [2], [5], [100])).kept} == {3.5}


def test_filters_combine_from_left_to_right() -> None:
    closed = gradients([1, 0], [0, 1], [0, 1], [6, 8], [6, 8])  # norms 1, 1, 1, 10, 10
    clipped_first, median_first = make_filter("norm-clip:1+median")(closed), make_filter("median+norm-clip:1")(closed)
    assert [g.values.tolist() for g in clipped_first.kept] == [pytest.approx([0.6, 0.8])] * 5
    assert [g.values.tolist() for g in median_first.kept] == [[1, 1]] * 5
    assert clipped_first.touched == median_first.touched == 5


def test_a_combination_removes_for_the_reason_of_krum() -> None:
    both = make_filter("krum+norm-clip:1")
    assert (both.name, both.reason) == ("krum+norm-clip:1", "krum")
    result = both(gradients([1], [1], [1], [2], [50]))
    assert list(result.removed) == [address(4)]
    assert [g.values.tolist() for g in result.kept] == [[1], [1], [1], [1]]
    assert result.touched == 1
    assert [make_filter(text).reason for text in ("none", "median", "krum:2", "none+median")] == ["", "", "krum", ""]


def test_a_gradient_with_flipped_sign_times_ten_is_removed_by_krum() -> None:
    assert address(3) in make_filter("krum")(honest_and_flipped()).removed
    assert list(make_filter("krum:1")(honest_and_flipped()).removed) == [address(3)]


@pytest.mark.parametrize("text", ["median", "trimmed-mean"])
def test_a_gradient_with_flipped_sign_times_ten_is_neutralised_coordinate_by_coordinate(text: str) -> None:
    closed = honest_and_flipped()
    honest = np.stack([g.values for g in closed if g.node != "device 3"])
    liar = make_filter(text)(closed).kept[3].values
    assert (liar >= honest.min(axis=0)).all()
    assert (liar <= honest.max(axis=0)).all()
    assert abs(liar.mean() - 1) < 0.1


@pytest.mark.parametrize("text", EVERY + COMBINED)
@given(closed=closed_lists(), rng=st.randoms(use_true_random=False))
def test_the_order_of_the_list_does_not_change_a_bit(text: str, closed: list[Gradient], rng: object) -> None:
    shuffled = list(closed)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    result = make_filter(text)(shuffled)
    assert bits(result) == bits(make_filter(text)(closed))
    assert [g.sender for g in result.kept] == [g.sender for g in shuffled if g.sender not in result.removed]


LAYOUTS: dict[str, Callable[[NDArray[np.floating]], NDArray[np.floating]]] = {
    "every third of a longer array": lambda x: np.repeat(x, 3)[::3],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "big-endian": lambda x: x.astype(">f4"),
    "off a vector register's border": lambda x: np.concatenate([x[:1], x])[1:],
    "float64": lambda x: x.astype(np.float64),
}


@pytest.mark.parametrize("text", EVERY + COMBINED)
def test_the_memory_layout_of_the_values_does_not_change_a_bit(text: str) -> None:
    rng = np.random.default_rng(5)
    closed = [gradient(n, rng.normal(size=1001) * 2.0 ** (n % 3), 1 + n % 4) for n in range(13)]
    expected = make_filter(text)(closed)
    for layout in LAYOUTS.values():
        result = make_filter(text)([replace(g, values=layout(g.values)) for g in closed])
        assert bits(result) == bits(expected)


def test_negative_zeros_do_not_make_bits_depend_on_how_a_cpu_sorts() -> None:
    for text in ("median", "trimmed-mean"):
        result = make_filter(text)(gradients([-0.0], [0.0], [-0.0], [5], [-5]))
        assert not any(np.signbit(g.values[0]) for g in result.kept[3:])


@given(st.lists(st.floats(-1e9, 1e9), max_size=70))
def test_a_folded_sum_is_the_exact_sum_but_for_rounding(values: list[float]) -> None:
    close = (
        2.0**-53 * 7 * 1.01 * math.fsum(abs(value) for value in values)
    )  # seven folds, each of half a unit in the last place
    assert abs(folded_sum(np.array(values, np.float64)) - math.fsum(values)) <= close


def plain_fold(x: list[float]) -> float:
    """The same sum in Python's own floats, one addition at a time."""
    if len(x) == 1:
        return x[0]
    half = (len(x) + 1) // 2
    return plain_fold([x[i] + x[half + i] if half + i < len(x) else x[i] for i in range(half)])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1001, 21840])
def test_norms_and_distances_have_the_bits_of_plain_python(size: int) -> None:
    rows = np.random.default_rng(size).normal(size=(9, size)).astype(np.float32).astype(np.float64)
    for n, row in enumerate(rows):
        assert folded_sum(row.copy()) == plain_fold(row.tolist())
        assert norm_per_iteration(gradient(n, row)) == math.sqrt(plain_fold([x * x for x in row.tolist()]))
    assert krum_scores(gradients(*rows[:2]), 1) == [plain_fold([x * x for x in (rows[0] - rows[1]).tolist()])] * 2


@given(closed_lists(), st.floats(1, 10))
def test_norm_clip_never_lengthens_and_leaves_nobody_above_the_limit(closed: list[Gradient], factor: float) -> None:
    result = make_filter(f"norm-clip:{factor}")(closed)
    before = [norm_per_iteration(g) for g in closed]
    after = [norm_per_iteration(g) for g in result.kept]
    assert all(b <= a for a, b in zip(before, after, strict=True))
    if len(closed) >= 3:
        assert max(after) <= factor * float(np.median(before)) * (1 + 1e-12)


@pytest.mark.parametrize("text", ["median", "trimmed-mean", "trimmed-mean:0.3"])
@given(closed=closed_lists(fewest=3))
def test_median_and_trimmed_mean_stay_between_the_smallest_and_the_largest(text: str, closed: list[Gradient]) -> None:
    rows = np.stack([g.values.astype(np.float64) / g.iterations for g in closed])
    low, high = rows.min(axis=0), rows.max(axis=0)
    for g in make_filter(text)(closed).kept:
        row, slack = g.values.astype(np.float64) / g.iterations, 1e-15 * np.maximum(abs(low), abs(high))
        assert (row >= low - slack).all()
        assert (row <= high + slack).all()


@given(st.integers(1, 4), st.integers(0, 6), st.integers(0, 10**6))
def test_krum_removes_exactly_the_outliers(f: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2 * f + 3 + more
    rows = rng.uniform(-1, 1, (n, 6))
    liars = rng.permutation(n)[:f]
    rows[liars] += 100 * rng.choice([-1, 1], (f, 6))
    result = make_filter(f"krum:{f}")(gradients(*rows))
    assert set(result.removed) == {address(n) for n in map(int, liars)}


@pytest.mark.parametrize("text", EVERY + COMBINED)
@given(closed=closed_lists(most=2))
def test_a_list_of_two_or_fewer_passes_through_untouched(text: str, closed: list[Gradient]) -> None:
    result = make_filter(text)(closed)
    assert [id(g) for g in result.kept] == [id(g) for g in closed]
    assert (result.touched, result.removed) == (0, {})


@pytest.mark.parametrize("text", EVERY + COMBINED)
def test_a_filter_is_named_by_its_text_and_never_writes_into_what_it_is_given(text: str) -> None:
    closed = honest_and_flipped()
    for g in closed:
        g.values.flags.writeable = False
    assert make_filter(text).name == text
    result = make_filter(text)(closed)
    changed = [g for g in result.kept if not any(g is other for other in closed)]
    assert len(changed) == result.touched
    assert all(g.values.dtype == np.float64 for g in changed)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("krumm none+krumm", 'expected none, .*did you mean "krum"'),
        ("norm-clp norm-clp+median", 'did you mean "norm-clip"'),
        (
            " + median+ +median",
            "expected none, median, norm-clip, krum, trimmed-mean, nnm, centred-clip, direction, harm, loss",
        ),
        ("norm-clip:nan norm-clip:inf norm-clip:0.9 norm-clip:x norm-clip:", "a finite factor of at least 1"),
        ("krum:0 krum:-1 krum:1.5 krum: nnm:0 nnm:x", "at least 1"),
        ("centred-clip:0 centred-clip:nan centred-clip:inf", "a finite factor above 0"),
        ("loss:1 loss:-0.1 loss:nan direction:1 direction:", "0 <= limit < 1"),
        ("loss+loss:0.1 direction+krum+direction", "once"),
        ("trimmed-mean:0 trimmed-mean:0.5 trimmed-mean:nan trimmed-mean:", "0 < share < 0.5"),
        ("median:3 none: none+median:", "without a number"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(texts: str, message: str) -> None:
    for text in texts.split(" "):
        with pytest.raises(ParameterError, match=f'filter: found "{re.escape(text)}", .*{message}'):
            make_filters(text)
