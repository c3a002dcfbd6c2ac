"""Who comes in over HTTP, how much, how often and how slowly: what a request has passed before the node hears of it."""

import asyncio
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from chain.errors import LedgerError
from chain.rpc.dispatcher import INVALID_REQUEST

_KNOWN_CLIENTS = 10_000


@dataclass(frozen=True)
class ServerParams:
    """Where and how a node answers."""

    host: str = "127.0.0.1"
    port: int = 8545
    token: str = field(default="", repr=False)
    """Required as `Authorization: Bearer ...` if set."""
    max_request_bytes: int = 32 << 20
    """More where a network was founded with payloads that need it."""
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


class RequestLimits:
    """Decides for every HTTP request whether it is answered at all: token, rate, size, time."""

    def __init__(self, params: ServerParams, most_bytes: Callable[[], int] = lambda: 0) -> None:
        """`most_bytes`: what a request may have at least, by the payloads that the network was founded with."""
        self._params, self._rate, self._founded = params, RateLimit(params.requests_per_s), most_bytes
        self._readings: set[asyncio.Timeout] = set()

    async def body(self, request: Request) -> bytes | Response:
        """A request's body, or why it is refused. Also then it is read, and forgotten: else its client sees a reset."""
        refusal = self.refusal(request) or self._stranger(request)
        most = max(self._params.max_request_bytes, self._founded())
        reading = asyncio.timeout(self._params.read_s)
        self._readings.add(reading)
        try:
            async with reading:
                body = await _read(request, 0 if refusal else most)
        except ClientDisconnect:
            return Response(status_code=400)
        except TimeoutError:
            return _refusal(408, f"the request has not arrived within {self._params.read_s:g} s, or the node stops")
        finally:
            self._readings.discard(reading)
        if refusal is None and body is None:
            refusal = _refusal(413, f"the request is larger than {most} bytes")
        return refusal or body or b""

    def hurry(self) -> None:
        """Wait no longer for requests that are arriving."""
        for reading in self._readings:
            if not reading.expired():
                reading.reschedule(0.0)

    def refusal(self, request: Request) -> Response | None:
        """Why anybody is refused: asking too often. It comes first, so it bounds guesses of the token too."""
        if self._rate.admits(request.client.host if request.client else ""):
            return None
        return _refusal(429, f"more than {self._params.requests_per_s:g} requests per second; ask again later")

    def _stranger(self, request: Request) -> Response | None:
        if "origin" in request.headers:  # browsers send it: a page that its owner visits could post to 127.0.0.1
            return _refusal(403, "found a request of a web page (header Origin), expected one of a program")
        if not _has_token(request, self._params.token):
            return _refusal(401, "found no valid token, expected the header 'Authorization: Bearer TOKEN'")
        return None


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


def _refusal(status: int, message: str) -> Response:
    """A refusal as JSON-RPC. It ends the connection: nobody drips bytes into it for ever."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    headers = {"Connection": "close"} | ({"WWW-Authenticate": "Bearer"} if status == 401 else {})
    return JSONResponse(error, status, headers)
