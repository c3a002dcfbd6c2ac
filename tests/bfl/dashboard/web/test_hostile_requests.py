"""Wrong and hostile requests to the real page, byte by byte over a socket: refused with a status and a reason, and with
nothing about this machine in the answer."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bfl.dashboard.made import line, write_run
from tests.bfl.dashboard.pages_served import served
from tests.bfl.runs import ROOT

pytestmark = pytest.mark.slow

TOKEN = "a-token-that-somebody-chose"  # noqa: S105 - made up
_WITHIN_S, _MOST = 30.0, 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run of three rounds is."""
    found = tmp_path_factory.mktemp("secret-place")
    write_run(found / "run", map(line, (1, 2, 3)))
    return found


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """Of a page for this machine alone."""
    with served(str(folder / "run"), folder=folder) as (client, _):
        yield client.base_url.port or 0


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[int]:
    """Of a page that wants a token."""
    (folder / "token").write_text(TOKEN)
    with served(str(folder / "run"), "--token-file", "token", folder=folder) as (client, _):
        yield client.base_url.port or 0


def answer_to(port: int, request: bytes) -> tuple[int, str]:
    """Status and whole answer."""
    with socket.create_connection(("127.0.0.1", port), _WITHIN_S) as connection:
        connection.sendall(request)
        found = b""
        while len(found) < _MOST and (part := connection.recv(65536)):
            found += part
    status = re.match(rb"HTTP/1\.1 (\d{3}) ", found)
    assert status, f"no answer, but {found[:80]!r}"
    return int(status[1]), found.decode("utf-8", "replace")


def get(target: str, *headers: str, method: str = "GET", host: str = "127.0.0.1") -> bytes:
    """A request as it goes over the wire; the connection ends after it."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


FOREIGN = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors")
SENTENCE = "found .*expected|found .*which is|nobody|this page"

WRONG = {
    # paths
    "a way out": (get("/../../../../etc/passwd"), 404, SENTENCE),
    "a way out of static": (get("/static/../../facts.py"), 404, SENTENCE),
    "a way out, encoded": (get("/static/%2e%2e/%2e%2e/facts.py"), 404, SENTENCE),
    "a way out, encoded whole": (get("/static/..%2f..%2f..%2f..%2fetc%2fpasswd"), 404, SENTENCE),
    "a way out, encoded twice": (get("/static/%252e%252e%252fpasswd"), 404, SENTENCE),
    "a way out, other slashes": (get("/static/..\\..\\facts.py"), 404, SENTENCE),
    "a folder": (get("/static/js"), 404, SENTENCE),
    "a zero": (get("/static/%00"), 404, SENTENCE),
    "a zero in a name": (get("/static/js/main.js%00.css"), 404, SENTENCE),
    "a zero in a block": (get("/api/v1/blocks/%00"), 404, SENTENCE),
    "a name too long for files": (get("/static/" + "x" * 500), 404, SENTENCE),
    "another site's address": (get("http://evil.example/secret"), 404, SENTENCE),
    "a path too long": (get("/" + "x" * 2000), 414, SENTENCE),
    "a query too long": (get("/api/v1/run?" + "x" * 3000), 414, SENTENCE),
    "no text": (get("/api/v1/offences/%ff%fe"), 404, SENTENCE),
    # numbers and names
    "below zero": (get("/api/v1/rounds/-1"), 400, SENTENCE),
    "no number": (get("/api/v1/rounds?after=NaN"), 400, SENTENCE),
    "endless": (get("/api/v1/assignments?to=Infinity"), 400, SENTENCE),
    "huge": (get("/api/v1/rounds/" + "9" * 300), 400, SENTENCE),
    "huge page": (get("/blocks?page=" + "9" * 300), 400, SENTENCE),
    "page below zero": (get("/rounds?page=-1"), 400, SENTENCE),
    "page of a half": (get("/participants?page=1.5"), 400, SENTENCE),
    "too much at once": (get("/api/v1/blocks?limit=100000"), 400, SENTENCE),
    "unknown run": (get("/?run=../../etc"), 404, SENTENCE),
    "unknown run of the API": (get("/api/v1/run?run=%00"), 404, SENTENCE),
    "unknown round": (get("/round/4"), 404, SENTENCE),
    "unknown device": (get("/device/4"), 404, SENTENCE),
    "unknown server": (get("/server/99"), 404, SENTENCE),
    "unknown block": (get("/block/0x" + "0" * 64), 404, SENTENCE),
    "unknown offence": (get("/offence/%3Cscript%3E"), 404, SENTENCE),
    "a hash of another form": (get("/tx/0xZZ"), 404, SENTENCE),
    "too long a search": (get("/api/v1/search?q=" + "x" * 300), 400, SENTENCE),
    "too many runs": (get("/compare?" + "&".join(["run=run"] * 30)), 400, SENTENCE),
    # methods and bodies
    "a change": (get("/api/v1/audit", "Content-Length: 0", method="POST"), 405, SENTENCE),
    "a method nobody knows": (get("/", method="BREW"), 405, SENTENCE),
    "a tunnel": (get("evil.example:443", method="CONNECT"), 405, SENTENCE),
    "a body": (get("/api/v1/run", "Content-Length: 2") + b"{}", 400, SENTENCE),
    "a body in pieces": (get("/", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400, SENTENCE),
    "two lengths": (get("/", "Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n", 400, "found|Invalid"),
    "two different lengths": (get("/", "Content-Length: 0", "Content-Length: 5"), 400, "Invalid"),
    # hosts and other sites
    "another host": (get("/", host="evil.example"), 421, SENTENCE),
    "a host in disguise": (get("/", host="127.0.0.1.evil.example"), 421, SENTENCE),
    "no host": (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "Invalid"),
    "two hosts": (get("/", "Host: evil.example"), 400, "Invalid"),
    "a part for another site": (get("/api/v1/run", *FOREIGN), 403, SENTENCE),
    "a stream for another site": (get("/api/v1/stream", *FOREIGN, "Origin: https://evil.example"), 403, SENTENCE),
    "an audit for another site": (get("/api/v1/audit?start=1", *FOREIGN), 403, SENTENCE),
    "an audit by a link elsewhere": (
        get("/api/v1/audit?start=1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"), 400, SENTENCE
    ),
    "an audit from another origin": (get("/api/v1/audit?start=1", "Origin: https://evil.example"), 400, SENTENCE),
    "an audit by nobody of ours": (get("/api/v1/audit?start=1"), 400, SENTENCE),
    # headers and no HTTP
    "many headers": (get("/", *(f"X-{n}: y" for n in range(100))), 431, SENTENCE),
    "a header too long": (get("/", "X-Long: " + "y" * 30_000), 431, SENTENCE),
    "a zero on the wire": (b"GET /\x00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "Invalid"),
    "another protocol": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), 400, "Invalid"),
    "no protocol": (b"hello\r\n\r\n", 400, "Invalid"),
}  # fmt: skip


def check_discreet(answer: str, folder: Path) -> None:
    """Neither where files are, nor what runs here, nor how it failed, nor a secret."""
    for secret in (str(folder), str(ROOT), "site-packages", "Traceback", 'File "', "python", "uvicorn", "root:", TOKEN):
        assert secret not in answer, secret


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused_with_a_reason_and_nothing_is_given_away(port: int, folder: Path, name: str) -> None:
    request, expected, told = WRONG[name]
    status, answer = answer_to(port, request)
    assert status == expected
    body = answer.partition("\r\n\r\n")[2]
    assert re.search(told, body, re.DOTALL), body[:500]
    check_discreet(answer, folder)
    assert "<script>" not in body.replace('<script src="/static/', "")


def test_a_page_starts_no_audit_for_a_link_elsewhere(port: int) -> None:
    status, _ = answer_to(port, get("/audit?start=1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"))
    assert status == 200
    assert '"status":"running"' not in answer_to(port, get("/api/v1/audit"))[1].replace(" ", "")


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/", ()), ("/static/js/main.js", ()), ("/?token=", ()), ("/?token=wrong", ()), (f"/?token={TOKEN[:-1]}", ()),
        (f"/?token={TOKEN}&token={TOKEN}", ()), ("/api/v1/run", ("Authorization: Bearer wrong",)),
        ("/api/v1/run", ("Cookie: bfl-dashboard-{port}=wrong",)), ("/api/v1/stream", ("Cookie: =;=;",)),
        ("/metrics", (f"Cookie: bfl-dashboard-{{port}}={TOKEN}",)), ("/rounds.csv", (f"Cookie: token={TOKEN}",)),
    ],
)  # fmt: skip
def test_without_the_token_nobody_sees_anything(
    guarded: int, folder: Path, target: str, headers: tuple[str, ...]
) -> None:
    status, answer = answer_to(guarded, get(target, *(each.format(port=guarded) for each in headers)))
    assert status == 401
    assert "expected the one that the server has printed" in answer
    assert "set-cookie" not in answer.lower()
    check_discreet(answer, folder)


def test_who_opens_ten_streams_gets_six_and_the_page_answers_on(port: int) -> None:
    with ExitStack() as opened:
        first = []
        for _ in range(10):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), _WITHIN_S))
            connection.sendall(get("/api/v1/stream"))
            first.append(connection.recv(64))
        assert [int(each.split()[1]) for each in first] == [200] * 6 + [429] * 4
        assert answer_to(port, get("/"))[0] == 200


def test_who_says_nothing_keeps_nobody_waiting(port: int) -> None:
    with ExitStack() as opened:
        for _ in range(40):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), _WITHIN_S))
            connection.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert answer_to(port, get("/api/v1/run"))[0] == 200


def test_huge_but_whole_numbers_are_bounded_by_what_there_is(port: int) -> None:
    for target in ("/rounds?page=999999999", "/api/v1/assignments?from=1&to=9007199254740992&last=9007199254740992"):
        status, answer = answer_to(port, get(target))
        assert status == 200
        assert len(answer) < _MOST
