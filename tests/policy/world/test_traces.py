"""Speeds and availability as texts: what they mean, and that a file says the same as its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.errors import PolicyError
from policy.world.traces import MOST_TEXT, Span, read_speeds, read_trace, trace_of_csv


def rounds_of(text: str, until: int = 30) -> list[int]:
    """The rounds in which device 0 is there."""
    spans = read_trace(text)[0]
    return [k for k in range(1, until + 1) if any(span.has(k) for span in spans)]


def test_spans_are_rounds_from_to() -> None:
    assert rounds_of("0:3-5") == [3, 4, 5]
    assert rounds_of("0:3") == [3]
    assert rounds_of("0:2-3, 9 ,28-") == [2, 3, 9, 28, 29, 30]
    assert rounds_of("0:2;1:5-;0:4") == [2, 4]


def test_a_period_comes_back() -> None:
    assert rounds_of("0:3-5/10") == [3, 4, 5, 13, 14, 15, 23, 24, 25]
    assert rounds_of("0:1/2", 7) == [1, 3, 5, 7]


@given(st.integers(1, 50), st.integers(0, 10), st.integers(0, 20), st.integers(1, 200))
def test_a_period_is_the_remainder_of_the_rounds_since_the_first(first: int, more: int, rest: int, round_: int) -> None:
    every = more + 1 + rest
    expected = round_ >= first and (round_ - first) % every <= more
    assert Span(first, first + more, every).has(round_) is expected


def test_a_file_says_the_same_as_its_text() -> None:
    text = trace_of_csv("device,from,to,every\n3,5,8,20\n0,1,10,\n0,31,,\n\n1,4,4\n", "a.csv")
    assert text == "0:1-10,31-;1:4;3:5-8/20"
    assert trace_of_csv("0,1,10\n", "a.csv") == trace_of_csv("\ufeffdevice,from,to\n0,1,10\n", "a.csv") == "0:1-10"
    assert {n: [str(span) for span in spans] for n, spans in read_trace(text).items()} == {
        0: ["1-10", "31-"], 1: ["4"], 3: ["5-8/20"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("three:1-5", "expected DEVICE:FROM-TO"),
        ("3", "expected DEVICE:FROM-TO"),
        ("3:", "expected DEVICE:FROM-TO"),
        ("3:x", "expected rounds such as 5-8"),
        ("3:1-5,", "expected rounds such as 5-8"),
        ("3:0-5", "expected them from 1 on"),
        ("3:8-5", "the last not before the first"),
        ("3:1-5/4", "a period longer than the rounds in it"),
        ("3:5-/9", "a period longer than the rounds in it"),
        ("3:1-9;" * MOST_TEXT, "at most 32,000"),
        ("9" * 5000 + ":1-9", "expected DEVICE:FROM-TO"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        read_trace(text)


@pytest.mark.parametrize("row", ["0,1", "0,,5", "a,1,5", "0,1,5,2,9", "0,1,5,x", "0,5,1", "-1,1,5"])
def test_a_row_that_is_none_is_refused_by_its_number(row: str) -> None:
    with pytest.raises(PolicyError, match=r"a\.csv, row 2: found|found rounds"):
        trace_of_csv(f"device,from,to,every\n1,1,5,\n{row}\n", "a.csv")


def test_speeds_are_factors_or_a_width() -> None:
    assert read_speeds("") == ()
    assert read_speeds("1, 1,0.1") == (1.0, 1.0, 0.1)
    assert read_speeds("lognormal:0.5") == 0.5


@pytest.mark.parametrize("text", ["fast", "0", "1,-1", "nan", "1e9", "lognormal:", "lognormal:nan", "lognormal:9"])
def test_what_is_no_speed_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="expected factors of the CPU"):
        read_speeds(text)


def test_what_is_no_csv_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"a\.csv: is no CSV \(field larger than"):
        trace_of_csv('0,1,"' + "2" * 200_000, "a.csv")
