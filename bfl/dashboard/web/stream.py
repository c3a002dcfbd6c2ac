"""/api/v1/stream: what is new, as server-sent events. The id of an event is the cursor; a browser that was away sends
its last one, and hears what it missed: from which round and block on it has to ask again.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from bfl.dashboard.facts import Snapshot
from bfl.dashboard.index.dashboard import Dashboard
from bfl.dashboard.index.tailer import Change
from bfl.dashboard.web.api import block_row
from bfl.dashboard.web.asked import Asked, plain
from bfl.dashboard.web.columns import short

MOST_STREAMS, MOST_PER_VISITOR = 64, 6
_HEARTBEAT_S, _LOOK_S = 15.0, 1.0
_RETRY_MS = 2000
_MOST_OFFENCES = 20


class Streams:
    """All open streams of a server; for its event loop."""

    def __init__(self, dashboards: Mapping[str, Dashboard]) -> None:
        self._dashboards = dashboards
        self._open: Counter[str] = Counter()
        self._is_closed = False

    def close(self) -> None:
        """The server stops: every stream ends within a second."""
        self._is_closed = True

    async def answer(self, request: Request) -> Response:
        """One more stream, while there are not too many."""
        dashboard = Asked(request, self._dashboards).dashboard
        visitor = request.client.host if request.client is not None else ""
        if self._open.total() >= MOST_STREAMS or self._open[visitor] >= MOST_PER_VISITOR:
            told = f"found {MOST_PER_VISITOR} open streams of this visitor or {MOST_STREAMS} in all, expected fewer"
            return JSONResponse({"error": f"{told}: close a tab"}, status_code=429, headers={"retry-after": "5"})
        self._open[visitor] += 1
        events = self._events(dashboard, visitor, request)
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _events(self, dashboard: Dashboard, visitor: str, request: Request) -> AsyncIterator[str]:
        try:
            yield f"retry: {_RETRY_MS}\n\n"
            seen, audited, quiet_s = _cursor_of(request), -1, 0.0
            while not self._is_closed and not await request.is_disconnected():
                told = "".join(_news(dashboard, seen, audited))
                seen, audited = dashboard.snapshot.cursor, dashboard.audit.version
                quiet_s = 0.0 if told else quiet_s + _LOOK_S
                if told:
                    yield told
                elif quiet_s >= _HEARTBEAT_S:
                    quiet_s = 0.0
                    yield ": still here\n\n"
                await asyncio.sleep(_LOOK_S)
        finally:
            self._open[visitor] -= 1
            self._open += Counter()  # forgets who is gone


def _cursor_of(request: Request) -> int | None:
    """What the browser has seen; None: nothing yet, and it has just asked for everything."""
    given = request.headers.get("last-event-id") or request.query_params.get("cursor") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 16 else None


def _news(dashboard: Dashboard, seen: int | None, audited: int) -> Iterator[str]:
    """Events for somebody who has seen a cursor, and a version of the audit."""
    snapshot = dashboard.snapshot
    if seen is None:
        yield _event("health", snapshot.cursor, _health(snapshot))
    elif seen != snapshot.cursor:
        change = dashboard.tailer.change_since(seen)
        yield from _changes(snapshot, change)
    if audited != dashboard.audit.version and (audited >= 0 or dashboard.audit.version):
        yield _event("audit", snapshot.cursor, plain(dashboard.audit.state))


def _changes(snapshot: Snapshot, change: Change) -> Iterator[str]:
    cursor = change.cursor
    if change.first_round is not None:
        new = snapshot.rounds[change.first_round - 1 :]
        yield _event("round", cursor, _rounds(snapshot, change.first_round))
        offences = [plain(each) for fact in new for each in fact.offences][-_MOST_OFFENCES:]
        if offences:
            yield _event("offence", cursor, {"cursor": cursor, "offences": offences})
    if change.first_block is not None:
        last = block_row(snapshot.blocks[-1]) if snapshot.blocks else None
        numbers = {"first": change.first_block, "last": len(snapshot.blocks) - 1}
        yield _event("block", cursor, {"cursor": cursor, **numbers, "block": last})
    if change.is_about:
        yield _event("health", cursor, _health(snapshot))


def _rounds(snapshot: Snapshot, first: int) -> dict[str, Any]:
    """From which round on there is something new; if `last` is below it, rounds are gone. The newest in short."""
    told: dict[str, Any] = {"cursor": snapshot.cursor, "first": first, "last": len(snapshot.rounds)}
    if snapshot.rounds:
        last = snapshot.rounds[-1]
        told |= {name: getattr(last, name) for name in ("round", "leader", "winner", "offloaded", "training_nodes")}
        told |= {"accuracy": short(last.accuracy), "loss": short(last.loss)}
    return told


def _health(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "cursor": snapshot.cursor,
        "status": snapshot.status,
        "told": snapshot.told,
        "round": len(snapshot.rounds),
        "rounds_planned": snapshot.about.rounds_planned,
        "reorganised": snapshot.reorganised,
        "machines": [plain(each) for each in snapshot.machines],
    }


def _event(name: str, cursor: int, data: Any) -> str:
    return f"id: {cursor}\nevent: {name}\ndata: {json.dumps(data)}\n\n"
