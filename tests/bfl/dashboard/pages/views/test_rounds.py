"""Rounds: the list, and one of them."""

import pytest

from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import RefusedNode
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.rounds import (
    assignment_table,
    barred_in,
    find_round,
    latency_table,
    phases_table,
    round_view,
    rounds_table,
)  # fmt: skip
from tests.bfl.dashboard.pages.browsing import block, fact, lie, snapshot

TO = Links()
LATE = RefusedNode("device 3", "late", "no answer within 5 s")


def test_rounds_come_newest_first() -> None:
    table = rounds_table(snapshot([fact(k) for k in range(1, 4)]), TO, 1, 2)
    assert [row[0].text for row in table.rows] == ["3", "2"]
    row = table.rows[0]
    assert [each.text for each in row] == [
        "3", "50.00 %", "1.500", "server 0", "device 1", "3", "3", "", "3.25 s", "", "0.875 s", "",
    ]  # fmt: skip
    assert len(row) == len(table.columns)


def test_who_is_excluded_after_a_round_may_not_post_in_the_next() -> None:
    rounds = [fact(1), fact(2, excluded=(1,)), fact(3, excluded=(1,)), fact(4)]
    assert [barred_in(rounds, k) for k in range(1, 6)] == [(), (), (1,), (1,), ()]


def test_a_round_is_told_whole() -> None:
    rounds = [
        fact(1, excluded=(1,)),
        fact(2, refused=(LATE,), absent=("server 0",), failed_leaders=(1,), offences=(lie(2),)),
    ]
    view = round_view(snapshot(rounds, [block(n) for n in range(4)]), 2, TO)
    facts = {name: value for name, value, _ in view.facts}
    assert (view.previous, view.next, view.block, view.block_label) == ("/round/1", "", "/block/3", "block 3")
    assert facts["excluded"].rest[0].text == "server 1"
    assert facts["absent"].rest[0].text == "server 0"
    assert facts["passed over"].rest[0].text == "server 1"
    assert [each.text for each in view.refused.rows[0]] == [
        "device 3", "late", "came after the deadline of the plan", "no answer within 5 s",
    ]  # fmt: skip
    assert [(row[0].text, row[1].text, row[2].text) for row in view.latency.rows] == [
        ("learning", "1.00 s", "0.500 s"), ("consensus", "0.250 s", "0.250 s"), ("mining", "2.00 s", "2.00 s"),
        ("together", "3.25 s", "2.75 s"), ("clock on the wall", "0.800 s", "0.700 s"),
    ]  # fmt: skip
    assert [(row[0].text, row[1].text) for row in view.phases.rows][-1] == ("together", "0.875")
    assert view.offences.rows[0][-1].href == "/offence/2-server-1-3"


def test_who_trains_for_whom_is_a_row_each() -> None:
    rounds = [fact(1, refused=(LATE,))]
    table = assignment_table(snapshot(rounds), rounds[0], TO, 1)
    assert [[each.text for each in row] for row in table.rows] == [
        ["device 0", "server 0", "server 0", ""],
        ["device 1", "server 1", "itself", "sealed the block"],
        ["device 2", "server 0", "server 1", ""],
        ["device 3", "server 1", "server 0", "refused: late"],
    ]
    unknown = assignment_table(snapshot([fact(1, None)]), fact(1, None), TO, 1)
    assert (unknown.rows, unknown.empty) == ((), "nobody knows: the plan is not here")


def test_charts_are_tables_too() -> None:
    known = snapshot([fact(1), fact(2, measured={"learn": 4.0})])
    latency = latency_table(known, TO, 5)
    names = [each.label for each in latency.columns]
    newest = dict(zip(names, (each.text for each in latency.rows[0]), strict=True))
    assert (newest["round"], newest["paper T"], newest["real mine"], newest["measured learn"]) == (
        "2",
        "3.25",
        "2.00",
        "4.00",
    )
    phases = phases_table(known, TO, 1)
    assert [[each.text for each in row] for row in phases.rows] == [["2", "0.125", "0.500", "0.250"]]


def test_a_round_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFoundError, match="found round 3, expected 1 to 2"):
        find_round([fact(1), fact(2)], 3)
    with pytest.raises(NotFoundError, match="no round is finished yet"):
        find_round([], 1)
