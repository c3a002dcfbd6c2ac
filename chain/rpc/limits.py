"""Who comes in over HTTP, how much, how often and how slowly: what a request has passed before the node hears of it."""

import contextlib
import hmac
import re
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from chain.client.bounded_http import is_here
from chain.client.tls import TlsFiles
from chain.errors import LedgerError
from chain.rpc.dispatcher import INVALID_REQUEST
from chain.rpc.doors import AUDITORS, OWNERS, Doors
from chain.rpc.shares import Arrival, Arrivals, Shares, visitor_at

_KNOWN_CLIENTS = 10_000
_TIMES = ("header_s", "read_s", "answer_s")


@dataclass(frozen=True)
class ServerParams:
    """Where and how a node answers."""

    host: str = "127.0.0.1"
    port: int = 8545
    token: str = field(default="", repr=False)
    """Required as `Authorization: Bearer ...` if set."""
    max_request_bytes: int = 32 << 20
    """More where a network was founded with payloads that need it."""
    max_arriving_bytes: int = 256 << 20
    """Of all requests together, until they are answered; never less than one request may have."""
    max_unsent_bytes: int = 256 << 20
    """Of all answers together that their clients have not taken yet."""
    requests_per_s: float = 500.0
    """Per client address, each call of a batch counting; a burst of twice as many is let through."""
    header_s: float = 10.0
    """A connection says whole what it wants by then, or is closed."""
    read_s: float = 30.0
    """A request has arrived as a whole by then, or is refused: who stalls holds no memory for long."""
    answer_s: float = 60.0
    """An answer is taken by then, or the connection is closed."""
    max_connections: int = 512
    max_connections_per_address: int = 64
    max_answers: int = 16
    """Requests that are answered at once; the others wait."""
    max_answers_per_address: int = 4
    max_share: float = 0.2
    """Of one processor that an address uses while others ask, its requests taken in and answered; then it waits."""
    doors: Doors = OWNERS
    """What is open here (`chain.rpc.doors`); with certificates, to members only what the registry says of them."""
    tls: TlsFiles | None = None
    allows_plain: bool = False
    """Whether others than this machine may come without TLS: for tests, and networks that are private already."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[!-~]*", self.token):  # not shown: it is a secret
            raise LedgerError("token: found spaces, line ends or other than ASCII, expected visible ASCII characters")
        if not 0 <= self.port < 1 << 16:
            raise LedgerError(f"port: found {self.port}, expected 0 (any free one) to 65535")
        if not is_here(self.host):
            self._check_open_to_others()
        for name in (*(each for each in vars(self) if each.startswith("max_")), "requests_per_s", *_TIMES):
            if not getattr(self, name) > 0:
                raise LedgerError(f"{name}: found {getattr(self, name)}, expected more than 0")

    def _check_open_to_others(self) -> None:
        if self.doors & OWNERS:
            raise LedgerError(f"found host {self.host} for the owner's door, expected this machine: 127.0.0.1")
        if self.tls is None and not self.allows_plain:
            raise LedgerError(f"found host {self.host} without TLS, expected certificates, or 127.0.0.1")

    @property
    def asks_certificates(self) -> bool:
        """Whether visitors show who they are; auditors read what everybody may read."""
        return self.tls is not None and self.doors != AUDITORS


class RateLimit:
    """A token bucket per client address; for any thread."""

    def __init__(self, per_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._now = per_s, now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def admits(self, client: str) -> bool:
        """Whether this client may ask once more now."""
        with self._lock:
            now, burst = self._now(), max(1.0, 2 * self._per_s)
            tokens, since = self._buckets.pop(client, (burst, now))
            tokens = min(burst, tokens + (now - since) * self._per_s)
            admitted = tokens >= 1
            self._buckets[client] = (tokens - 1 if admitted else tokens, now)
            if len(self._buckets) > _KNOWN_CLIENTS:
                self._buckets.popitem(last=False)
            return admitted


class RequestLimits:
    """Decides for every HTTP request whether it is answered at all: token, rate, size, time."""

    def __init__(self, params: ServerParams, most_bytes: Callable[[], int] = lambda: 0) -> None:
        """`most_bytes`: what a request may have at least, by the payloads that the network was founded with."""
        self._params, self._rate, self._founded = params, RateLimit(params.requests_per_s), most_bytes
        self.doors, self.asks_certificates = params.doors, params.asks_certificates
        self._arrivals = Arrivals(params.max_arriving_bytes)
        self.shares = Shares(params.max_share)

    @contextlib.asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes | Response]:
        """A request's body until it is answered, or why it is refused. Also then it is read, and forgotten: else its
        client sees a reset.
        """
        refusal = self.refusal(request) or self._stranger(request)
        most = 0 if refusal else await self._most_bytes(request)
        with self._arrivals.arriving(visitor_of(request), self._params.read_s) as arrival:
            body = await self._arrived(request, arrival, most)
            yield refusal or body

    async def _most_bytes(self, request: Request) -> int:
        """Of this request. The node is asked in a thread, and only for a large one: it may be busy."""
        said, limit = request.headers.get("content-length", ""), self._params.max_request_bytes
        if re.fullmatch(r"[0-9]{1,18}", said) and int(said) <= limit:
            return limit
        return max(limit, await run_in_threadpool(self._founded))

    async def _arrived(self, request: Request, arrival: Arrival, most: int) -> bytes | Response:
        try:
            async with arrival.timeout:
                body = await _read(request, most, self._holder(arrival, most))
        except ClientDisconnect:
            return Response(status_code=400)
        except TimeoutError:
            if arrival.is_given_up:
                return _refusal(503, "more bytes of requests arrive than this node holds; send it again later")
            return _refusal(408, f"the request has not arrived within {self._params.read_s:g} s, or the node stops")
        finally:
            arrival.is_whole = True
        return _refusal(413, f"the request is larger than {most} bytes") if body is None else body

    def _holder(self, arrival: Arrival, most: int) -> Callable[[int, int], Awaitable[None]]:
        """Hears of every part: (bytes of it, bytes that are kept)."""

        async def hold(part: int, kept: int) -> None:
            self._arrivals.hold(arrival, kept, most)
            self.shares.charge_bytes(arrival.visitor, part)
            await self.shares.wait(arrival.visitor)

        return hold

    def hurry(self) -> None:
        """Wait no longer for requests that are arriving, and let nobody wait for his turn."""
        self._arrivals.hurry()
        self.shares.hurry()

    def admits(self, request: Request) -> bool:
        """Whether whoever sent this may ask once more: each call of a batch is charged as if it came alone."""
        return self._rate.admits(visitor_of(request))

    def refusal(self, request: Request) -> Response | None:
        """Why anybody is refused: asking too often. It comes first, so it bounds guesses of the token too."""
        return None if self.admits(request) else _refusal(429, self.too_often)

    @property
    def too_often(self) -> str:
        """What they are told."""
        return f"more than {self._params.requests_per_s:g} requests per second; ask again later"

    def _stranger(self, request: Request) -> Response | None:
        if "origin" in request.headers:  # browsers send it: a page that its owner visits could post to 127.0.0.1
            return _refusal(403, "found a request of a web page (header Origin), expected one of a program")
        if not _has_token(request, self._params.token):
            return _refusal(401, "found no valid token, expected the header 'Authorization: Bearer TOKEN'")
        return None


def visitor_of(request: Request) -> str:
    """Who counts as one."""
    return visitor_at(request.client.host if request.client else "")


def _has_token(request: Request, token: str) -> bool:
    """Whether the token is there; the scheme's case does not matter (RFC 7235), the comparison takes constant time."""
    scheme, _, found = request.headers.get("authorization", "").partition(" ")
    is_same = hmac.compare_digest(found.strip().encode(), token.encode())
    return not token or (is_same and scheme.lower() == "bearer")


async def _read(request: Request, limit: int, hold: Callable[[int, int], Awaitable[None]]) -> bytes | None:
    """The body, or None if it is longer than the limit: what a client claims in a header is not believed.

    `hold` hears how many bytes have come and how many are kept here, and may take its time.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        else:
            parts = []
        await hold(len(part), size if parts else 0)
    return b"".join(parts) if size <= limit else None


def _refusal(status: int, message: str) -> Response:
    """A refusal as JSON-RPC. It ends the connection: nobody drips bytes into it for ever."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    headers = {"Connection": "close"} | ({"WWW-Authenticate": "Bearer"} if status == 401 else {})
    return JSONResponse(error, status, headers)
