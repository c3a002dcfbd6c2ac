"""Clients of a node's HTTP server: one that asks, and one that stalls."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests

CHAIN_ID: Any = {"jsonrpc": "2.0", "id": 7, "method": "eth_chainId"}
ANSWER = {"jsonrpc": "2.0", "id": 7, "result": "0x1092"}


def ask(url: str, request: Any = CHAIN_ID, **options: Any) -> requests.Response:
    return requests.post(url, json=request, timeout=20, **options)


def place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


@contextlib.contextmanager
def stalled(url: str, sent: bytes) -> Iterator[socket.socket]:
    """A client that sends this much and then nothing."""
    with socket.create_connection(place(url), timeout=20) as client:
        client.sendall(sent)
        yield client


HALF = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
