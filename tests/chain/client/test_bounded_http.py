"""Answers of a node that may be anybody's (Q6): bounded while they are read; and where a token goes."""

import functools
import gzip
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from web3 import Web3

from chain.client.asking import read_bytes, request, request_all, web3_over_http
from chain.client.bounded_http import LARGEST, check_token_may_go
from chain.errors import LedgerError, NodeUnreachableError

TOKEN = "a-secret"  # noqa: S105
OK = b"HTTP/1.1 200 OK\r\n"
PLAIN = b'{"jsonrpc":"2.0","id":0,"result":"0x00"}'


class Liar:
    """Reads a request, and then says what it is told to, for as long as anybody listens."""

    def __init__(self, say: Callable[[Callable[[bytes], None]], None]) -> None:
        self._say, self.heard, self.said = say, b"", 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.settimeout(10)
                self.heard += _whole_request(client)
                self._say(functools.partial(self._send, client))

    def _send(self, client: socket.socket, part: bytes) -> None:
        client.sendall(part)
        self.said += len(part)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(20)


def _whole_request(client: socket.socket) -> bytes:
    """Or else the socket would be reset when it is closed."""
    heard = b""
    pattern = re.compile(rb"Content-Length: (\d+).*?\r\n\r\n(.*)", re.DOTALL)
    while not (found := pattern.search(heard)) or len(found[2]) < int(found[1]):
        heard += client.recv(1 << 16)
    return heard


@contextmanager
def saying(*parts: bytes, again: bytes = b"", pause_s: float = 0.0) -> Iterator[Liar]:
    """These parts, then the last one again and again, with pauses."""

    def say(send: Callable[[bytes], None]) -> None:
        for part in parts:
            send(part)
        end = time.monotonic() + 20
        while again and time.monotonic() < end:
            time.sleep(pause_s)
            send(again)

    liar = Liar(say)
    try:
        yield liar
    finally:
        liar.close()


def answer(body: bytes, *headers: bytes) -> bytes:
    return b"".join([OK, b"Content-Length: %d\r\n" % len(body), *(each + b"\r\n" for each in headers), b"\r\n", body])


def web3_to(url: str, timeout_s: float = 5.0) -> Web3:
    return web3_over_http(url, timeout_s=timeout_s)


# --- how much


def test_a_plain_answer_is_read() -> None:
    with saying(answer(PLAIN)) as node:
        assert read_bytes(request(web3_to(node.url), "bfl_getRawHeader", "latest")) == b"\0"


@pytest.mark.parametrize(
    "begin",
    [OK + b"\r\n", OK + b"Content-Length: 10000000000\r\n\r\n", OK, b"HTTP/1.1 200 "],
    ids=["body", "body of known length", "header", "first line"],
)
def test_an_answer_without_end_is_cut_off(begin: bytes) -> None:
    with saying(begin, again=b"X-Long: " + b"x" * 10_000 + b"\r\n") as node:
        with pytest.raises(NodeUnreachableError, match=r"more than 65536 bytes|got more than 65536|line"):
            request(web3_to(node.url), "bfl_getRawHeader", "latest")
        assert node.said < 16 << 20


def test_chunks_without_end_are_cut_off_too() -> None:
    with (
        saying(OK + b"Transfer-Encoding: chunked\r\n\r\n", again=b"1\r\nx\r\n" * 1000) as node,
        pytest.raises(NodeUnreachableError, match="more than 65536 bytes"),
    ):
        request(web3_to(node.url), "bfl_importBlock", "0x")


def test_what_may_come_depends_on_what_was_asked() -> None:
    body = PLAIN.replace(b"0x00", b"0x" + b"00" * 100_000)
    with saying(answer(body)) as node:
        assert len(read_bytes(request(web3_to(node.url), "bfl_getRawBlock", "latest"))) == 100_000
        with pytest.raises(NodeUnreachableError, match="more than 65536 bytes"):
            request(web3_to(node.url), "bfl_getRawHeader", "latest")


def test_values_are_counted_before_they_are_made() -> None:
    body = b'{"jsonrpc":"2.0","id":0,"result":[' + b"{}," * 1_000_000 + b"{}]}"
    with saying(answer(body)) as node:
        tracemalloc.start()
        try:
            for method in ("bfl_getRawBlock", "bfl_getSidecar"):
                with pytest.raises(NodeUnreachableError, match="2000005 values in an answer, expected at most 100"):
                    request(web3_to(node.url), method)
            with pytest.raises(NodeUnreachableError, match=f"expected at most {LARGEST.most_items}"):
                request(web3_to(node.url), "eth_getLogs", {})
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()


def test_a_packed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(10 << 20))
    for encoding in (b"gzip", b"deflate", b"GZIP", b"br"):
        with (
            saying(answer(bomb, b"Content-Encoding: " + encoding)) as node,
            pytest.raises(NodeUnreachableError, match="found an answer packed as"),
        ):
            request(web3_to(node.url), "bfl_genesis")


# --- how long


@pytest.mark.parametrize(
    ("begin", "drop"),
    [(OK + b"\r\n", b" "), (OK, b"x"), (b"", b"H"), (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0")],
    ids=["body", "header", "first line", "chunk"],
)
def test_dripping_bytes_does_not_win_time(begin: bytes, drop: bytes) -> None:
    with saying(begin, again=drop, pause_s=0.05) as node:
        before_s = time.monotonic()
        with pytest.raises(NodeUnreachableError, match="timed out"):
            request(web3_to(node.url, timeout_s=0.2), "bfl_genesis")
        assert time.monotonic() - before_s < 3


def test_who_dripped_once_has_its_time_again() -> None:
    with saying(answer(PLAIN)) as node:
        web3 = web3_to(node.url, timeout_s=0.5)
        for _ in range(3):
            request(web3, "bfl_genesis")
            time.sleep(0.3)


# --- where a token goes


@pytest.mark.parametrize(
    "url",
    [
        "http://other:8545",
        "http://10.0.0.7:8545",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "http://evil.example\\@127.0.0.1",
        "http://[2001:db8::1]:8545",
        "HTTP://other",
        "ws://other",
    ],
)
def test_a_token_is_not_sent_in_the_clear_to_another_machine(url: str) -> None:
    with pytest.raises(LedgerError, match=r"over plain http: .*; use https://, or a tunnel \(ssh -L") as refused:
        web3_over_http(url, TOKEN)
    assert TOKEN not in str(refused.value)
    check_token_may_go(url, "")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8545", "http://localhost:8545", "http://[::1]:1", "http://127.9.9.9", "https://other:1"]
)
def test_a_token_is_sent_within_this_machine_and_over_https(url: str) -> None:
    web3_over_http(url, TOKEN)


def test_a_redirect_is_not_followed() -> None:
    with saying(answer(PLAIN)) as elsewhere:
        moved = b"HTTP/1.1 307 Moved\r\nContent-Length: 0\r\nLocation: " + elsewhere.url.encode() + b"\r\n\r\n"
        with saying(moved) as node, pytest.raises(NodeUnreachableError, match="0 redirects"):
            request(web3_over_http(node.url, TOKEN), "bfl_genesis")
        assert elsewhere.heard == b""


def test_a_proxy_does_not_get_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with saying(answer(PLAIN)) as proxy, saying(answer(PLAIN)) as node:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        request(web3_over_http(node.url, TOKEN), "bfl_genesis")
        assert proxy.heard == b""
        assert b"Bearer " + TOKEN.encode() in node.heard


def test_several_answers_together_may_be_as_long_as_each_of_them_may() -> None:
    most = 2 * (64 << 10)
    with (
        saying(OK + b"\r\n[", again=b" " * (16 << 10)) as liar,
        pytest.raises(NodeUnreachableError, match=f"more than {most} "),
    ):
        request_all(web3_over_http(liar.url), [("bfl_getRawHeader", "latest"), ("bfl_getRawHeader", "0x1")])
