"""web3 behind one door: what a node refuses keeps its class, what is no answer is said so, nothing else leaks."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import eth_abi
import pytest
from web3 import Web3
from web3.exceptions import TimeExhausted
from web3.types import RPCEndpoint, RPCResponse

from chain.client.asking import (
    await_receipt,
    ranges_of,
    read_bytes,
    request,
    request_all,
    translate_errors,
    web3_over_http,
)
from chain.client.bounded_http import BoundedProvider
from chain.client.connection import Connection
from chain.client.empty_network import EmptyNetwork
from chain.client.keys import address_of
from chain.client.payloads import MemoryShelf
from chain.errors import (
    ChainError,
    DeadlineError,
    NodeUnreachableError,
    NonceError,
    NotRegistryCallError,
    RevertedError,
    RpcError,
    SidecarDigestError,
    UnregisteredSenderError,
)
from chain.node.node import Node
from chain.protocol.contract import RegistryTerms, deployment, encode_call, functions
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.answers import saying
from tests.chain.network import MODEL_0, SIZES, Clock, Network, account, founded_node, genesis, named

NETWORK = Network()
WAYS = ("in-process", "http")


@pytest.fixture(params=WAYS)
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    node = founded_node(NETWORK)
    if request.param == "http":
        with RpcServer(node, ServerParams(port=0)) as url:
            yield Connection(web3_over_http(url), node.genesis.registry)
    else:
        yield Connection(web3_in_process(node), node.genesis.registry)
    node.close()


def _plan(payload: bytes = b"plan", round_: int = 1) -> bytes:
    return encode_call("plan", round_, 0, *named(payload))


# --- our own node


def test_it_knows_the_registrys_settings(connection: Connection) -> None:
    assert (connection.chain_id, connection.is_embedded, connection.visible) == (4242, True, "pending")
    assert (connection.settings.term_cap, connection.settings.flag_window) == (3, 3)
    assert connection.sizes == SIZES
    assert connection.code()
    assert connection.head() == 1
    assert connection.block_hash(0) == genesis().header.hash


def test_a_post_is_visible_at_once_and_found_by_its_hash(connection: Connection) -> None:
    leader = next(s for s in NETWORK.servers if connection.ask("rank", address_of(s)) == 0)
    sent = connection.send(leader, _plan(), 3_000_000, None)
    assert connection.ask("plan_digest") == payload_digest(b"plan")
    assert connection.ask("plan_digest", block=1) == bytes(32), "not in the block before"
    assert connection.transaction(sent) == (0, _plan())
    assert [log.transaction_hash for log in connection.logs([], 2, None)] == [sent]
    assert connection.transaction(b"\1" * 32) is None


def test_a_payload_travels_beside_its_post_and_is_read_by_its_digest(connection: Connection) -> None:
    leader = next(s for s in NETWORK.servers if connection.ask("rank", address_of(s)) == 0)
    digest = payload_digest(b"plan")
    assert (connection.payload(digest), connection.has_payload(digest)) == (None, False)
    connection.send(leader, _plan(), 3_000_000, None, (Sidecar(b"plan"),))
    assert (connection.payload(digest), connection.has_payload(digest)) == (b"plan", True)
    assert connection.payload(payload_digest(MODEL_0)) == MODEL_0, "a sealed one"


def test_a_payload_that_was_fetched_is_not_asked_for_again() -> None:
    node = founded_node(NETWORK)
    connection = Connection(web3_in_process(node), node.genesis.registry)
    assert connection.payload(payload_digest(MODEL_0)) == MODEL_0
    node.close()
    assert connection.payload(payload_digest(MODEL_0)) == MODEL_0


def test_another_payload_than_the_one_that_was_sent_for_is_refused(connection: Connection) -> None:
    leader = next(s for s in NETWORK.servers if connection.ask("rank", address_of(s)) == 0)
    with pytest.raises(SidecarDigestError, match="its post names 0x"):
        connection.send(leader, _plan(), 3_000_000, None, (Sidecar(b"lies"),))
    assert connection.nonce(address_of(leader)) == 0, "nothing was posted"


def test_evidence_is_held_only_of_a_pending_post(connection: Connection) -> None:
    assert not connection.hold_evidence(b"\1" * 32)
    leader = next(s for s in NETWORK.servers if connection.ask("rank", address_of(s)) == 0)
    connection.send(leader, _plan(), 3_000_000, None, (Sidecar(b"plan"),))
    assert connection.hold_evidence(payload_digest(b"plan"))


@pytest.mark.parametrize("answer", [5, [], {}, {"size": 4}, {"size": None, "data": "0x"}, {"size": 4, "data": 7}])
def test_an_answer_that_is_no_payload_is_said_so(answer: Any) -> None:
    fetch = ranges_of(saying(bfl_getSidecar=answer))
    with pytest.raises(NodeUnreachableError, match="where the node should answer with"):
        fetch(bytes(32), 0, 10)


def test_a_refusal_keeps_its_class_and_a_revert_its_reason(connection: Connection) -> None:
    leader = next(s for s in NETWORK.servers if connection.ask("rank", address_of(s)) == 0)
    with pytest.raises(RevertedError, match=r"^wrong round$"):
        connection.send(leader, _plan(round_=9), 3_000_000, None)
    with pytest.raises(NotRegistryCallError, match="found selector 0x01020304"):
        connection.send(leader, b"\1\2\3\4", 3_000_000, None)
    with pytest.raises(UnregisteredSenderError):
        connection.send(account("stranger"), _plan(), 3_000_000, None)
    with pytest.raises(RpcError, match="no method"):
        connection.request("bfl_unknown")
    with pytest.raises(RpcError, match=r"expected a quantity"):
        connection.request("bfl_getRawHeader", "seven")


def test_a_view_that_reverts_raises_its_reason(connection: Connection) -> None:
    call: Any = {"to": Web3.to_checksum_address(connection.registry), "data": _plan()}
    with pytest.raises(RevertedError, match=r"^not registered$"), translate_errors():
        connection.web3.eth.call(call, "pending")


def test_a_registry_is_created_where_its_creators_nonce_says() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    web3, creation = web3_in_process(node), deployment(RegistryTerms())
    network = EmptyNetwork(web3)
    assert network.create_registry(NETWORK.founder, creation, True, 1).registry == node.genesis.registry
    with pytest.raises(NotRegistryCallError, match="only the founder creates, once"):
        network.create_registry(NETWORK.founder, creation, True, 1)


# --- what is no answer


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A web server that says the same to everybody."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silence."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _result(content: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":0,"result":' + content + b"}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "the answer is no JSON-RPC"),
        (b"", "the answer is no JSON-RPC"),
        (b"\xff\xfe", "the answer is no JSON-RPC"),
        (b"[]", "the answer is no JSON-RPC"),
        (b"null", "the answer is no JSON-RPC"),
        (b"{}", "the answer is no JSON-RPC"),
        (b"[" * 100_000, "the answer is no JSON-RPC: RecursionError"),
        (b'{"jsonrpc":"2.0","id":0,"error":"boo"}', "the answer is no JSON-RPC"),
        (_result(b'"zz"'), "the answer is no JSON-RPC: ValueError"),
        (_result(b"null"), "the answer is no JSON-RPC: TypeError"),
        (_result(b"[]"), "the answer is no JSON-RPC: TypeError"),
        (_result(b'{"a":1}'), "the answer is no JSON-RPC: TypeError"),
    ],
)
def test_an_answer_of_something_else_is_no_node(body: bytes, message: str) -> None:
    with answering(200, body) as url, pytest.raises(NodeUnreachableError, match=message):
        Connection(web3_over_http(url), b"\1" * 20)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, b'{"error":{"message":"found no valid token"}}', r"refuses \(HTTP 401\): found no valid token"),
        (404, b"<html>", r"refuses \(HTTP 404\): Not Found"),
        (429, b'{"error":"slow down"}', r"refuses \(HTTP 429\): Too Many Requests"),
        (500, b"", r"refuses \(HTTP 500\): Internal Server Error"),
    ],
)
def test_a_server_that_refuses_is_quoted(status: int, body: bytes, message: str) -> None:
    with answering(status, body) as url, pytest.raises(NodeUnreachableError, match=message):
        request(web3_over_http(url), "bfl_genesis")


def test_nobody_at_the_address_is_said_so() -> None:
    with pytest.raises(
        NodeUnreachableError, match=r"no node answers at .* \(.*\); start the node, or correct the address"
    ):
        Connection(web3_over_http("http://127.0.0.1:9"), b"\1" * 20)
    with pytest.raises(NodeUnreachableError, match="no node answers"):
        request(web3_over_http("no address"), "bfl_genesis")


def test_a_node_that_takes_too_long_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NodeUnreachableError, match="timed out"):
            request(web3_over_http(url, timeout_s=0.2), "bfl_genesis")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"code": -32000, "message": "m", "data": {"error": "NonceError", "message": "why"}}, NonceError, "^why$"),
        ({"code": -32000, "message": "m", "data": {"error": "NonceError"}}, NonceError, "^m$"),
        ({"code": -32000, "message": "m", "data": {"error": "SystemExit"}}, RpcError, "^m$"),
        ({"code": -32000, "message": "m", "data": {"error": ["list"]}}, RpcError, "^m$"),
        ({"code": -32000, "message": "m", "data": "text"}, RpcError, "^m$"),
        ({"code": 3, "message": "execution reverted: why"}, RevertedError, "^why$"),
        ({"code": -32601, "message": "no method"}, RpcError, "^no method$"),
    ],
)
def test_an_error_answer_raises_what_it_names(error: Any, kind: type[ChainError], message: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode()
    with answering(200, body) as url, pytest.raises(kind, match=message) as raised:
        request(web3_over_http(url), "bfl_genesis")
    assert type(raised.value) is kind


@pytest.mark.parametrize("found", [None, 5, [], {}, "zz", "0xz", "0x1", b"\1"])
def test_only_hexadecimal_text_is_bytes(found: Any) -> None:
    with pytest.raises(NodeUnreachableError, match="where the node should answer with bytes"):
        read_bytes(found)
    assert read_bytes("0x00ff") == read_bytes("00ff") == b"\x00\xff"


# --- a network that mines


def _external(beside: MemoryShelf | None = None, **answers: Any) -> Connection:
    """A connection to a network that is not ours, whose registry is sealed by calls."""
    settings = eth_abi.encode(functions()["settings"].outputs, (b"\1" * 20, True, 3, 3, 10, 64))
    said = {
        "eth_chainId": "0x1",
        "eth_getCode": "0x01",
        "eth_call": "0x" + settings.hex(),
        "eth_getTransactionCount": "0x5",
        "eth_maxPriorityFeePerGas": "0x2",
        "eth_getBlockByNumber": {"baseFeePerGas": "0xa", "number": "0x1", "gasLimit": "0x10000"},
        "eth_sendRawTransaction": "0x" + "11" * 32,
    }
    return Connection(saying(**(said | answers)), b"\2" * 20, beside)


def test_another_network_holds_no_payloads_and_a_shelf_beside_it_does() -> None:
    shelf = MemoryShelf()
    connection = _external(shelf)
    digest = payload_digest(b"plan")
    assert (connection.payload(digest), connection.has_payload(digest)) == (None, False)
    assert not connection.hold_evidence(digest)
    connection.send(NETWORK.founder, b"data", 100_000, None, (Sidecar(b"plan"),))
    assert shelf.payload(digest) == connection.payload(digest) == b"plan"
    assert connection.has_payload(digest)
    assert connection.hold_evidence(digest)
    assert _external(shelf).payload(digest) == b"plan", "another ledger of this process"
    assert _external().payload(digest) is None, "one that does not share the shelf"


def _receipt(status: int) -> dict[str, Any]:
    return {"status": hex(status), "blockNumber": "0x7", "transactionHash": "0x" + "11" * 32}


def test_on_another_network_a_post_pays_and_waits_until_it_is_mined() -> None:
    sent: list[bytes] = []
    asked: list[str] = []

    def take(raw: str) -> str:
        sent.append(bytes.fromhex(raw[2:]))
        return "0x" + "11" * 32

    def mine(transaction_hash: str) -> Any:
        asked.append(transaction_hash)
        return _receipt(1) if len(asked) == 3 else None

    connection = _external(eth_sendRawTransaction=take, eth_getTransactionReceipt=mine)
    assert (connection.is_embedded, connection.visible, connection.settings.seal_difficulty) == (False, "latest", 64)
    assert connection.send(NETWORK.founder, b"data", 100_000, 5.0) == b"\x11" * 32
    transaction = decode_transaction(sent[0])
    assert (transaction.nonce, transaction.max_fee, transaction.max_priority_fee) == (5, 2 * 10 + 2, 2)
    assert len(asked) == 3


def test_without_a_deadline_nobody_waits() -> None:
    assert _external().send(NETWORK.founder, b"data", 100_000, None) == b"\x11" * 32


def test_a_post_that_is_not_mined_in_time_is_said_so() -> None:
    connection = _external(eth_getTransactionReceipt=None)
    with pytest.raises(DeadlineError, match=r"0x1111.* was not mined within 0.1 s"):
        connection.send(NETWORK.founder, b"data", 100_000, 0.1)
    with pytest.raises(DeadlineError), translate_errors():
        raise TimeExhausted("too late")


def test_a_post_that_was_mined_and_failed_says_why() -> None:
    """The reason is asked for once more, by a call."""
    connection = _external(eth_getTransactionReceipt=_receipt(0))
    with pytest.raises(RevertedError, match="was its gas enough"):
        connection.send(NETWORK.founder, b"data", 100_000, 5.0)
    reverting = founded_node(NETWORK)
    reason = Connection(web3_in_process(reverting), reverting.genesis.registry)
    assert reason._reason(NETWORK.founder, _plan(), 1) == "not founded yet"
    assert reason._reason(NETWORK.founder, _plan(), 99) == "the reason is no longer known"


def test_a_registry_that_is_not_created_is_said_so() -> None:
    web3 = _external(eth_getTransactionReceipt=_receipt(0)).web3
    with pytest.raises(RevertedError, match="the registry was not created; is the network's gas limit high enough"):
        EmptyNetwork(web3).create_registry(NETWORK.founder, b"code", False, 5.0)


def test_a_receipt_is_asked_for_until_it_is_there() -> None:
    answers = iter([None, None, _receipt(1)])
    web3 = saying(eth_chainId="0x1", eth_getTransactionReceipt=lambda _: next(answers))
    assert await_receipt(web3, b"\x11" * 32, 5.0)["status"] == 1


# --- several at once


def test_several_questions_are_one_request_and_a_refusal_stands_in_its_place(connection: Connection) -> None:
    found = connection.request_all([("eth_chainId",), ("bfl_getSidecar", "0x12"), ("eth_blockNumber",)])
    assert (int(found[0], 16), int(found[2], 16)) == (connection.chain_id, 1)
    assert isinstance(found[1], RpcError)
    assert "digest" in str(found[1])
    assert connection.request_all([]) == []


def test_a_call_of_the_registry_asks_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    node, ask = founded_node(NETWORK), BoundedProvider.make_request
    asked: list[str] = []

    def noted(self: BoundedProvider, method: RPCEndpoint, params: Any) -> RPCResponse:
        asked.append(str(method))
        return ask(self, method, params)

    monkeypatch.setattr(BoundedProvider, "make_request", noted)
    with RpcServer(node, ServerParams(port=0)) as url:
        connection = Connection(web3_over_http(url), node.genesis.registry)
        asked.clear()
        connection.ask("round")
    node.close()
    assert asked == ["eth_call"]


def test_fewer_answers_than_questions_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    web3 = web3_over_http("http://127.0.0.1:9")
    answers: list[Any] = [
        [{"jsonrpc": "2.0", "id": 0, "result": "0x0"}],
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "too many"}},
    ]
    monkeypatch.setattr(BoundedProvider, "make_batch_request", lambda *_: answers.pop(0))
    with pytest.raises(NodeUnreachableError, match="1 answers to 2"):
        request_all(web3, [("a",), ("b",)])
    with pytest.raises(RpcError, match="too many"):
        request_all(web3, [("a",), ("b",)])
