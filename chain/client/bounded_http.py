"""HTTP to a node that may be anybody's (Q6): an answer has so many bytes and so much time, counted as it comes in; and
a token goes nowhere but to the node it is for.

`requests` bounds neither: its timeout starts anew with every byte, and an answer is read to its end, unpacked.
"""

import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urljoin

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url
from web3 import HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from chain.client.payloads import RANGE_BYTES
from chain.client.tls import TlsClient
from chain.errors import ChainError, LedgerError, NodeUnreachableError
from chain.wire.identity import identity_in

_PATIENCE = 4
"""How many timeouts the whole answer may take"""
_FRAME_BYTES = 64 << 10
_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class AnswerLimits:
    """Of an answer: bytes, and brackets and commas, which are about as many objects once it is read."""

    most_bytes: int
    most_items: int


LARGEST = AnswerLimits(2 * _BLOCK_BYTES + _FRAME_BYTES, 2_000_000)
_BY_METHOD = {
    "bfl_getRawHeader": AnswerLimits(_FRAME_BYTES, 100),
    "bfl_getRawBlock": AnswerLimits(2 * _BLOCK_BYTES + _FRAME_BYTES, 100),
    "bfl_getSidecar": AnswerLimits(2 * RANGE_BYTES + _FRAME_BYTES, 100),
    "bfl_sendPost": AnswerLimits(_FRAME_BYTES, 100),
    "bfl_pendingTransactions": AnswerLimits(8 * _FRAME_BYTES, 5000),
    "bfl_getPending": AnswerLimits((2 << 20) + 2 * _FRAME_BYTES, 100),
    "bfl_importBlock": AnswerLimits(_FRAME_BYTES, 100),
}


_MARKS = AnswerLimits(_FRAME_BYTES, 100)


@dataclass(frozen=True)
class _Bounds:
    limits: AnswerLimits
    until_s: float


T = TypeVar("T")
_bounds: ContextVar[_Bounds | None] = ContextVar("_bounds", default=None)


class BoundedProvider(HTTPProvider):
    """web3's HTTP, bounded by what is asked."""

    def __init__(self, url: str, token: str = "", timeout_s: float = 30.0, tls: TlsClient | None = None) -> None:
        check_token_may_go(url, token)
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._headers, self._timeout_s, self._session = headers, timeout_s, _session(url, tls)
        kwargs = {"timeout": timeout_s, "headers": headers}
        super().__init__(url, kwargs, self._session, exception_retry_configuration=None)
        self._whole_s = _PATIENCE * timeout_s

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """The answer to one request."""
        ask = super().make_request
        return self._bounded(_BY_METHOD.get(method, LARGEST), lambda: ask(method, params))

    def make_batch_request(self, batch_requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse] | RPCResponse:
        """The answers to several."""
        ask = super().make_batch_request
        each = [_BY_METHOD.get(method, LARGEST) for method, _ in batch_requests]
        most_bytes, most_items = sum(one.most_bytes for one in each), sum(one.most_items for one in each)
        return self._bounded(
            AnswerLimits(min(most_bytes, LARGEST.most_bytes), min(most_items, LARGEST.most_items)),
            lambda: ask(batch_requests),
        )

    def changes(self, seen: Mapping[str, str], hold_s: float) -> dict[str, str]:
        """What GET /changes of a node of ours answers, after `hold_s` at the latest: a mark of each kind of change."""
        where = urljoin(str(self.endpoint_uri), "/changes")
        headers, timeout_s = self._headers, self._timeout_s + hold_s
        query = {**seen, "hold": f"{hold_s:g}"}

        def ask() -> Any:
            answer = self._session.get(where, params=query, headers=headers, timeout=timeout_s)
            answer.raise_for_status()
            return answer.json()

        found = self._bounded(_MARKS, ask)
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise NodeUnreachableError(f"found {found!r:.80} where the node should answer with what has changed")
        return found

    def _bounded(self, limits: AnswerLimits, ask: Callable[[], T]) -> T:
        before = _bounds.set(_Bounds(limits, time.monotonic() + self._whole_s))
        try:
            return ask()
        finally:
            _bounds.reset(before)

    @staticmethod
    def decode_rpc_response(raw_response: bytes) -> RPCResponse:
        """An answer as values: not more of them than such an answer has."""
        bounds = _bounds.get()
        items = sum(map(raw_response.count, (b"[", b"{", b",")))
        if bounds is not None and items > bounds.limits.most_items:
            raise NodeUnreachableError(
                f"found {items} values in an answer, expected at most {bounds.limits.most_items}"
            )
        return HTTPProvider.decode_rpc_response(raw_response)


# --- the token


def check_token_may_go(url: str, token: str) -> None:
    r"""Raise `LedgerError` where a token would go to another machine in the clear.

    The address is read as `requests` will read it: to `urlsplit` http://other\@127.0.0.1 is this machine.
    """
    if not token:
        return
    try:
        parts = parse_url(url)
    except LocationParseError as error:
        raise LedgerError(f"found {url!r:.80}, expected http:// or https:// and a host") from error
    host = (parts.host or "").strip("[]")
    if parts.scheme != "https" and not is_here(host):
        raise LedgerError(
            f"found a token for {host} over plain http: anybody on the way could read it; use https://, or a tunnel "
            f"(ssh -L 8545:127.0.0.1:{parts.port or 80} {host}) and http://127.0.0.1:8545"
        )


def is_here(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _session(url: str, tls: TlsClient | None = None) -> requests.Session:
    """Redirects are not followed: they would take what is posted elsewhere. Over plain http there is no proxy and no
    password of .netrc either: both get what is meant for this node.
    """
    session = requests.Session()
    session.max_redirects = 0
    session.trust_env = url.lower().startswith("https:")
    session.hooks["response"].append(_check_plain)
    if tls is not None:
        session.trust_env, session.verify = False, str(tls.files.authority)  # and nobody else's authority
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter(tls))
    return session


def _check_plain(response: requests.Response, **_: Any) -> None:
    """A packed answer may unpack to anything; none was asked for."""
    found = response.headers.get("Content-Encoding", "identity")
    if found.lower() != "identity":
        response.close()
        raise NodeUnreachableError(f"found an answer packed as {found!r:.40}, expected it plain")


# --- bytes as they come in


class _BoundedReader(io.RawIOBase):
    """What a socket says, for so long and so many bytes."""

    def __init__(self, sock: socket.socket, bounds: _Bounds) -> None:
        self._sock, self._bounds, self._size = sock, bounds, 0
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """The next bytes."""
        left_s = self._bounds.until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        given_s = self._sock.gettimeout()
        self._sock.settimeout(left_s if given_s is None else min(left_s, given_s))
        try:
            count = self._raw.readinto(buffer)
        finally:
            self._sock.settimeout(given_s)
        self._size += count or 0
        if self._size > self._bounds.limits.most_bytes:
            raise NodeUnreachableError(f"found an answer of more than {self._bounds.limits.most_bytes} bytes")
        return count

    def close(self) -> None:
        """Give the socket back."""
        self._raw.close()
        super().close()


class _BoundedResponse(http.client.HTTPResponse):
    """An answer, its header included, within the bounds of whoever asks in this thread."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        bounds = _bounds.get()
        if bounds is not None:
            self.fp.close()
            self.fp = io.BufferedReader(_BoundedReader(sock, bounds))


class _BoundedHttp(HTTPConnection):
    response_class = _BoundedResponse


class _BoundedHttps(HTTPSConnection):
    response_class = _BoundedResponse


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _BoundedHttp


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _BoundedHttps


class _BoundedAdapter(HTTPAdapter):
    def __init__(self, tls: TlsClient | None) -> None:
        self._tls = tls
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Pools of connections that are bounded, and know whom they expect."""
        if self._tls is not None:
            kwargs["ssl_context"] = self._tls.files.client_context()
        super().init_poolmanager(*args, **kwargs)
        secure = _HttpsPool if self._tls is None else _pool_of_members(self._tls)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": secure}


def _pool_of_members(tls: TlsClient) -> type[_HttpsPool]:
    """Connections that end where nobody of the network is: before a byte of a request is sent."""

    class Connection(_BoundedHttps):
        def connect(self) -> None:
            super().connect()
            try:
                tls.check(identity_in(cast(ssl.SSLSocket, self.sock).getpeercert()))
            except ChainError:
                self.close()
                raise

    return type("_MembersPool", (_HttpsPool,), {"ConnectionCls": Connection})
