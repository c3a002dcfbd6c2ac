"""A node survives its visitors (Q6): too many, too slow, too large, and still it answers whoever asks as one does."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from chain.rpc.dispatcher import TOO_OFTEN
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.rpc.http_client import ANSWER, CHAIN_ID, ask, place
from tests.chain.rpc.served import wait_until
from tests.chain.scene import Scene, scene

HALF_HEADER = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le"
PROMPT_S = 3.0
OTHERS = [f"127.0.0.{i}" for i in range(2, 12)]
"""Of this machine too, and other addresses to whoever counts them"""


@contextlib.contextmanager
def served(shared: Scene, **params: Any) -> Iterator[str]:
    with RpcServer(shared.node, ServerParams(**({"port": 0, "requests_per_s": 1e6} | params))) as url:
        yield url


def visit(url: str, sent: bytes, address: str = "127.0.0.1") -> socket.socket:
    client = socket.create_connection(place(url), timeout=20, source_address=(address, 0))
    client.sendall(sent)
    return client


def is_cut_off(client: socket.socket) -> bool:
    """Whether the other side has closed it."""
    client.setblocking(False)
    try:
        return client.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def open_ones(clients: list[socket.socket]) -> int:
    return sum(not is_cut_off(each) for each in clients)


def without_closed(clients: list[socket.socket]) -> list[socket.socket]:
    closed = [each for each in clients if is_cut_off(each)]
    for each in closed:
        each.close()
    return [each for each in clients if each not in closed]


def is_prompt(url: str) -> bool:
    before_s = time.monotonic()
    assert ask(url).json() == ANSWER
    return time.monotonic() - before_s < PROMPT_S


def post(body: bytes, size: int | None = None) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (len(body) if size is None else size) + body


# --- connections


def test_eleven_hundred_half_sent_headers_stop_nobody(shared: Scene) -> None:
    with served(shared) as url, contextlib.ExitStack() as stack:
        clients: list[socket.socket] = []
        for _ in range(1100):
            if len(clients) > 300:  # files of this process are bounded too
                clients = without_closed(clients)
            clients.append(stack.enter_context(contextlib.closing(visit(url, HALF_HEADER))))
        assert is_prompt(url)
        wait_until(lambda: open_ones(clients) <= 64)


def test_from_many_addresses_no_more_than_the_node_takes_in_all(shared: Scene) -> None:
    with served(shared, max_connections=20, max_connections_per_address=10) as url, contextlib.ExitStack() as stack:
        honest = stack.enter_context(requests.Session())
        honest.post(url, json=CHAIN_ID, timeout=20)
        clients = [
            stack.enter_context(contextlib.closing(visit(url, HALF_HEADER, address)))
            for _ in range(6)
            for address in OTHERS
        ]
        wait_until(lambda: open_ones(clients) <= 20)
        assert is_prompt(url)
        assert open_ones(clients) >= 10


def test_whoever_has_most_connections_makes_room(shared: Scene) -> None:
    with served(shared, max_connections=10, max_connections_per_address=8) as url, contextlib.ExitStack() as stack:
        quiet = [stack.enter_context(contextlib.closing(visit(url, b"", each))) for each in OTHERS[1:3]]
        crowd = [stack.enter_context(contextlib.closing(visit(url, HALF_HEADER, OTHERS[0]))) for _ in range(30)]
        newcomers = [stack.enter_context(contextlib.closing(visit(url, b"", each))) for each in OTHERS[3:6]]
        wait_until(lambda: open_ones(crowd) <= 5)
        assert open_ones(quiet) == 2
        assert open_ones(newcomers) == 3


def test_a_request_that_is_answered_makes_room_for_nobody() -> None:
    entered, let_go = threading.Event(), threading.Event()
    own = scene()
    head = own.node.nonce

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert let_go.wait(20)
        return head(*arguments)

    own.node.nonce = slow  # type: ignore[assignment,method-assign]
    body = json.dumps(CHAIN_ID | {"method": "eth_getTransactionCount", "params": ["0x" + "00" * 20]}).encode()
    with served(own, max_connections=2) as url, contextlib.ExitStack() as stack:
        asking = [stack.enter_context(contextlib.closing(visit(url, post(body)))) for _ in range(2)]
        assert entered.wait(20)
        time.sleep(0.2)
        with contextlib.closing(visit(url, b"")) as refused:
            assert refused.recv(100).startswith(b"HTTP/1.1 503")
        let_go.set()
        assert all(each.recv(1000).startswith(b"HTTP/1.1 200") for each in asking)


# --- slowness


def drip(client: socket.socket, part: bytes, seconds: float) -> float:
    """Send this over and over; after how many seconds the other side had enough."""
    before_s = time.monotonic()
    while (passed_s := time.monotonic() - before_s) < seconds:
        try:
            client.setblocking(True)
            client.sendall(part)
        except ConnectionError:
            return passed_s
        if is_cut_off(client):
            return passed_s
        time.sleep(0.05)
    return seconds


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        HALF_HEADER,
        post(json.dumps(CHAIN_ID).encode()) + HALF_HEADER,
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
    ],
    ids=["at once", "half a header", "after an answer", "a body nobody reads", "chunks nobody reads"],
)
def test_dripping_a_header_does_not_win_time(shared: Scene, begin: bytes) -> None:
    with served(shared, header_s=0.5) as url, contextlib.closing(visit(url, begin)) as client:
        assert 0.2 < drip(client, b"x", 10) < PROMPT_S


def test_who_does_not_take_the_answer_is_cut_off(shared: Scene) -> None:
    code = CHAIN_ID | {"method": "eth_getCode", "params": ["0x" + shared.node.genesis.registry.hex()]}
    body = json.dumps([code] * 100).encode()
    with served(shared, header_s=0.2, answer_s=1.0) as url, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(place(url))
        client.sendall(post(body))
        time.sleep(3)
        client.settimeout(20)
        taken = 0
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 16):
                taken += len(part)
        assert taken < len(requests.post(url, data=body, timeout=20).content)


def test_a_body_in_a_thousand_crumbs_is_refused(shared: Scene) -> None:
    """Each costs the server as much as a whole packet."""
    with served(shared) as url:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        with contextlib.closing(visit(url, head)) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"1\r\n \r\n" * 50_000)
            with contextlib.suppress(ConnectionError):
                assert client.recv(100).startswith(b"HTTP/1.1 400")
        assert is_prompt(url)


def test_a_busy_node_keeps_nobody_waiting_at_the_door(shared: Scene) -> None:
    """What needs no node is refused while somebody holds its lock."""
    with served(shared, token="secret", max_request_bytes=1000) as url, shared.node._lock:  # noqa: S106
        response = requests.post(url, data=b" " * 5000, timeout=PROMPT_S)
    assert response.status_code == 401


# --- bytes


def test_bytes_of_all_requests_together_are_bounded(shared: Scene) -> None:
    """Who sends most makes room: the others' requests pass."""
    size = 300_000
    limits = {"max_request_bytes": size, "max_arriving_bytes": 1_000_000}
    with served(shared, **limits) as url, contextlib.ExitStack() as stack:
        greedy = [
            stack.enter_context(contextlib.closing(visit(url, post(b" " * (size - 1), size), OTHERS[0])))
            for _ in range(6)
        ]
        wait_until(lambda: open_ones(greedy) == 3)
        large = json.dumps(CHAIN_ID).encode().ljust(size)
        for _ in range(3):
            assert requests.post(url, data=large, timeout=20).json() == ANSWER
        assert open_ones(greedy) == 3


def test_a_request_that_is_given_up_is_told_so(shared: Scene) -> None:
    limits = {"max_request_bytes": 100_000, "max_arriving_bytes": 150_000}
    with served(shared, **limits) as url, contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.closing(visit(url, post(b" " * 90_000, 100_000))))
        time.sleep(0.3)
        stack.enter_context(contextlib.closing(visit(url, post(b" " * 80_000, 100_000))))
        answer = b"".join(iter(lambda: first.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"send it again later" in answer


# --- batches


def test_each_call_of_a_batch_is_charged(shared: Scene) -> None:
    with served(shared, requests_per_s=1) as url:  # a slow machine earns few more while it answers
        answers = ask(url, [CHAIN_ID] * 100).json()
        assert ask(url).status_code == 429
    codes = [answer.get("error", {}).get("code") for answer in answers]
    paid = codes.count(None)
    assert codes == [None] * paid + [TOO_OFTEN] * (100 - paid)
    assert 1 <= paid <= 20
    assert answers[-1]["error"]["message"] == "more than 1 requests per second; ask again later"


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"[" + b"1," * (4 << 20) + b"1]",
        lambda: b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[' + b"0," * (4 << 20) + b"0]}",
    ],
    ids=["batch", "parameters"],
)
def test_megabytes_of_json_values_are_refused_at_once(shared: Scene, make: Callable[[], bytes]) -> None:
    with served(shared) as url:
        before_s = time.process_time()
        answer = requests.post(url, data=make(), timeout=20).json()
        assert answer["error"]["message"].endswith("commas, expected at most 20000")
        assert time.process_time() - before_s < 1.0
