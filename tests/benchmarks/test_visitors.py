"""The load test runs, with few of everything, and leaves nothing behind."""

import multiprocessing

import pytest

from benchmarks.visitors import Crowd, Found, Waits, measure, table, visits


@pytest.mark.slow
def test_a_few_visitors_and_a_client_that_is_answered() -> None:
    found = measure(Crowd(size=10, addresses=2, seconds=60.0), count=30)
    for waits in (found.before, found.elsewhere, found.during, found.after):
        assert (len(waits.seconds), waits.failed) == (30, 0)
    assert found.came.keys() == visits().keys()  # without them nothing would be measured
    assert sum(found.came.values()) >= 10
    assert multiprocessing.active_children() == []


def test_the_table_has_all_four_and_both_ratios() -> None:
    before, elsewhere, during, after = (Waits([ms / 1000] * 99 + [4 * ms / 1000], 0) for ms in (2, 3, 6, 1))
    lines = table(Found(before, elsewhere, during, after, {"headers": 7}), 7).splitlines()
    assert lines[2] == "| before | 100 | 0 | 2.1 | 2.0 | 8.0 |"
    assert lines[3] == "| 7 visitors at another node | 100 | 0 | 3.1 | 3.0 | 12.0 |"
    assert lines[4] == "| 7 visitors | 100 | 0 | 6.2 | 6.0 | 24.0 |"
    assert lines[6] == "| ratio to none | | | | 6.0 | 6.0 (goal: 3) |"
    assert lines[7] == "| ratio to another node | | | | 2.0 | 2.0 (goal: 3) |"
    assert lines[9] == "connections of visitors: headers 7"
