"""The node's JSON-RPC over HTTP: bounded requests, bounded rate, an optional token, 127.0.0.1 unless told otherwise."""

import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chain.errors import LedgerError
from chain.node import Node
from chain.rpc import INVALID_REQUEST, Dispatcher

_KNOWN_CLIENTS = 10_000
_STOP_S = 10.0


@dataclass(frozen=True)
class ServerParams:
    """Where and how a node answers."""

    host: str = "127.0.0.1"
    port: int = 8545
    token: str = ""
    """Required as `Authorization: Bearer ...` if set."""
    max_request_bytes: int = 32 << 20
    requests_per_s: float = 500.0
    """Per client address; a burst of twice as many is let through."""


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


def application(node: Node, params: ServerParams) -> Starlette:
    """The HTTP application: POST / is JSON-RPC, GET /health says whether the node is alive."""
    dispatcher, rate = Dispatcher(node), RateLimit(params.requests_per_s)

    async def answer(request: Request) -> Response:
        client = request.client.host if request.client else ""
        if not _has_token(request, params.token):
            return _refused(401, "found no valid token, expected the header 'Authorization: Bearer TOKEN'")
        if not rate.admits(client):
            return _refused(429, f"more than {params.requests_per_s:g} requests per second; ask again later")
        try:
            body = await _read(request, params.max_request_bytes)
        except ClientDisconnect:
            return Response(status_code=400)
        if body is None:
            return _refused(413, f"the request is larger than {params.max_request_bytes} bytes")
        reply = await run_in_threadpool(dispatcher.respond_to_bytes, body)
        return Response(reply, media_type="application/json")

    async def health(_: Request) -> Response:
        head = await run_in_threadpool(lambda: node.head)
        return JSONResponse({"block": head.block_number, "hash": "0x" + head.hash.hex()})

    return Starlette(routes=[Route("/", answer, methods=["POST"]), Route("/health", health, methods=["GET"])])


def _has_token(request: Request, token: str) -> bool:
    found = request.headers.get("authorization", "")
    return not token or hmac.compare_digest(found.encode(), f"Bearer {token}".encode())


async def _read(request: Request, limit: int) -> bytes | None:
    """The body, or None once it is longer than the limit: what a client claims in a header is not believed."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            return None
        parts.append(part)
    return b"".join(parts)


def _refused(status: int, message: str) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return JSONResponse(error, status_code=status)


class RpcServer:
    """A node's HTTP server in a thread of its own."""

    def __init__(self, node: Node, params: ServerParams) -> None:
        config = uvicorn.Config(
            application(node, params),
            host=params.host,
            port=params.port,
            log_level="warning",
            lifespan="off",
            ws="none",
        )
        self._host, self._server = params.host, uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # older uvicorn
        self._thread = threading.Thread(target=self._run, name="json-rpc", daemon=True)
        self._failure: BaseException | None = None

    def _run(self) -> None:
        try:
            self._server.run()
        except (SystemExit, OSError) as error:  # uvicorn exits when it cannot bind
            self._failure = error

    def start(self, deadline_s: float = 10.0) -> str:
        """Answer from now on; returns the URL."""
        self._thread.start()
        end = time.monotonic() + deadline_s
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise LedgerError(
                    f"the JSON-RPC server does not start on {self._host}:{self._server.config.port}; "
                    "is the port taken? choose another one"
                ) from self._failure
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://{self._host}:{port}"

    def stop(self) -> None:
        """Finish what is being answered, then close. Idempotent."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
