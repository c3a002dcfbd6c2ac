"""What one visitor may hold of a node that all share (Q6): bytes of requests, and requests that are answered at once.

Whoever holds most gives way: who fills the node's memory from one place takes it from nobody but himself.
"""

import asyncio
import contextlib
import functools
import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import anyio.to_thread

_KNOWN = 10_000
_SITE_BITS = 64
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


class Turns:
    """Requests that are answered at once, in all and of one visitor; the others wait, each in the queue of his own."""

    def __init__(self, most: int, most_per_visitor: int) -> None:
        self._most, self._most_per_visitor = most, most_per_visitor
        self._threads: anyio.CapacityLimiter | None = None
        self._own: dict[str, tuple[asyncio.Semaphore, int]] = {}

    async def answer(self, visitor: str, respond: Callable[[], T]) -> T:
        """What `respond` says, from a thread."""
        if self._threads is None:  # it belongs to the loop that runs
            self._threads = anyio.CapacityLimiter(self._most)
        async with self._turn(visitor):
            return await anyio.to_thread.run_sync(respond, limiter=self._threads)

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
