"""The node's HTTP door: who is let in, how much, how often and how slowly."""

import asyncio
import contextlib
import json
import logging
import select
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import requests

from chain.errors import LedgerError
from chain.node.node import Node
from chain.rpc import limits as door
from chain.rpc.limits import RateLimit, ServerParams
from chain.rpc.server import RpcServer
from chain.wire.sidecar import payload_digest
from tests.chain.network import SIZES, Clock, Network, genesis, named, sized
from tests.chain.rpc.http_client import ANSWER, CHAIN_ID, HALF, ask, stalled
from tests.chain.scene import Scene

TOKEN = "correct-horse-battery-staple"  # noqa: S105
LIMIT = 100_000


@pytest.fixture(scope="module")
def url(shared: Scene) -> Iterator[str]:
    """A server with a small limit and no others."""
    with RpcServer(shared.node, ServerParams(port=0, max_request_bytes=LIMIT, requests_per_s=1e6)) as address:
        yield address


def everything(client: socket.socket) -> bytes:
    """All that the server says before it closes the connection."""
    return b"".join(iter(lambda: client.recv(1000), b""))


# --- size


def padded(size: int) -> bytes:
    body = json.dumps(CHAIN_ID).encode()
    return body + b" " * (size - len(body))


def test_a_request_of_the_limit_is_read_and_a_longer_one_is_not(url: str) -> None:
    assert requests.post(url, data=padded(LIMIT), timeout=20).json() == ANSWER
    for size in (LIMIT + 1, 3 << 20):
        response = requests.post(url, data=padded(size), timeout=20)
        assert response.status_code == 413
        assert response.json()["error"]["message"] == f"the request is larger than {LIMIT} bytes"


def test_a_request_in_chunks_has_the_same_limit(url: str) -> None:
    for size, status in ((LIMIT, 200), (LIMIT + 1, 413), (1 << 20, 413)):
        body = padded(size)
        parts = (body[i : i + 10_000] for i in range(0, size, 10_000))
        assert requests.post(url, data=parts, timeout=20).status_code == status


def test_a_request_with_the_largest_founded_payload_is_let_in_whatever_the_limit() -> None:
    """And not much more: twice the payload, which is in hex, and 64 KB."""
    size = 200_000
    network, node = Network(sizes=SIZES._replace(model=size)), Node.in_memory(genesis(), now=Clock())
    with RpcServer(node, ServerParams(port=0, max_request_bytes=1000)) as url:
        assert requests.post(url, data=padded((64 << 10) + 1), timeout=20).status_code == 413
        network.found(node)
        network.post_plan(node)
        network.post_close(node)
        payload = sized(b"a model", size)
        arguments = 1, 0, node.ask("close_digest"), *named(payload)
        raw = network.signed(node, network.leader(node), "model", *arguments)
        post = CHAIN_ID | {"method": "bfl_sendPost", "params": ["0x" + raw.hex(), ["0x" + payload.hex()]]}
        assert "result" in ask(url, post).json()
        assert node.payload(payload_digest(payload)) == payload
        most = 2 * size + (64 << 10)
        assert requests.post(url, data=padded(most), timeout=20).json() == ANSWER
        response = requests.post(url, data=padded(most + 1), timeout=20)
        assert response.json()["error"]["message"] == f"the request is larger than {most} bytes"
    node.close()


def test_a_body_beyond_the_limit_does_not_fill_the_memory() -> None:
    class Endless:
        async def stream(self) -> AsyncIterator[bytes]:
            for _ in range(64):
                yield bytes(1 << 20)

    async def forget(*_: int) -> None:
        """Count nothing."""

    tracemalloc.start()
    try:
        assert asyncio.run(door._read(Endless(), 2 << 20, forget)) is None  # type: ignore[arg-type]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# --- rate


def test_a_rate_is_a_burst_of_twice_as_many_and_then_so_many_per_second() -> None:
    clock = Clock(0.0)
    rate = RateLimit(5.0, clock)
    assert [rate.admits("a") for _ in range(12)] == [True] * 10 + [False] * 2
    assert rate.admits("b")
    clock.pass_s(0.2)
    assert [rate.admits("a") for _ in range(2)] == [True, False]
    clock.pass_s(3600)
    assert sum(rate.admits("a") for _ in range(50)) == 10


def test_a_slow_rate_admits_one_at_a_time() -> None:
    clock = Clock(0.0)
    rate = RateLimit(0.1, clock)
    assert [rate.admits("a"), rate.admits("a")] == [True, False]
    clock.pass_s(10.1)
    assert rate.admits("a")


def test_a_million_clients_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_KNOWN_CLIENTS", 10)
    rate = RateLimit(1.0, Clock(0.0))
    assert all(rate.admits(str(i)) for i in range(1000))
    assert len(rate._buckets) == 10


def test_who_asks_too_often_is_told_so_whatever_the_proxy_says(shared: Scene) -> None:
    with RpcServer(shared.node, ServerParams(port=0, requests_per_s=1.5)) as url:
        responses = [ask(url, headers={"X-Forwarded-For": f"10.0.0.{i}"}) for i in range(6)]
        health = requests.get(f"{url}/health", timeout=20)
    assert [response.status_code for response in responses[:3]] == [200] * 3
    assert {response.status_code for response in responses[4:]} == {429}
    assert "more than 1.5 requests per second" in responses[-1].json()["error"]["message"]
    assert health.status_code == 429


# --- token


@pytest.fixture(scope="module")
def guarded(shared: Scene) -> Iterator[str]:
    with RpcServer(shared.node, ServerParams(port=0, token=TOKEN, requests_per_s=1e6)) as address:
        yield address


@pytest.mark.parametrize("value", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER {TOKEN}", f"Bearer  {TOKEN} "])
def test_the_token_opens(guarded: str, value: str) -> None:
    assert ask(guarded, headers={"Authorization": value}).json() == ANSWER


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {TOKEN.upper()}",
     f"Basic {TOKEN}", f"Bearer{TOKEN}", f"Bearer {TOKEN} {TOKEN}", "Bearer ü", None],
)  # fmt: skip
def test_anything_else_does_not(guarded: str, value: str | None) -> None:
    headers = {} if value is None else {"authorization": value.encode("utf-8")}
    response = ask(guarded, headers=headers)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert response.json()["error"]["message"].startswith("found no valid token, expected the header 'Authorization")
    assert requests.post(f"{guarded}/?token={TOKEN}", json=CHAIN_ID, timeout=20).status_code == 401


def test_a_large_post_with_a_wrong_token_sees_the_refusal_and_no_reset(guarded: str) -> None:
    assert requests.post(guarded, data=b" " * (8 << 20), timeout=20).status_code == 401


def test_nothing_of_a_refused_request_is_kept(guarded: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    read = door._read

    async def noted(request: Any, limit: int, hold: Any) -> bytes | None:
        limits.append(limit)
        return await read(request, limit, hold)

    monkeypatch.setattr(door, "_read", noted)
    assert ask(guarded).status_code == 401
    assert ask(url).json() == ANSWER
    assert limits == [0, LIMIT]


def test_tokens_are_compared_in_constant_time(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda *both: compared.append(both))
    assert ask(guarded, headers={"Authorization": "Bearer guess"}).status_code == 401
    assert compared == [(b"guess", TOKEN.encode())]


def test_the_token_is_never_logged(
    shared: Scene, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    params = ServerParams(port=0, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with caplog.at_level(1), RpcServer(shared.node, params) as url:
        ask(url, headers=headers)
        ask(url, headers=headers | {"Authorization": f"Basic {TOKEN}"})
        requests.post(f"{url}/?token={TOKEN}", data=b"\xff", headers=headers, timeout=20)
        with stalled(url, b"POST / HTTP/1.1\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\nbroken\r\n\r\n"):
            ask(url, CHAIN_ID | {"method": "eth_feeHistory"}, headers=headers)
    ours = [record for record in caplog.records if not record.name.startswith("urllib3")]  # the client's
    assert TOKEN not in "".join(record.getMessage() for record in ours) + "".join(capfd.readouterr())
    assert TOKEN not in repr(params)


@pytest.mark.parametrize("token", ["two words", "line\n", "tokén", "\x00"])
def test_a_token_that_no_header_carries_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(LedgerError, match="expected visible ASCII") as refused:
        ServerParams(token=token)
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"port": -1}, {"port": 70_000}, {"read_s": 0.0}, {"header_s": 0.0}, {"answer_s": -1.0}, {"requests_per_s": 0.0},
     {"max_request_bytes": 0}, {"max_connections": 0}, {"max_connections_per_address": 0}, {"max_answers": 0},
     {"max_arriving_bytes": 0}, {"max_unsent_bytes": 0}, {"max_answers_per_address": 0}, {"max_share": 0.0}],
)  # fmt: skip
def test_impossible_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(LedgerError, match=r"found .*, expected"):
        ServerParams(**change)


def test_a_web_page_may_not_post(url: str) -> None:
    response = ask(url, headers={"Origin": "https://evil.example", "Content-Type": "text/plain"})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


# --- slow clients


def test_a_stalled_client_blocks_nobody_and_is_cut_off(shared: Scene) -> None:
    with RpcServer(shared.node, ServerParams(port=0, read_s=2.0)) as url, contextlib.ExitStack() as stack:
        stack.enter_context(stalled(url, b""))
        stack.enter_context(stalled(url, b"POST / HTT"))
        clients = [stack.enter_context(stalled(url, HALF)) for _ in range(60)]  # more than there are threads
        assert ask(url).json() == ANSWER
        assert select.select(clients, [], [], 0)[0] == []  # all of them stall still
        for client in clients:
            assert everything(client).startswith(b"HTTP/1.1 408")


def test_dripping_bytes_does_not_win_time(shared: Scene) -> None:
    with RpcServer(shared.node, ServerParams(port=0, read_s=0.5)) as url, stalled(url, HALF) as client:
        before_s = time.monotonic()
        client.settimeout(0.1)
        answer = b""
        while not answer and time.monotonic() < before_s + 10:
            client.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                answer = client.recv(1000)
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_refusal_ends_the_connection(guarded: str) -> None:
    """Else a stranger would hold it open with a byte every few seconds."""
    with stalled(guarded, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{") as client:
        before_s = time.monotonic()
        assert everything(client).startswith(b"HTTP/1.1 401")
        assert time.monotonic() - before_s < 4  # uvicorn itself closes an idle connection after 5 s


def test_a_client_that_leaves_in_the_middle_leaves_no_trace(url: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(5):
        with stalled(url, HALF):
            pass
    assert ask(url).json() == ANSWER
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
