"""Where values lie on a chart."""

import math

from hypothesis import given
from hypothesis import strategies as st

from bfl.dashboard.charts.axes import MOST_POINTS, Frame, number_text, span_of, thinned, ticks


def test_ticks_are_round_numbers_between_the_ends() -> None:
    assert ticks(0.0, 100.0) == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    assert ticks(1.0, 100.0, 8) == [20.0, 40.0, 60.0, 80.0, 100.0]
    assert ticks(0.31, 0.34) == [0.31, 0.32, 0.33, 0.34]
    assert ticks(5.0, 5.0) == [5.0]


@given(low=st.floats(-1e4, 1e4), width=st.floats(1e-3, 1e9))
def test_ticks_are_few_rising_and_inside(low: float, width: float) -> None:
    found = ticks(low, low + width)
    assert len(found) <= 12
    assert found == sorted(found)
    assert all(low - 1e-3 * width <= each <= low + width * 1.001 for each in found)


def test_a_frame_puts_the_lowest_value_at_the_bottom() -> None:
    frame = Frame(10.0, 0.0, 110.0, 50.0, first=1.0, last=11.0, low=0.0, high=5.0)
    assert (frame.x(1.0), frame.x(6.0), frame.x(11.0)) == (10.0, 60.0, 110.0)
    assert (frame.y(0.0), frame.y(5.0)) == (50.0, 0.0)


def test_an_area_begins_at_zero_and_a_line_has_air_around_it() -> None:
    assert span_of([2.0, 10.0], from_zero=True) == (0.0, 10.6)
    low, high = span_of([2.0, 10.0, None, math.nan], from_zero=False)
    assert low < 2.0 < 10.0 < high
    assert span_of([], from_zero=False)[0] < span_of([], from_zero=False)[1]


def test_thinning_keeps_the_one_peak_among_thousands() -> None:
    points = [(float(k), 0.0) for k in range(20_000)]
    points[12_345] = (12_345.0, 9.0)
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS + 2
    assert (12_345.0, 9.0) in kept
    assert kept == sorted(kept)
    assert thinned([(1.0, None), (2.0, math.inf), (3.0, 4.0)]) == [(3.0, 4.0)]


def test_numbers_on_an_axis_are_short() -> None:
    assert [number_text(each) for each in (0.30000000000000004, 1234567.0, 12.0)] == ["0.3", "1,234,567", "12"]
