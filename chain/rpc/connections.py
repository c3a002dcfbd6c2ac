"""Who is connected (Q6): how many in all and from one address, how long without a request, how long without taking the
answer.

uvicorn counts requests, and waits for ever for the rest of a header. Here a connection has an end whatever is sent, and
where there are too many, one that waits makes room for the new one: half-sent requests keep nobody out. So it is before
TLS has shaken hands: asyncio tells nobody of such a connection, and keeps it for a minute.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from chain.errors import IdentityError
from chain.rpc.shares import Shares, visitor_at
from chain.wire.identity import Identity, identity_in

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
IDENTITY = "identity"
"""Where a request has it, in its state"""
_SMALL_BYTES, _MOST_SMALL = 256, 4096
_MOST_GREETINGS, _MOST_GREETINGS_OF_ONE = 128, 32


@dataclass(frozen=True)
class VisitLimits:
    """How many, how long, how much."""

    most: int
    most_per_visitor: int
    header_s: float
    answer_s: float
    most_unsent_bytes: int


class Greetings:
    """Connections that TLS has not shaken hands with yet. Where there are too many, the oldest leaves: of the new one's
    visitor, or of the one who has most.
    """

    def __init__(self, longest_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._longest_s, self._now, self._lock = longest_s, now, threading.Lock()
        self._open: dict[Any, tuple[str, float, socket.socket]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, peer: Any, connection: socket.socket) -> None:
        """It has come."""
        visitor, now = visitor_at(str(peer[0])), self._now()
        with self._lock:
            for name in [name for name, (_, since, _) in self._open.items() if now - since > self._longest_s]:
                self._leave(name)
            crowds = Counter(each for each, _, _ in self._open.values())
            if crowds[visitor] >= _MOST_GREETINGS_OF_ONE:
                self._leave_oldest(visitor)
            elif len(self._open) >= _MOST_GREETINGS:
                self._leave_oldest(crowds.most_common(1)[0][0])
            self._open[peer] = visitor, now, connection

    def end(self, peer: Any) -> None:
        """TLS is through, or it is gone."""
        with self._lock:
            self._open.pop(peer, None)

    def _leave_oldest(self, visitor: str) -> None:
        self._leave(next(name for name, (each, _, _) in self._open.items() if each == visitor))

    def _leave(self, peer: Any) -> None:
        """Its end is what asyncio reads next."""
        with contextlib.suppress(OSError):
            self._open.pop(peer)[2].shutdown(socket.SHUT_RDWR)


class Entrance(socket.socket):
    """A listening socket that says who comes."""

    greetings: Greetings | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection."""
        connection, peer = super().accept()
        if self.greetings is not None:
            self.greetings.begin(peer, connection)
        return connection, peer


class Visits:
    """All that are open."""

    def __init__(self, limits: VisitLimits, shares: Shares) -> None:
        self.limits, self.shares = limits, shares
        self.greetings = Greetings(limits.header_s)
        self._of: defaultdict[str, dict[Visit, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def admit(self, new: "Visit") -> bool:
        """Whether there is room, or one that waits leaves for it: the oldest of the address that has most."""
        own = self._of.get(new.visitor, {})
        if len(own) >= self.limits.most_per_visitor:
            has_room = _leave_one(own)
        elif len(self) >= self.limits.most:
            has_room = any(_leave_one(each) for each in sorted(self._of.values(), key=len, reverse=True))
        else:
            has_room = True
        if has_room:
            self._of[new.visitor][new] = None
        return has_room

    def forget(self, gone: "Visit") -> None:
        """It is closed."""
        own = self._of.get(gone.visitor, {})
        own.pop(gone, None)
        if not own:
            self._of.pop(gone.visitor, None)

    def make_room(self, size: int) -> None:
        """For an answer of so many bytes: who takes none of his goes, the one who has most of them first."""
        while True:
            unsent = {name: sum(each.unsent for each in own) for name, own in self._of.items()}
            if sum(unsent.values()) + size <= self.limits.most_unsent_bytes or not any(unsent.values()):
                return
            slowest = max(unsent, key=lambda name: unsent[name])
            max(self._of[slowest], key=lambda each: each.unsent).leave()


def _leave_one(crowd: dict["Visit", None]) -> bool:
    """Close the one of them that has waited longest, for its header before its body; false if all are answered."""
    waiting = [each for each in crowd if not each.is_answered]
    if not waiting:
        return False
    min(waiting, key=lambda each: (each.is_asking, each.since_s)).leave()
    return True


class Visit(H11Protocol):
    """uvicorn's HTTP on one connection."""

    everybody: Visits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, or refuse it before a byte is read."""
        super().connection_made(transport)
        self.everybody.greetings.end(transport.get_extra_info("peername"))
        self.conn = _Parser(h11.SERVER)
        self.app_state = {**self.app_state, IDENTITY: _identity_of(transport)}
        self.visitor = visitor_at(self.client[0] if self.client else "")
        self.since_s = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self.everybody.shares.charge_connection(self.visitor)
        if self.everybody.admit(self):
            self._wait()
            self._read_later()
        else:
            transport.write(_REFUSAL)
            transport.close()

    def _read_later(self) -> None:
        """Who has had his share is not even listened to until it is his turn."""
        delay_s = self.everybody.shares.delay_s(self.visitor)
        if delay_s > 0:
            self.flow.pause_reading()
            self.loop.call_later(min(delay_s, self.everybody.limits.header_s / 2), self.flow.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        """Its place is free."""
        self._stop_waiting()
        self.everybody.forget(self)
        super().connection_lost(exc)

    @property
    def is_asking(self) -> bool:
        """Whether the header of a request is here that is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_answered(self) -> bool:
        """Whether a whole request is here, and the answer is being made."""
        return self.is_asking and not self.cycle.more_body

    @property
    def unsent(self) -> int:
        """Bytes of answers that the other side has not taken."""
        return 0 if self.transport.is_closing() else int(self.transport.get_write_buffer_size())

    def handle_events(self) -> None:
        """What was sent; the header has come once there is a request."""
        try:
            super().handle_events()
        except h11.LocalProtocolError:  # nonsense after the answer: uvicorn would answer again
            self.transport.abort()
        if self.is_asking:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """The next header has its own time; so has the other side to take the answer."""
        super().on_response_complete()
        if not self.is_asking:
            self._wait()

    def shutdown(self) -> None:
        """The node stops: who has his answer is not waited for to say goodbye, as TLS would."""
        super().shutdown()
        if not self.is_asking and not self.unsent:
            self.transport.abort()

    def leave(self) -> None:
        """Close it now, whatever is under way."""
        self.everybody.forget(self)
        self.transport.abort()

    def _wait(self) -> None:
        self._stop_waiting()
        self.since_s = self.loop.time()
        self._timer = self.loop.call_later(self.everybody.limits.header_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """Bytes that drip in do not win time; who is still taking a long answer has longer."""
        limits = self.everybody.limits
        if self.unsent and self.loop.time() < self.since_s + limits.answer_s:
            self._timer = self.loop.call_later(limits.header_s, self._give_up)
        else:
            self.leave()


def _identity_of(transport: asyncio.Transport) -> Identity | None:
    """Whom the visitor's certificate speaks for; none where there is no such certificate."""
    secured = transport.get_extra_info("ssl_object")
    try:
        return None if secured is None else identity_in(secured.getpeercert())
    except IdentityError:
        return None


class _Parser(h11.Connection):
    """As h11's, but a body comes in parts worth the name: each costs the same whatever its size."""

    _small = 0

    def next_event(self) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
        """The next part of a request."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._small = 0
        elif isinstance(event, h11.Data) and len(event.data) < _SMALL_BYTES:
            self._small += 1
            if self._small > _MOST_SMALL:
                raise h11.RemoteProtocolError(f"found more than {_MOST_SMALL} parts of less than {_SMALL_BYTES} bytes")
        return event


def protocol_of(everybody: Visits) -> type[Visit]:
    """What uvicorn makes a connection with."""
    return type("NodeVisit", (Visit,), {"everybody": everybody})
