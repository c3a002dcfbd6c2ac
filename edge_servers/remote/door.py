"""What devices reach of an edge's SuperLink: Flower's fleet interface, over TLS, and nothing else (D1).

A SuperLink has one port for everybody. Its fleet interface knows SuperNodes by their registered keys; its control
interface knows nobody, and whoever reaches it may end a run or send devices away. So the SuperLink listens on loopback,
and this door passes on what SuperNodes ask.

A SuperNode asks for orders every 3 s. Here its question waits until there are some, so that an order is under way at
once: once the SuperLink has said that it knows who asks. What SuperNodes bring is passed on where it is owed.
"""

import asyncio
import base64
import ssl
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chain.client.tls import TlsFiles
from chain.rpc.connections import Visits
from chain.rpc.doors import AUDITORS
from chain.rpc.limits import RequestLimits
from chain.rpc.server import Application, HttpServer, ServerParams
from clients.flower_replies import (
    FLEET,
    PUBLIC_KEY_HEADER,
    PULL_MESSAGES,
    PUSH_MESSAGES,
    PUSH_OBJECT,
    has_orders,
    read_announced,
    read_brought,
)
from edge_servers.remote.owed import Owed

_HELD_S = 20.0
"""Longest wait for orders; a SuperNode waits 30 s for an answer"""
_TIMEOUT_S = 30.0
_MOST_BYTES = 1 << 20
"""Of a request, other than to bring a piece of a reply"""
_REQUESTS_PER_S = 200.0
_DONE = 200
_OWN_HEADERS = {
    "connection", "content-encoding", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
    "upgrade",
}  # fmt: skip
"""Of one connection: they are not passed on"""


class FleetDoor:
    """Passes on requests of SuperNodes to a SuperLink of this machine."""

    def __init__(
        self, link: str, authority: Path, owed: Owed, keys: Iterable[bytes] = (), held_s: float = _HELD_S
    ) -> None:
        """`link`: https://HOST:PORT of the SuperLink, whose certificate is of `authority`. `owed`: what devices may
        bring. `keys`: whose questions may wait.
        """
        self._owed, self._waiting, self._handed_in = owed, set[str](), 0
        self._keys = {base64.b64encode(key).decode("ascii") for key in keys}
        self._link, self._authority, self._held_s = link, authority, held_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._client: httpx.AsyncClient | None = None

    def announce(self) -> None:
        """There are new orders; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def handed_in(self) -> int:
        """How often the SuperLink has taken something from a SuperNode; from any thread. Answers are asked for when it
        has changed: each question costs a SuperLink about 10 ms.
        """
        return self._handed_in

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def server(self, host: str, port: int, tls: TlsFiles) -> HttpServer:
        """This door at a port; SuperNodes show no certificate, Flower knows them by their keys."""
        params = ServerParams(
            host, port, max_request_bytes=_MOST_BYTES, requests_per_s=_REQUESTS_PER_S, doors=AUDITORS, tls=tls
        )

        def make(limits: RequestLimits, _: Visits) -> Application:
            async def answer(scope: Scope, receive: Receive, send: Send) -> None:
                request = Request(scope, receive)
                response = await self._answer(request, limits)
                await response(scope, receive, send)

            return Application(answer, self._close)

        return HttpServer(params, make, "fleet", lambda: self._owed.most_bytes)

    def _close(self) -> None:
        """Nobody waits any longer."""
        self._held_s = 0.0
        self._wake()

    async def _answer(self, request: Request, limits: RequestLimits) -> Response:
        async with limits.body(request) as body:
            if isinstance(body, Response):
                return body
            path = request.url.path
            if request.method != "POST" or not path.startswith(FLEET) or ".." in path:
                return Response(status_code=404)
            if path == PUSH_OBJECT:
                return await self._brought(request, body)
            if len(body) > _MOST_BYTES:
                return Response(status_code=413)
            if path == PUSH_MESSAGES:
                return await self._announced(request, body)
            key = request.headers.get(PUBLIC_KEY_HEADER, "")
            if path == PULL_MESSAGES and key in self._keys - self._waiting:
                return await self._orders(request, body, key)
            return await self._passed_on(request, body)

    async def _announced(self, request: Request, body: bytes) -> Response:
        """A reply that an order asks for."""
        said = read_announced(body)
        if said is None or not self._owed.may_announce(said.node, said.sender, said.answers, said.pieces):
            return Response("found a reply that no order asks for", 403)
        found = await self._passed_on(request, body)
        if found.status_code != _DONE:
            self._owed.take_back(said.answers)
        else:
            self._handed_in += 1
        return found

    async def _brought(self, request: Request, body: bytes) -> Response:
        """A piece of a reply."""
        brought = read_brought(body)
        if brought is None or not self._owed.may_bring(*brought):
            return Response("found more than a reply of this network has", 403)
        found = await self._passed_on(request, body)
        if found.status_code != _DONE:
            self._owed.give_back(*brought)
        else:
            self._handed_in += 1
        return found

    async def _orders(self, request: Request, body: bytes, key: str) -> Response:
        """Orders for a SuperNode, as soon as there are some: one question of each key waits, once it was let in.

        Who has gone meanwhile is handed none: a SuperLink hands out an order once.
        """
        self._loop = asyncio.get_running_loop()
        self._waiting.add(key)
        try:
            changed, found = self._changed, await self._passed_on(request, body)
            end_s = self._loop.time() + self._held_s
            while found.status_code == _DONE and not has_orders(bytes(found.body)):
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(end_s):
                        await changed.wait()
                if not changed.is_set() or await request.is_disconnected():
                    break
                changed, found = self._changed, await self._passed_on(request, body)
            return found
        finally:
            self._waiting.discard(key)

    async def _passed_on(self, request: Request, body: bytes) -> Response:
        if self._client is None:
            context = ssl.create_default_context(cafile=str(self._authority))
            self._client = httpx.AsyncClient(verify=context, timeout=_TIMEOUT_S, trust_env=False)
        headers = {name: value for name, value in request.headers.items() if name not in _OWN_HEADERS}
        try:
            reply = await self._client.post(f"{self._link}{request.url.path}", content=body, headers=headers)
        except (httpx.InvalidURL, ValueError):
            return Response(status_code=400)
        except httpx.HTTPError:
            return Response(status_code=503)  # the SuperNode asks again
        kept = {name: value for name, value in reply.headers.items() if name not in _OWN_HEADERS}
        return Response(reply.content, reply.status_code, kept)
