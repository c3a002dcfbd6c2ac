"""What devices reach of an edge's SuperLink: Flower's fleet interface, over TLS, and nothing else (D1).

A SuperLink has one port for everybody. Its fleet interface knows SuperNodes by their registered keys; its control
interface knows nobody, and whoever reaches it may end a run or send devices away. So the SuperLink listens on loopback,
and this door passes on what SuperNodes ask.

A SuperNode asks for orders every 3 s. Here its question waits until there are some, so that an order is under way at
once.
"""

import asyncio
import base64
import ssl
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
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
from clients.flower_tasks import FLEET, HAND_IN, PUBLIC_KEY_HEADER, PULL_MESSAGES

_HELD_S = 20.0
"""Longest wait for orders; a SuperNode waits 30 s for an answer"""
_TIMEOUT_S = 30.0
_MOST_BYTES = 64 << 20
"""Of a request: Flower sends objects in pieces of a few MB"""
_REQUESTS_PER_S = 200.0
_KNOWN = 4096
_OWN_HEADERS = {
    "connection", "content-encoding", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
    "upgrade",
}  # fmt: skip
"""Of one connection: they are not passed on"""


class FleetDoor:
    """Passes on requests of SuperNodes to a SuperLink of this machine."""

    def __init__(self, link: str, authority: Path, keys: Iterable[bytes] = (), held_s: float = _HELD_S) -> None:
        """`link`: https://HOST:PORT of the SuperLink, whose certificate is of `authority`. `keys`: whose questions may
        wait.
        """
        self._keys = {base64.b64encode(key).decode("ascii") for key in keys}
        self._link, self._authority, self._held_s = link, authority, held_s
        self._orders, self._seen = 0, OrderedDict[str, int]()
        self._handed_in = 0
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
        self._orders += 1
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

        return HttpServer(params, make, "fleet")

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
            if path == PULL_MESSAGES:
                await self._wait(request.headers.get(PUBLIC_KEY_HEADER, ""))
            response = await self._passed_on(request, body)
            if path in HAND_IN and response.status_code == HTTPStatus.OK:
                self._handed_in += 1
            return response

    async def _wait(self, key: str) -> None:
        """Until there are orders that this SuperNode has not asked for."""
        self._loop = asyncio.get_running_loop()
        if key not in self._keys:  # a stranger holds no place
            return
        if self._seen.get(key) == self._orders:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._held_s):
                    await self._changed.wait()
        self._seen[key] = self._orders
        self._seen.move_to_end(key)
        while len(self._seen) > _KNOWN:
            self._seen.popitem(last=False)

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
