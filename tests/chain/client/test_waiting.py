"""Waiting, on a clock that the test moves."""

import pytest

from chain.client.waiting import wait_until


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
