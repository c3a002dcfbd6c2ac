"""Waiting, on a clock that the test moves."""

import pytest

from chain.client.waiting import retry_until, wait_until


class Time:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        self.s, self.slept = 100.0, list[float]()

    def now(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.s += seconds


def test_what_is_there_is_not_waited_for() -> None:
    time = Time()
    assert wait_until(lambda: "here", 10, now=time.now, sleep=time.sleep) == "here"
    assert time.slept == []


def test_it_looks_again_until_it_is_there() -> None:
    time = Time()
    assert wait_until(lambda: int(time.s - 100) // 3, 60, 1.0, time.now, time.sleep) == 1
    assert time.slept == [1.0] * 3


@pytest.mark.parametrize(("deadline_s", "looks"), [(0.0, 1), (-5.0, 1), (2.5, 4)])
def test_at_the_deadline_it_says_what_is_there(deadline_s: float, looks: int) -> None:
    time, seen = Time(), list[int]()

    def ready() -> list[int]:
        seen.append(len(seen))
        return []

    assert wait_until(ready, deadline_s, 1.0, time.now, time.sleep) == []
    assert len(seen) == looks


def test_what_goes_wrong_is_not_waited_out() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, 10)


class AwayError(Exception):
    """What may pass."""


def test_what_fails_for_now_is_tried_ever_more_slowly_until_it_does_not() -> None:
    time = Time()

    def attempt() -> float:
        if time.s < 104:
            raise AwayError
        return time.s

    assert retry_until(attempt, AwayError, 10, time.now, time.sleep) >= 104
    assert time.slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_at_the_deadline_it_is_raised() -> None:
    time = Time()

    def attempt() -> None:
        raise AwayError

    with pytest.raises(AwayError):
        retry_until(attempt, AwayError, 2, time.now, time.sleep)
    assert sum(time.slept) == pytest.approx(1.55)


def test_without_time_it_is_tried_once_and_other_errors_are_never_tried_again() -> None:
    time, tries = Time(), list[int]()

    def attempt() -> None:
        tries.append(1)
        raise AwayError if len(tries) == 1 else KeyError

    with pytest.raises(AwayError):
        retry_until(attempt, AwayError, 0, time.now, time.sleep)
    with pytest.raises(KeyError):
        retry_until(attempt, AwayError, 10, time.now, time.sleep)
    assert (len(tries), time.slept) == (2, [])
