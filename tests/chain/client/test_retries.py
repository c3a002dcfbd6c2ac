"""A node that is away for a moment: reads and posts are made again until a deadline; a refusal is raised at once."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from chain.client.asking import web3_over_http
from chain.client.connection import Connection
from chain.errors import NodeAwayError, NodeUnreachableError, NonceError, RevertedError
from chain.node.node import Node
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.network import Network, founded_node, named

NETWORK = Network()
AWAY_S = 0.5


def signed_plan(node: Node, **changes: Any) -> bytes:
    return NETWORK.signed(node, NETWORK.leader(node), "plan", 1, 0, *named(b"plan"), **changes)


@contextmanager
def away_for_a_moment(retry_s: float) -> Iterator[tuple[Node, Connection]]:
    """A connection to a node whose server has just gone, and comes back soon."""
    node = founded_node(NETWORK)
    first = RpcServer(node, ServerParams(port=0))
    url = first.start()
    connection = Connection(web3_over_http(url), node.genesis.registry, retry_s=retry_s)
    first.stop()
    again = RpcServer(node, ServerParams(port=int(url.rpartition(":")[2])))
    timer = threading.Timer(AWAY_S, again.start)
    timer.start()
    try:
        yield node, connection
    finally:
        timer.cancel()
        timer.join()
        again.stop()
        node.close()


@pytest.mark.parametrize(
    "read",
    [
        lambda connection: connection.head() == 1,
        lambda connection: connection.ask("round") == 1,
        lambda connection: connection.header(1).block_number == 1,
        lambda connection: connection.logs([], 2, None) == [],
        lambda connection: not connection.has_payload(payload_digest(b"nobody's")),
        lambda connection: connection.transaction(bytes(32)) is None,
    ],
)
def test_a_read_waits_for_the_node_to_come_back(read: Callable[[Connection], bool]) -> None:
    with away_for_a_moment(10.0) as (_, connection):
        assert read(connection)


def test_a_post_waits_for_the_node_to_come_back() -> None:
    with away_for_a_moment(10.0) as (node, connection):
        raw = signed_plan(node)
        assert connection.send_raw(raw, sidecars=(Sidecar(b"plan"),)) == decode_transaction(raw).hash
        assert len(node.pending()) == 1
        assert node.wanted() == []


def test_after_the_deadline_it_is_told_that_nobody_answers() -> None:
    with away_for_a_moment(0.0) as (_, connection), pytest.raises(NodeAwayError, match="no node answers"):
        connection.head()


def test_the_first_contact_is_not_tried_again() -> None:
    before_s = time.monotonic()
    with pytest.raises(NodeAwayError):
        Connection(web3_over_http("http://127.0.0.1:9"), bytes(20), retry_s=60.0)
    assert time.monotonic() - before_s < 5


def test_a_post_whose_answer_was_lost_is_sent_again_and_counts_once() -> None:
    node = founded_node(NETWORK)
    web3 = web3_in_process(node)
    ask, lost = web3.provider.make_request, list[str]()

    def lossy(method: Any, params: Any) -> Any:
        answer = ask(method, params)
        if method == "bfl_sendPost" and not lost:
            lost.append(method)
            raise requests.ConnectionError("the answer is lost")
        return answer

    web3.provider.make_request = lossy  # type: ignore[method-assign]
    raw, connection = signed_plan(node), Connection(web3, node.genesis.registry)
    assert connection.send_raw(raw, sidecars=(Sidecar(b"plan"),)) == decode_transaction(raw).hash
    assert (len(lost), len(node.pending())) == (1, 1)


def test_a_post_that_is_sealed_by_now_is_no_error_either() -> None:
    node = founded_node(NETWORK)
    NETWORK.run_round(node)
    connection = Connection(web3_in_process(node), node.genesis.registry)
    block = node.block(2)
    assert block is not None
    assert connection.send_raw(block.transactions[0].raw) == block.transactions[0].hash


def counting(web3: Any, method: str) -> list[str]:
    ask, calls = web3.provider.make_request, list[str]()

    def noted(asked: Any, params: Any) -> Any:
        calls.extend([asked] if asked == method else [])
        return ask(asked, params)

    web3.provider.make_request = noted
    return calls


@pytest.mark.parametrize(("changes", "error"), [({"nonce": 5}, NonceError), ({}, RevertedError)])
def test_a_refusal_is_raised_at_once(changes: dict[str, int], error: type[Exception]) -> None:
    node = founded_node(NETWORK)
    if not changes:
        NETWORK.post_plan(node)
    web3 = web3_in_process(node)
    calls = counting(web3, "eth_sendRawTransaction")  # first: web3 keeps what it has asked with
    connection = Connection(web3, node.genesis.registry)
    with pytest.raises(error):
        connection.send_raw(signed_plan(node, **changes))
    assert len(calls) == 1


def test_a_wrong_token_is_a_refusal_and_not_an_absence() -> None:
    node = founded_node(NETWORK)
    server = RpcServer(node, ServerParams(port=0, token="secret"))  # noqa: S106
    with server as url, pytest.raises(NodeUnreachableError, match="HTTP 401") as caught:
        Connection(web3_over_http(url), node.genesis.registry, retry_s=60.0)
    assert not isinstance(caught.value, NodeAwayError)


def test_a_node_that_is_busy_is_asked_again() -> None:
    """HTTP 503, as our own node says it where it has no room; then an answer."""
    said = [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]
    body = b'{"jsonrpc":"2.0","id":1,"result":"0x5"}'
    said.append(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
    node = founded_node(NETWORK)
    connection = Connection(web3_in_process(node), node.genesis.registry)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for each in said:
                visitor, _ = listening.accept()
                with visitor:
                    visitor.recv(65536)
                    visitor.sendall(each)

        thread = threading.Thread(target=answer)
        thread.start()
        connection.web3 = web3_over_http(f"http://127.0.0.1:{listening.getsockname()[1]}")
        assert connection.head() == 5
        thread.join()
