"""HTTP servers within limits: requests, rate, an optional token, 127.0.0.1 unless told otherwise; a node's JSON-RPC."""

import logging
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from chain.client.waiting import wait_until
from chain.errors import ChainError, LedgerError
from chain.node.node import Node
from chain.rpc.connections import IDENTITY, Entrance, VisitLimits, Visits, protocol_of
from chain.rpc.dispatcher import Charge, Dispatcher
from chain.rpc.doors import AUDITORS, NOBODYS, Doorkeeper
from chain.rpc.limits import RequestLimits, ServerParams, visitor_of
from chain.rpc.shares import Turns, in_one_step
from chain.rpc.watching import Watchers, hold_in, seen_in

__all__ = ["Application", "HttpServer", "RpcServer", "ServerParams"]
_FINISH_S = 5
_REQUEST_BYTES = 64 << 10
_STOP_S = 10.0
_START_POLL_S = 0.01
_BACKLOG = 128
_LARGE_ANSWER_BYTES = 64 << 10
_log = logging.getLogger(__name__)


def _application(
    dispatcher: Dispatcher, node: Node, door: RequestLimits, turns: Turns, visits: Visits, watchers: Watchers
) -> Starlette:
    """The HTTP application: POST / is JSON-RPC, GET /health says whether the node is alive, GET /changes when to ask
    again.
    """
    keeper = Doorkeeper(node)

    def steps_of(request: Request, body: bytes, charge: Charge) -> Generator[None, None, bytes]:
        """The answer, for whom it is: that is looked up on the thread that answers."""
        doors = door.doors
        if door.asks_certificates:
            identity = request.scope["state"].get(IDENTITY)
            doors = NOBODYS if identity is None else keeper.doors_of(identity)
        return (yield from dispatcher.at(doors).steps(body, charge))

    async def answer(request: Request) -> Response:
        async with door.body(request) as body:
            if isinstance(body, Response):
                return body
            charge = Charge(lambda: door.admits(request), door.too_often)
            reply = await turns.answer(visitor_of(request), steps_of(request, body, charge), request.is_disconnected)
        if reply is None:
            return Response(status_code=400)  # nobody hears it
        if len(reply) > _LARGE_ANSWER_BYTES:
            visits.make_room(len(reply))
        return Response(reply, media_type="application/json") if reply else Response(status_code=204)

    async def health(request: Request) -> Response:
        if (refusal := door.refusal(request)) is not None:
            return refusal
        try:
            head = await turns.answer(visitor_of(request), in_one_step(lambda: node.head))
        except ChainError as error:
            return JSONResponse({"error": str(error)}, status_code=503)
        if head is None:
            return Response(status_code=400)
        return JSONResponse({"block": head.block_number, "hash": "0x" + head.hash.hex()})

    async def changes(request: Request) -> Response:
        async with door.body(request) as body:
            if isinstance(body, Response):
                return body
        query = request.query_params
        may_wait = door.doors != AUDITORS and (not door.asks_certificates or request.scope["state"].get(IDENTITY))
        marks = await watchers.wait(visitor_of(request), seen_in(query), hold_in(query) if may_wait else 0.0)
        return JSONResponse(marks)

    routes = {"/": (answer, "POST"), "/health": (health, "GET"), "/changes": (changes, "GET")}
    return Starlette(routes=[Route(path, what, methods=[verb]) for path, (what, verb) in routes.items()])


@dataclass(frozen=True)
class Application:
    """What answers requests, and how it is told that the end has come."""

    app: ASGIApp
    close: Callable[[], None] = lambda: None


class _Server(uvicorn.Server):
    """uvicorn, except that a client that stalls does not delay its end."""

    def __init__(self, params: ServerParams, make: "Make", most_bytes: Callable[[], int]) -> None:
        self._door = RequestLimits(params, most_bytes)
        visits = Visits(_visit_limits(params), self._door.shares)
        self.greetings = visits.greetings
        self._made = make(self._door, visits)
        config = _config(self._made.app, visits)
        if params.tls is not None:
            config.load()
            config.ssl = params.tls.server_context(params.asks_certificates)
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._door.hurry()
        self._made.close()
        await super().shutdown(sockets)


def _visit_limits(params: ServerParams) -> VisitLimits:
    return VisitLimits(
        params.max_connections,
        params.max_connections_per_address,
        params.header_s,
        params.answer_s,
        params.max_unsent_bytes,
    )


def _post_bytes(node: Node) -> int:
    """Of a request with the largest payload of the network, in hex."""
    try:
        return 2 * node.largest_payload + _REQUEST_BYTES
    except ChainError:  # it is closed: there is nothing to receive
        return 0


Make = Callable[[RequestLimits, Visits], Application]
"""Makes what answers, for a server with these limits and connections"""


class HttpServer:
    """An application over HTTP, in a thread of its own."""

    def __init__(self, params: ServerParams, make: Make, name: str, most_bytes: Callable[[], int] = lambda: 0) -> None:
        """`most_bytes`: what a request may have at least, whatever the parameters say."""
        self._params, self._make, self._name, self._most_bytes = params, make, name, most_bytes
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, deadline_s: float = 10.0) -> str:
        """Answer from now on; returns the URL. After `stop` it may be started again."""
        if self._thread is not None:
            raise LedgerError(f"this {self._name} server runs already; stop it first")
        listening = _listening(self._params.host, self._params.port, self._name)
        server = self._server = _Server(self._params, self._make, self._most_bytes)
        if self._params.tls is not None:
            listening.greetings = server.greetings
        self._thread = threading.Thread(target=server.run, args=([listening],), name=self._name, daemon=True)
        port = listening.getsockname()[1]
        self._thread.start()
        thread = self._thread
        wait_until(lambda: server.started or not thread.is_alive(), deadline_s, _START_POLL_S)
        if not server.started:
            self.stop()
            listening.close()
            raise LedgerError(f"the {self._name} server has not started within {deadline_s:g} s; the log says why")
        return f"{'http' if self._params.tls is None else 'https'}://{_in_url(self._params.host)}:{port}"

    def stop(self) -> None:
        """Take no more requests, finish those that are being answered, then close. Idempotent."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        server.should_exit = True
        thread.join(_STOP_S)
        if thread.is_alive():
            _log.warning("the %s server still answers a request %g s after it was stopped", self._name, _STOP_S)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class RpcServer(HttpServer):
    """A node's JSON-RPC."""

    def __init__(self, node: Node, params: ServerParams, on_gap: Callable[[], None] = lambda: None) -> None:
        """`on_gap` hears of posts and blocks that did not fit what is here (`Peers.hurry`)."""

        def make(limits: RequestLimits, visits: Visits) -> Application:
            turns = Turns(params.max_answers, params.max_answers_per_address, limits.shares)
            watchers = Watchers(node.changes)
            app = _application(Dispatcher(node, on_gap), node, limits, turns, visits, watchers)
            return Application(app, watchers.close)

        super().__init__(params, make, "JSON-RPC", lambda: _post_bytes(node))


def _config(app: ASGIApp, visits: Visits) -> uvicorn.Config:
    """No logging set-up of its own (it would close the handlers of whoever runs us), no access log, no proxy's word."""
    return uvicorn.Config(
        app,
        http=protocol_of(visits),
        backlog=_BACKLOG,
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


def _listening(host: str, port: int, name: str) -> Entrance:
    """A socket that says it is TCP: asyncio switches Nagle's delay (40 ms per answer) off for such ones only."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = Entrance(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except (OSError, UnicodeError) as error:
        listening.close()
        raise LedgerError(
            f"the {name} server cannot listen on {_in_url(host)}:{port}: {error}; "
            "is the port taken? choose another one, or 0 for any that is free"
        ) from error
    return listening


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
