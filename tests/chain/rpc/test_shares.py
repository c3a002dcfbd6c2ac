"""What one visitor may hold of a node that all share (Q6)."""

import asyncio
import threading

import pytest

from chain.rpc.connections import VisitLimits, Visits
from chain.rpc.shares import Turns, visitor_at

VISIT_LIMITS = VisitLimits(most=10, most_per_visitor=10, header_s=1.0, answer_s=1.0, most_unsent_bytes=100)


@pytest.mark.parametrize(
    ("host", "visitor"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_a_visitor_is_an_address_or_a_site(host: str, visitor: str) -> None:
    assert visitor_at(host) == visitor


def test_one_visitor_does_not_take_every_turn() -> None:
    turns, let_go, running = Turns(most=4, most_per_visitor=2), threading.Event(), []

    def slow() -> None:
        running.append(1)
        assert let_go.wait(20)

    async def visits() -> str:
        crowd = [asyncio.create_task(turns.answer("a", slow)) for _ in range(20)]
        try:
            return await asyncio.wait_for(turns.answer("b", lambda: "answered"), 10)
        finally:
            assert len(running) == 2
            let_go.set()
            await asyncio.gather(*crowd)

    assert asyncio.run(visits()) == "answered"
    assert len(running) == 20
    assert turns._own == {}


class Unsent:
    """A connection with bytes that its client does not take."""

    def __init__(self, visits: Visits, visitor: str, unsent: int) -> None:
        self.visitor, self.unsent, self.is_gone = visitor, unsent, False
        self._visits = visits
        assert visits.admit(self)  # type: ignore[arg-type]

    def leave(self) -> None:
        self.is_gone = True
        self._visits.forget(self)  # type: ignore[arg-type]


def test_answers_that_nobody_takes_make_room_for_others() -> None:
    visits = Visits(VISIT_LIMITS)
    crowd = [Unsent(visits, "a", size) for size in (20, 21, 22)]
    single, idle = Unsent(visits, "b", 30), Unsent(visits, "c", 0)
    visits.make_room(7)
    assert not any(each.is_gone for each in (*crowd, single))
    visits.make_room(40)
    assert [each.is_gone for each in crowd] == [False, True, True]
    assert not single.is_gone
    visits.make_room(1000)  # larger than all: nothing else is left
    assert [each.is_gone for each in (*crowd, single, idle)] == [True] * 4 + [False]
    assert len(visits) == 1
