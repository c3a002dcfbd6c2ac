"""The node's JSON-RPC over HTTP: bounded requests, bounded rate, an optional token, 127.0.0.1 unless told otherwise."""

import asyncio
import hmac
import logging
import re
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chain.errors import ChainError, LedgerError
from chain.node import Node
from chain.rpc import INVALID_REQUEST, Dispatcher

_KNOWN_CLIENTS = 10_000
_FINISH_S = 5
_STOP_S = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerParams:
    """Where and how a node answers."""

    host: str = "127.0.0.1"
    port: int = 8545
    token: str = field(default="", repr=False)
    """Required as `Authorization: Bearer ...` if set."""
    max_request_bytes: int = 32 << 20
    requests_per_s: float = 500.0
    """Per client address, a batch counting once; a burst of twice as many is let through."""
    read_s: float = 30.0
    """A request has arrived as a whole by then, or is refused: who stalls holds no memory for long."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[!-~]*", self.token):  # not shown: it is a secret
            raise LedgerError("token: found spaces, line ends or other than ASCII, expected visible ASCII characters")
        if not 0 <= self.port < 1 << 16:
            raise LedgerError(f"port: found {self.port}, expected 0 (any free one) to 65535")
        for name in ("max_request_bytes", "requests_per_s", "read_s"):
            if not getattr(self, name) > 0:
                raise LedgerError(f"{name}: found {getattr(self, name)}, expected more than 0")


class RateLimit:
    """A token bucket per client address."""

    def __init__(self, per_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._now = per_s, now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, client: str) -> bool:
        """Whether this client may ask once more now."""
        now, burst = self._now(), max(1.0, 2 * self._per_s)
        tokens, since = self._buckets.pop(client, (burst, now))
        tokens = min(burst, tokens + (now - since) * self._per_s)
        admitted = tokens >= 1
        self._buckets[client] = (tokens - 1 if admitted else tokens, now)
        if len(self._buckets) > _KNOWN_CLIENTS:
            self._buckets.popitem(last=False)
        return admitted


class _Door:
    """What is asked of a request before the node hears of it."""

    def __init__(self, params: ServerParams) -> None:
        self._params, self._rate = params, RateLimit(params.requests_per_s)

    async def body(self, request: Request) -> bytes | Response:
        """A request's body, or why it is refused. Also then it is read, and forgotten: else its client sees a reset."""
        refusal = self.refusal(request) or self._stranger(request)
        try:
            async with asyncio.timeout(self._params.read_s):
                body = await _read(request, 0 if refusal else self._params.max_request_bytes)
        except ClientDisconnect:
            return Response(status_code=400)
        except TimeoutError:
            return _refused(408, f"the request has not arrived within {self._params.read_s:g} s")
        if refusal is not None:
            return refusal
        return (
            _refused(413, f"the request is larger than {self._params.max_request_bytes} bytes")
            if body is None
            else body
        )

    def refusal(self, request: Request) -> Response | None:
        """Why anybody is refused: asking too often. It comes first, so it bounds guesses of the token too."""
        if self._rate.admits(request.client.host if request.client else ""):
            return None
        return _refused(429, f"more than {self._params.requests_per_s:g} requests per second; ask again later")

    def _stranger(self, request: Request) -> Response | None:
        if "origin" in request.headers:  # browsers send it: a page that its owner visits could post to 127.0.0.1
            return _refused(403, "found a request of a web page (header Origin), expected one of a program")
        if not _has_token(request, self._params.token):
            return _refused(401, "found no valid token, expected the header 'Authorization: Bearer TOKEN'")
        return None


def application(node: Node, params: ServerParams) -> Starlette:
    """The HTTP application: POST / is JSON-RPC, GET /health says whether the node is alive."""
    dispatcher, door = Dispatcher(node), _Door(params)

    async def answer(request: Request) -> Response:
        body = await door.body(request)
        if isinstance(body, Response):
            return body
        reply = await run_in_threadpool(dispatcher.respond_to_bytes, body)
        return Response(reply, media_type="application/json") if reply else Response(status_code=204)

    async def health(request: Request) -> Response:
        if (refusal := door.refusal(request)) is not None:
            return refusal
        try:
            head = await run_in_threadpool(lambda: node.head)
        except ChainError as error:
            return JSONResponse({"error": str(error)}, status_code=503)
        return JSONResponse({"block": head.block_number, "hash": "0x" + head.hash.hex()})

    return Starlette(routes=[Route("/", answer, methods=["POST"]), Route("/health", health, methods=["GET"])])


def _has_token(request: Request, token: str) -> bool:
    """Whether the token is there; the scheme's case does not matter (RFC 7235), the comparison takes constant time."""
    scheme, _, found = request.headers.get("authorization", "").partition(" ")
    is_same = hmac.compare_digest(found.strip().encode(), token.encode())
    return not token or (is_same and scheme.lower() == "bearer")


async def _read(request: Request, limit: int) -> bytes | None:
    """The body, or None if it is longer than the limit: what a client claims in a header is not believed."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        else:
            parts = []
    return b"".join(parts) if size <= limit else None


def _refused(status: int, message: str) -> Response:
    """A refusal as JSON-RPC. It ends the connection: nobody drips bytes into it for ever."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    headers = {"Connection": "close"} | ({"WWW-Authenticate": "Bearer"} if status == 401 else {})
    return JSONResponse(error, status, headers)


class RpcServer:
    """A node's HTTP server in a thread of its own."""

    def __init__(self, node: Node, params: ServerParams) -> None:
        self._params, self._application = params, application(node, params)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, deadline_s: float = 10.0) -> str:
        """Answer from now on; returns the URL. After `stop` it may be started again."""
        if self._thread is not None:
            raise LedgerError("this JSON-RPC server runs already; stop it first")
        listening = _listening(self._params.host, self._params.port)
        server = self._server = uvicorn.Server(_config(self._application))
        self._thread = threading.Thread(target=server.run, args=([listening],), name="json-rpc", daemon=True)
        port = listening.getsockname()[1]
        self._thread.start()
        end = time.monotonic() + deadline_s
        while not server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                listening.close()
                raise LedgerError(f"the JSON-RPC server has not started within {deadline_s:g} s; the log says why")
            time.sleep(0.01)
        return f"http://{_in_url(self._params.host)}:{port}"

    def stop(self) -> None:
        """Take no more requests, finish those that are being answered, then close. Idempotent."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        server.should_exit = True
        thread.join(_STOP_S)
        if thread.is_alive():
            _log.warning("the JSON-RPC server still answers a request %g s after it was stopped", _STOP_S)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _config(app: Starlette) -> uvicorn.Config:
    """No logging set-up of its own (it would close the handlers of whoever runs us), no access log, no proxy's word."""
    return uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_FINISH_S,
    )


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        raise LedgerError(
            f"the JSON-RPC server cannot listen on {_in_url(host)}:{port}: {error}; "
            "is the port taken? choose another one, or 0 for any that is free"
        ) from error


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
