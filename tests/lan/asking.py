"""Ask an HTTP server from a machine of the test network: the tests themselves are on none of them."""

import http.client
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bfl.network.lan.commands import LanError
from tests.lan.machine import Machine

_ANSWERS_S = 5.0
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    body: bytes


def connect(machine: Machine, address: str, port: int, timeout_s: float = _ANSWERS_S) -> socket.socket:
    """A connection from this machine, to be kept open."""
    return machine.inside(lambda: socket.create_connection((address, port), timeout=timeout_s))


def ask(
    machine: Machine,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = _ANSWERS_S,
) -> Answer:
    """One request on a connection of its own, POST if it has a body. No proxy, no redirects; raises `OSError`."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise LanError(f"found {url!r}, expected http:// and an address")
    with connect(machine, parts.hostname, parts.port or 80, timeout_s) as wire:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        connection.sock = wire
        path = parts.path or "/"
        path += f"?{parts.query}" if parts.query else ""
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        with connection.getresponse() as response:
            return Answer(response.status, response.read())


def ask_rpc(
    machine: Machine, url: str, method: str, *params: Any, token: str = "", timeout_s: float = _ANSWERS_S
) -> Any:
    """The result of a JSON-RPC call; raises `LanError` if the server refuses."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    answer = ask(machine, url, json.dumps(request).encode(), headers, timeout_s)
    found = json.loads(answer.body) if answer.status == 200 else {}
    if "result" not in found:
        raise LanError(f"{method} at {url}: HTTP {answer.status}, {answer.body[:300]!r}")
    return found["result"]


def reaches(machine: Machine, url: str, timeout_s: float = 1.0) -> bool:
    """Does any answer come?"""
    try:
        ask(machine, url, timeout_s=timeout_s)
    except (OSError, http.client.HTTPException):
        return False
    return True


def wait_until_reaches(machine: Machine, url: str, timeout_s: float) -> None:
    """Wait for a server that is starting, or a network that is healing."""
    end = time.monotonic() + timeout_s
    while not reaches(machine, url):
        if time.monotonic() > end:
            raise LanError(f"{machine.name} got no answer from {url} within {timeout_s:g} s")
        time.sleep(_PAUSE_S)
