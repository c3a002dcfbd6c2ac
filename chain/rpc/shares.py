"""What one visitor may have of a node that all share (Q6): bytes of requests, answers at once, time of the processor.

Whoever holds most gives way: who fills the node's memory from one place takes it from nobody but himself.
"""

import asyncio
import contextlib
import functools
import ipaddress
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import anyio.to_thread

_KNOWN = 10_000
_SITE_BITS = 64
_ACTIVE_S = 1.0
_MOST_DEBT_S, _LENT_S = 1.0, 0.1
_FREE_SHARE = 0.5
"""Seconds per second that anybody pays off while he owes no more than is lent"""
_NAP_S, _GONE_S = 0.25, 5.0
_READING_S_PER_BYTE, _CONNECTING_S = 5e-9, 5e-4
"""What it costs to take in a byte of a request, and a connection"""
T = TypeVar("T")


@functools.lru_cache(maxsize=_KNOWN)
def visitor_at(host: str) -> str:
    """Who counts as one visitor: an address; of IPv6 the 64 bits that a provider gives to one customer."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _SITE_BITS), strict=False))


@dataclass(eq=False)
class Arrival:
    """A request that is arriving, or has arrived and is being answered."""

    visitor: str
    timeout: asyncio.Timeout
    size: int = 0
    is_whole: bool = False
    is_given_up: bool = field(default=False, init=False)


class Arrivals:
    """The bytes of all requests that are arriving or being answered."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._all: set[Arrival] = set()

    @contextlib.contextmanager
    def arriving(self, visitor: str, read_s: float) -> Iterator[Arrival]:
        """A request, until it is answered."""
        arrival = Arrival(visitor, asyncio.timeout(read_s))
        self._all.add(arrival)
        try:
            yield arrival
        finally:
            self._all.discard(arrival)

    def hold(self, arrival: Arrival, size: int, its_most: int) -> None:
        """So many bytes of it are here; while all are too many, the largest of whoever sends most is given up."""
        arrival.size = 0 if arrival.is_given_up else size
        while sum(each.size for each in self._all) > max(self._most, its_most):
            arriving = [each for each in self._all if each.size and not each.is_whole]
            if not arriving:
                return
            held: Counter[str] = Counter()
            for each in arriving:
                held[each.visitor] += each.size
            _give_up(max(arriving, key=lambda each: (held[each.visitor], each.size)))

    def hurry(self) -> None:
        """Wait no longer for requests that are arriving."""
        for each in self._all:
            _expire(each)


def _give_up(arrival: Arrival) -> None:
    """Read no more of it; what was read is forgotten as soon as its reader hears of it."""
    arrival.is_given_up, arrival.size = True, 0
    _expire(arrival)


def _expire(arrival: Arrival) -> None:
    if not arrival.is_whole and arrival.timeout.when() is not None and not arrival.timeout.expired():
        arrival.timeout.reschedule(0.0)


class Shares:
    """Seconds of the processor that visitors have used. Who has used more than his share waits, while others ask.

    Who is alone never does. For any thread.
    """

    def __init__(self, share: float, now: Callable[[], float] = time.monotonic) -> None:
        """`share`: seconds per second."""
        self._share, self._now, self._lock = share, now, threading.Lock()
        self._is_over = False
        self._debts: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """(seconds used and not paid off, when that was), the last one who asked last"""
        self._over: OrderedDict[str, float] = OrderedDict()
        """Who has lately had more than his share, and when; all of them have one share together"""

    def charge(self, visitor: str, seconds: float) -> None:
        """He has used so much."""
        with self._lock:
            now = self._now()
            debt_s = min(_MOST_DEBT_S, self._debt_s(visitor, now) + seconds)
            self._debts[visitor] = debt_s, now
            self._debts.move_to_end(visitor)
            if debt_s > _LENT_S:
                self._over[visitor] = now
                self._over.move_to_end(visitor)
            while self._over and now - next(iter(self._over.values())) > _GONE_S:
                self._over.popitem(last=False)
            if len(self._debts) > _KNOWN:
                self._debts.popitem(last=False)

    def charge_bytes(self, visitor: str, size: int) -> None:
        """So much of a request of his was taken in."""
        self.charge(visitor, size * _READING_S_PER_BYTE)

    def charge_connection(self, visitor: str) -> None:
        """He has come."""
        self.charge(visitor, _CONNECTING_S)

    def delay_s(self, visitor: str) -> float:
        """How long he waits now."""
        with self._lock:
            now = self._now()
            others = (since for name, (_, since) in reversed(self._debts.items()) if name != visitor)
            if self._is_over or now - next(others, -_ACTIVE_S) >= _ACTIVE_S:
                return 0.0
            debt_s = self._debt_s(visitor, now)
            return max(0.0, debt_s - _LENT_S) * max(1, len(self._over)) / self._share

    async def wait(self, visitor: str) -> None:
        """Let others go first, if he has had his share."""
        while (delay_s := self.delay_s(visitor)) > 0:
            await asyncio.sleep(min(delay_s, _NAP_S))

    def hurry(self) -> None:
        """Nobody waits any more: the node stops."""
        self._is_over = True

    def _debt_s(self, visitor: str, now: float) -> float:
        """What is left of it: beyond what is lent, all who owe pay with one share between them; below, each his own."""
        debt_s, since = self._debts.get(visitor, (0.0, now))
        passed_s, slow = now - since, self._share / max(1, len(self._over))
        if debt_s > _LENT_S:
            paying_s = min(passed_s, (debt_s - _LENT_S) / slow)
            debt_s, passed_s = debt_s - slow * paying_s, passed_s - paying_s
        return max(0.0, debt_s - _FREE_SHARE * passed_s)


def in_one_step(ask: Callable[[], T]) -> Generator[None, None, T]:
    """For `Turns`: what is not worth interrupting."""
    yield from ()
    return ask()


async def _stays() -> bool:
    return False


class Turns:
    """Requests that are answered at once, in all and of one visitor; the others wait, each in the queue of his own."""

    def __init__(self, most: int, most_per_visitor: int, shares: Shares) -> None:
        self._most, self._most_per_visitor, self._shares = most, most_per_visitor, shares
        self._threads: anyio.CapacityLimiter | None = None
        self._own: dict[str, tuple[asyncio.Semaphore, int]] = {}

    async def answer(
        self, visitor: str, steps: Generator[None, None, T], is_gone: Callable[[], Awaitable[bool]] = _stays
    ) -> T | None:
        """What the steps come to, each from a thread and charged; None once whoever asked is gone.

        Who waits between two steps holds no thread.
        """
        if self._threads is None:  # it belongs to the loop that runs
            self._threads = anyio.CapacityLimiter(self._most)
        async with self._turn(visitor):
            while True:
                await self._shares.wait(visitor)
                if await is_gone():
                    return None
                found = await anyio.to_thread.run_sync(self._step, visitor, steps, limiter=self._threads)
                if found:
                    return found[0]

    def _step(self, visitor: str, steps: Generator[None, None, T]) -> tuple[()] | tuple[T]:
        """One step; what they come to once there is none left."""
        before_s = time.thread_time()
        try:
            next(steps)
        except StopIteration as end:
            return (end.value,)
        finally:
            self._shares.charge(visitor, time.thread_time() - before_s)
        return ()

    @contextlib.asynccontextmanager
    async def _turn(self, visitor: str) -> AsyncIterator[None]:
        queue, users = self._own.get(visitor, (asyncio.Semaphore(self._most_per_visitor), 0))
        self._own[visitor] = queue, users + 1
        try:
            async with queue:
                yield
        finally:
            queue, users = self._own.pop(visitor)
            if users > 1:
                self._own[visitor] = queue, users - 1
