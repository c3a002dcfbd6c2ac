"""What one visitor may hold of a node that all share (Q6)."""

import asyncio
import threading
import time
from collections.abc import Generator

import pytest

from chain.rpc.connections import VisitLimits, Visits
from chain.rpc.shares import Shares, Turns, in_one_step, visitor_at
from tests.chain.network import Clock

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
    turns, let_go, running = Turns(most=4, most_per_visitor=2, shares=Shares(0.2)), threading.Event(), []

    def slow() -> None:
        running.append(1)
        assert let_go.wait(20)

    async def visits() -> str | None:
        crowd = [asyncio.create_task(turns.answer("a", in_one_step(slow))) for _ in range(20)]
        try:
            while len(running) < 2:
                await asyncio.sleep(0.01)
            return await asyncio.wait_for(turns.answer("b", in_one_step(lambda: "answered")), 10)
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
    visits = Visits(VISIT_LIMITS, Shares(0.2))
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


# --- time


def test_who_has_had_his_share_waits_while_others_ask() -> None:
    clock = Clock(0.0)
    shares = Shares(0.2, clock)
    shares.charge("quick", 0.001)
    shares.charge("greedy", 0.45)
    assert shares.delay_s("quick") == 0
    assert shares.delay_s("greedy") == pytest.approx((0.45 - 0.1) / 0.2)
    clock.pass_s(0.5)
    assert shares.delay_s("greedy") == pytest.approx((0.45 - 0.1 - 0.1) / 0.2)


def test_who_is_alone_never_waits() -> None:
    clock = Clock(0.0)
    shares = Shares(0.2, clock)
    shares.charge("greedy", 100)
    assert shares.delay_s("greedy") == 0
    shares.charge("quick", 0.001)
    assert shares.delay_s("greedy") == pytest.approx((1 - 0.1) / 0.2)  # a debt has an end
    clock.pass_s(1)
    assert shares.delay_s("greedy") == 0  # the other one has left


def test_bytes_cost_time() -> None:
    shares = Shares(0.2, Clock(0.0))
    shares.charge("quick", 0.0)
    shares.charge_bytes("greedy", 100 << 20)
    assert shares.delay_s("greedy") > 2


def test_a_million_visitors_leave_few_debts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.rpc.shares._KNOWN", 10)
    shares = Shares(0.2, Clock(0.0))
    for number in range(1000):
        shares.charge(str(number), 1.0)
    assert len(shares._debts) == 10


def test_answering_is_charged_to_whoever_asked() -> None:
    shares = Shares(0.2)
    turns = Turns(most=4, most_per_visitor=2, shares=shares)
    shares.charge("other", 0.0)

    def busy() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    asyncio.run(turns.answer("greedy", in_one_step(busy)))
    assert 0.1 < shares.delay_s("greedy") < 1.5
    assert shares.delay_s("other") == 0


def test_a_node_that_stops_lets_nobody_wait() -> None:
    shares = Shares(0.2, Clock(0.0))
    shares.charge("greedy", 1.0)
    shares.charge("other", 0.0)

    async def stop_soon() -> None:
        waiting = asyncio.create_task(shares.wait("greedy"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        shares.hurry()
        await asyncio.wait_for(waiting, 5)

    asyncio.run(stop_soon())


def test_however_many_are_greedy_they_have_one_share_together() -> None:
    clock = Clock(0.0)
    shares = Shares(0.2, clock)
    greedy, used_s = [f"10.0.0.{number}" for number in range(20)], 0.0
    for _ in range(10_000):
        clock.pass_s(0.001)
        shares.charge("quick", 0.0004)
        for each in greedy:
            if shares.delay_s(each) == 0:
                shares.charge(each, 0.01)
                used_s += 0.01
        assert shares.delay_s("quick") == 0
    lent_s = 20 * (0.1 + 0.01)
    assert used_s < lent_s + 0.2 * 10 + 0.5


def test_a_connection_costs_too() -> None:
    shares = Shares(0.2, Clock(0.0))
    shares.charge("quick", 0.0)
    for _ in range(1000):
        shares.charge_connection("greedy")
    assert shares.delay_s("greedy") > 1


def test_who_waits_in_the_middle_of_a_batch_holds_no_thread() -> None:
    shares = Shares(0.2)
    turns = Turns(most=2, most_per_visitor=2, shares=shares)

    shares.charge("quick", 0.0)

    def batch(visitor: str) -> Generator[None, None, str]:
        shares.charge(visitor, 1.0)
        yield
        return "at last"

    async def visits() -> str | None:
        greedy = [asyncio.create_task(turns.answer(name, batch(name))) for name in ("a", "b", "c", "d")]
        await asyncio.sleep(0.2)
        try:
            return await asyncio.wait_for(turns.answer("quick", in_one_step(lambda: "answered")), 2)
        finally:
            assert not any(each.done() for each in greedy)
            shares.hurry()
            assert set(await asyncio.gather(*greedy)) == {"at last"}

    assert asyncio.run(visits()) == "answered"


def test_nothing_is_computed_for_somebody_who_has_left() -> None:
    turns, done = Turns(most=2, most_per_visitor=2, shares=Shares(0.2)), []

    def batch() -> Generator[None, None, str]:
        for number in range(100):
            done.append(number)
            yield
        return "too late"

    async def is_gone() -> bool:
        return len(done) == 3

    assert asyncio.run(turns.answer("a", batch(), is_gone)) is None
    assert done == [0, 1, 2]
