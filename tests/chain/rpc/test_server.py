"""The node's HTTP server: its answers, that it opens and closes cleanly, and that many may ask at once."""

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.errors import LedgerError
from chain.rpc.doors import MEMBERS
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.rpc.http_client import ANSWER, CHAIN_ID, HALF, ask, place, stalled
from tests.chain.scene import Scene, gradient_of, hexed, leader_of, scene


@pytest.fixture(scope="module")
def url(shared: Scene) -> Iterator[str]:
    with RpcServer(shared.node, ServerParams(port=0, requests_per_s=1e6)) as address:
        yield address


# --- answers


def test_a_request_is_answered_as_json(url: str) -> None:
    response = ask(url)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.json() == ANSWER
    assert ask(url, [CHAIN_ID, CHAIN_ID]).json() == [ANSWER, ANSWER]


def test_a_notification_has_an_empty_answer(url: str) -> None:
    response = ask(url, {"jsonrpc": "2.0", "method": "eth_chainId"})
    assert (response.status_code, response.content) == (204, b"")


def test_health_says_where_the_chain_is(url: str, shared: Scene) -> None:
    response = requests.get(f"{url}/health", timeout=20)
    assert (response.status_code, response.json()) == (200, {"block": 2, "hash": hexed(shared.node.head.hash)})


def test_other_methods_and_paths_are_refused(url: str) -> None:
    assert requests.get(url, timeout=20).status_code == 405
    assert requests.put(url, json=CHAIN_ID, timeout=20).status_code == 405
    assert requests.post(f"{url}/health", json=CHAIN_ID, timeout=20).status_code == 405
    assert requests.post(f"{url}/admin", json=CHAIN_ID, timeout=20).status_code == 404


def test_a_closed_node_is_ill_and_refuses() -> None:
    own = scene()
    with RpcServer(own.node, ServerParams(port=0)) as url:
        own.node.close()
        health = requests.get(f"{url}/health", timeout=20)
        assert (health.status_code, health.json()) == (503, {"error": "this node is closed"})
        assert ask(url).json()["error"]["data"]["error"] == "StoreError"


def test_an_answer_is_not_held_back_for_an_acknowledgement(url: str) -> None:
    """Nagle's algorithm costs 40 ms per answer on a connection that stays."""
    with requests.Session() as session:
        session.post(url, json=CHAIN_ID, timeout=20)
        took_s = []
        for _ in range(20):
            before_s = time.monotonic()
            session.post(url, json=CHAIN_ID, timeout=20)
            took_s.append(time.monotonic() - before_s)
    assert min(took_s) < 0.035


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=st.binary(max_size=200), is_json=st.booleans())
def test_any_body_is_answered_and_the_server_lives_on(url: str, body: bytes, is_json: bool) -> None:
    response = requests.post(url, data=json.dumps(body.decode("latin-1")) if is_json else body, timeout=20)
    assert response.status_code == 200
    assert response.json()["error"]["code"] in (-32700, -32600)


@pytest.mark.parametrize(
    "sent",
    [b"\x00\xff" * 500, b"GET\r\n\r\n", b"POST / HTTP/9\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"],
)
def test_what_is_no_http_is_cut_off(url: str, sent: bytes) -> None:
    with stalled(url, sent) as client:
        answer = b"".join(iter(lambda: client.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 400")
    assert ask(url).json() == ANSWER


# --- start and stop


def test_it_listens_on_this_machine_only_unless_told_otherwise(url: str) -> None:
    assert ServerParams().host == "127.0.0.1"
    host, port = place(url)
    assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_ipv6_addresses_are_written_as_urls(shared: Scene) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with RpcServer(shared.node, ServerParams(host="::1", port=0)) as url:
        assert url.startswith("http://[::1]:")
        assert ask(url).json() == ANSWER


def test_a_taken_port_is_told_with_what_to_do(shared: Scene, url: str) -> None:
    _, port = place(url)
    with pytest.raises(LedgerError, match=rf"cannot listen on 127.0.0.1:{port}: .*choose another one, or 0") as taken:
        RpcServer(shared.node, ServerParams(port=port)).start()
    assert isinstance(taken.value.__cause__, OSError)
    with pytest.raises(LedgerError, match=r"cannot listen on no\.such\.host\.invalid"):
        RpcServer(shared.node, ServerParams(host="no.such.host.invalid", doors=MEMBERS, allows_plain=True)).start()


def test_it_starts_again_on_the_same_port(shared: Scene) -> None:
    first = RpcServer(shared.node, ServerParams(port=0))
    url = first.start()
    with requests.Session() as session:
        session.post(url, json=CHAIN_ID, timeout=20)  # a connection that stays
        with pytest.raises(LedgerError, match="runs already"):
            first.start()
        first.stop()
        first.stop()
        again = RpcServer(shared.node, ServerParams(port=place(url)[1]))
        for runner in (again, again):
            assert runner.start() == url
            assert session.post(url, json=CHAIN_ID, timeout=20).json() == ANSWER
            runner.stop()
    with pytest.raises(requests.ConnectionError):
        ask(url)


def test_stop_lets_a_running_request_finish() -> None:
    is_slow, entered, let_go = threading.Event(), threading.Event(), threading.Event()

    def check_round(_: object, __: object) -> None:
        if is_slow.is_set():
            entered.set()
            assert let_go.wait(20)

    own = scene(check_round=check_round)
    own.network.post_close(own.node)
    is_slow.set()
    runner = RpcServer(own.node, ServerParams(port=0))
    url = runner.start()
    answers: list[Any] = []
    proposal = {"jsonrpc": "2.0", "id": 7, "method": "bfl_propose", "params": [hexed(leader_of(own))]}
    asking = threading.Thread(target=lambda: answers.append(ask(url, proposal).json()))
    asking.start()
    assert entered.wait(20)
    stopping = threading.Thread(target=runner.stop)
    stopping.start()
    time.sleep(0.3)
    assert stopping.is_alive()
    let_go.set()
    for thread in (asking, stopping):
        thread.join(20)
        assert not thread.is_alive()
    assert "result" in answers[0]


def test_stop_does_not_wait_for_a_stalled_client(shared: Scene, caplog: pytest.LogCaptureFixture) -> None:
    threads = threading.active_count()
    runner = RpcServer(shared.node, ServerParams(port=0))
    with stalled(runner.start(), HALF) as client:
        time.sleep(0.1)
        before_s = time.monotonic()
        runner.stop()
        assert time.monotonic() - before_s < 3
        assert client.recv(1000).startswith(b"HTTP/1.1 408")
    assert threading.active_count() == threads
    assert caplog.text == ""


def test_starting_leaves_the_programs_own_logs_alone(shared: Scene, tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "run.log", mode="w")
    log = logging.getLogger("a program of ours")
    log.addHandler(handler)
    try:
        log.warning("before")
        with RpcServer(shared.node, ServerParams(port=0)):
            log.warning("during")
    finally:
        log.removeHandler(handler)
        handler.close()
    assert (tmp_path / "run.log").read_text() == "before\nduring\n"


# --- many at once


def test_many_clients_post_and_read_at_once() -> None:
    own = scene()
    raws = [gradient_of(own, i) for i in (2, 3)]
    failures: list[Any] = []

    def read(url: str) -> None:
        with requests.Session() as session:
            for method, params in (
                ("eth_getBlockByNumber", ["pending", True]),
                ("eth_getLogs", [{"fromBlock": "earliest", "toBlock": "pending"}]),
                ("eth_getTransactionCount", [own.network.devices[2].address, "pending"]),
                ("eth_getBlockByNumber", ["latest", True]),
            ) * 5:  # fmt: skip
                request: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = session.post(url, json=request, timeout=30).json()
                failures.extend([answer] if "error" in answer else [])

    def post(url: str, raw: bytes) -> None:
        answer = ask(url, CHAIN_ID | {"method": "eth_sendRawTransaction", "params": [hexed(raw)]}).json()
        failures.extend([answer] if "error" in answer else [])

    with RpcServer(own.node, ServerParams(port=0)) as url:
        threads = [threading.Thread(target=read, args=(url,)) for _ in range(12)]
        threads += [threading.Thread(target=post, args=(url, raw)) for raw in raws]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []
    assert len(own.ask("bfl_pendingTransactions")) == 5
