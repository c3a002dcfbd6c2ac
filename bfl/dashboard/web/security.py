"""Who is let in, and with what headers the page goes out. GET only, bounded, and to known hosts."""

import hashlib
import hmac
import html
import ipaddress
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bfl.dashboard.same_site import is_foreign_part

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
MOST_PATH, MOST_QUERY, MOST_HEADERS, MOST_HEADER_BYTES = 1024, 2048, 64, 16 << 10
TOKEN_BYTES = 32
COOKIE = "bfl-dashboard"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
Refuse = Callable[[Scope, int, str], Response]


@dataclass(frozen=True)
class WebParams:
    """Where the page is, and who may see it."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str = ""
    """Wanted of everybody; empty: of nobody, which is for loopback alone."""
    names: frozenset[str] = frozenset()
    """More names that this machine is called by."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)
    """What the cookie says: not the token, and another one each time the server starts."""

    @property
    def is_loopback(self) -> bool:
        """Whether nobody else can reach it."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """For the person at the terminal; with the token, where there is one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Around the application: everything that it is asked passes here, and all answers too."""

    def __init__(self, app: ASGIApp, params: WebParams, refuse: Refuse) -> None:
        self._app, self._params, self._refuse = app, params, refuse
        known = {params.host.lower(), f"[{params.host.lower()}]"} - {"0.0.0.0", "::", "[::]"}  # noqa: S104
        self._hosts = _LOOPBACK_NAMES | known | {each.lower() for each in params.names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse it, let it in for a cookie, or let it through."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers) or self._entrance(scope, headers)
        await (answer or self._app)(scope, receive, _with_headers(send, str(scope["path"])))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            told = f"found method {scope['method']:.20}, expected GET: this page changes nothing"
            answer = self._refuse(scope, 405, told)
            answer.headers["allow"] = "GET, HEAD"
            return answer
        if len(scope["headers"]) > MOST_HEADERS:
            return self._refuse(scope, 431, f"found more than {MOST_HEADERS} headers, expected a few")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADER_BYTES:
            return self._refuse(
                scope, 431, f"found headers that are too long, expected at most {MOST_HEADER_BYTES:,} bytes"
            )
        if len(scope["raw_path"]) > MOST_PATH or len(scope["query_string"]) > MOST_QUERY:
            told = f"found a path or query that is too long, expected at most {MOST_PATH} and {MOST_QUERY} bytes"
            return self._refuse(scope, 414, told)
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return self._refuse(scope, 400, "found a body in a request, expected none")
        if not self._is_known_host(headers.getlist("host")):
            told = f"found host {','.join(headers.getlist('host'))!r:.80}, expected {self._params.host} or localhost"
            return self._refuse(scope, 421, told)
        if is_foreign_part(headers):
            return self._refuse(scope, 403, "found a request by another site's page, expected one of this page")
        return None

    def _is_known_host(self, given: list[str]) -> bool:
        """A site elsewhere may have its name lead here (DNS rebinding): names must be known. An address is no name."""
        if len(given) != 1:
            return False
        name = host_in(given[0])
        return name in self._hosts or (not self._params.is_loopback and _is_address(name))

    def _entrance(self, scope: Scope, headers: Headers) -> Response | None:
        """With a token in the URL: a cookie for it. None: come in."""
        token = self._params.token
        if not token or self._knows(headers):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=50)
        given = [value for name, value in query if name == "token"]
        if len(given) == 1 and is_same(given[0], token):
            left = urlencode([each for each in query if each[0] != "token"])
            return self._welcome(quote(str(scope["path"])) + (f"?{left}" if left else ""))
        told = "found no token (or another one), expected the one that the server has printed: open its whole URL"
        return self._refuse(scope, 401, told)

    def _knows(self, headers: Headers) -> bool:
        bearer = headers.get("authorization", "").partition("Bearer ")[2]
        if bearer and is_same(bearer, self._params.token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")[:4096]).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and is_same(cookie.value, self._params.session)

    @property
    def _cookie(self) -> str:
        return f"{COOKIE}-{self._params.port}"  # cookies know no ports: two pages of one machine keep apart

    def _welcome(self, place: str) -> Response:
        """Not a redirect: after a link elsewhere a browser would follow it without the cookie (SameSite=Strict)."""
        safe = html.escape("/" + place.lstrip("/"), quote=True)
        answer = HTMLResponse(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={safe}">'
            f'<title>bfl</title><p><a href="{safe}">Go on</a></p></html>'
        )
        answer.set_cookie(self._cookie, self._params.session, path="/", httponly=True, samesite="strict")
        return answer


def is_same(given: str, expected: str) -> bool:
    """Compared in constant time, whatever their lengths."""
    digests = [hashlib.sha256(each.encode("utf-8", "replace")).digest() for each in (given, expected)]
    return hmac.compare_digest(*digests)


def host_in(header: str) -> str:
    """The name or address in a Host header, without its port."""
    text = header.strip().lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _with_headers(send: Send, path: str) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            # a script may be kept, and is asked for again: after an update of bfl the old one would meet new pages
            headers["cache-control"] = "no-cache" if path.startswith("/static/") else "no-store"
        await send(message)

    return send_with
