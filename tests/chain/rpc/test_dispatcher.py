"""JSON-RPC 2.0: the form of answers and errors, and that no request kills the node or shows its inside."""

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_hash.auto import keccak
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.errors import error_named
from chain.rpc import dispatcher as rpc
from chain.rpc.dispatcher import Dispatcher
from chain.rpc.methods import Methods
from tests.chain.network import account, named
from tests.chain.rpc.json_values import JSON
from tests.chain.scene import Scene, gradient_of, hexed, respond

REPOSITORY = Path(__file__).parents[3]
CHAIN_ID = {"jsonrpc": "2.0", "id": 7, "method": "eth_chainId"}


@pytest.fixture(scope="module")
def dispatcher(shared: Scene) -> Dispatcher:
    return Dispatcher(shared.node)


def sent(dispatcher: Dispatcher, request: Any) -> Any:
    """The answer to a request that goes through JSON both ways; strictly, as NaN is no JSON."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    reply = dispatcher.respond_to_bytes(body)
    return json.loads(reply, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) if reply else None


def refusal(dispatcher: Dispatcher, request: Any, identifier: Any = None) -> tuple[int, str]:
    answer = sent(dispatcher, request)
    assert set(answer) == {"jsonrpc", "id", "error"}
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", identifier)
    return answer["error"]["code"], answer["error"]["message"]


# --- requests and ids


def test_an_answer_has_version_id_and_result(dispatcher: Dispatcher) -> None:
    assert sent(dispatcher, CHAIN_ID) == {"jsonrpc": "2.0", "id": 7, "result": "0x1092"}
    assert sent(dispatcher, CHAIN_ID | {"params": []})["result"] == "0x1092"


@pytest.mark.parametrize("identifier", [0, -1, 2**200, 1.5, "", "seven", "\ud800", "ü", None])
def test_an_id_is_echoed_as_it_came(dispatcher: Dispatcher, identifier: Any) -> None:
    answer = sent(dispatcher, CHAIN_ID | {"id": identifier})
    assert (answer["id"], answer["result"]) == (identifier, "0x1092")


@pytest.mark.parametrize("identifier", [b"true", b"[]", b"{}", b"[" * 300 + b"]" * 300, b"1e999", b"-1e999"])
def test_an_id_that_is_none_makes_the_request_invalid(dispatcher: Dispatcher, identifier: bytes) -> None:
    body = b'{"jsonrpc":"2.0","method":"eth_chainId","id":%s}' % identifier
    code, message = refusal(dispatcher, body)
    assert code == rpc.INVALID_REQUEST
    assert "expected text, a number or null" in message


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"eth_chainId", b"{", b'{"id":1,}', b'"\xff"', b"\xff\xfe[\0]\0", b"\xef\xbb\xbf[]", b"9" * 5000]
    + [b'{"jsonrpc":"2.0","method":"eth_chainId","id":%s}' % name for name in (b"NaN", b"Infinity", b"-Infinity")],
)
def test_what_is_no_json_is_a_parse_error(dispatcher: Dispatcher, body: bytes) -> None:
    code, message = refusal(dispatcher, body)
    assert code == rpc.PARSE_ERROR
    assert message.startswith("the request is no JSON in UTF-8: ")
    assert "sys." not in message


@pytest.mark.parametrize("request_", [1, "eth_chainId", None, True, {}, {"jsonrpc": "2.0", "id": 7}])
def test_what_is_no_request_is_invalid(dispatcher: Dispatcher, request_: Any) -> None:
    identifier = request_.get("id") if isinstance(request_, dict) else None
    assert refusal(dispatcher, request_, identifier)[0] == rpc.INVALID_REQUEST


@pytest.mark.parametrize("change", [{"jsonrpc": "1.0"}, {"jsonrpc": 2.0}, {"jsonrpc": None}, {"method": 1}])
def test_another_version_or_a_method_without_a_name_is_invalid(dispatcher: Dispatcher, change: Any) -> None:
    code, message = refusal(dispatcher, CHAIN_ID | change, 7)
    assert code == rpc.INVALID_REQUEST
    assert "expected" in message


@pytest.mark.parametrize("name", ["eth_mine", "", "table", "_header", "__init__", "eth_", "x" * 10**6])
def test_a_method_that_the_node_does_not_have_is_named(dispatcher: Dispatcher, name: str) -> None:
    code, message = refusal(dispatcher, CHAIN_ID | {"method": name}, 7)
    assert code == rpc.METHOD_NOT_FOUND
    assert message.startswith(f"this node has no method '{name[:70]}")
    assert len(message) < 200


# --- parameters


@pytest.mark.parametrize("params", [{"block": "0x1"}, "0x1", 1, None])
def test_params_are_a_list(dispatcher: Dispatcher, params: Any) -> None:
    code, message = refusal(dispatcher, CHAIN_ID | {"params": params}, 7)
    assert code == rpc.INVALID_PARAMS
    assert message.startswith("params: found ")
    assert message.endswith("expected a list")


def test_the_number_of_parameters_is_checked_and_told(dispatcher: Dispatcher) -> None:
    for count, method, expected in ((1, "eth_chainId", "0"), (0, "eth_getCode", "1 to 2"), (2, "bfl_submitWork", "3")):
        error = respond(dispatcher, method, *["0x"] * count)["error"]
        assert error["code"] == rpc.INVALID_PARAMS
        assert error["message"] == f"{method}: found {count} parameters, expected {expected}"


def test_every_method_refuses_too_many_parameters(shared: Scene, dispatcher: Dispatcher) -> None:
    for method in Methods(shared.node).table():
        assert respond(dispatcher, method, *range(9))["error"]["code"] == rpc.INVALID_PARAMS


WORDS = st.sampled_from(
    ["latest", "pending", "earliest", "0x", "0x0", "0x1", "0x2", "0x" + "00" * 20, "0x" + "ff" * 32, "0x02c0", 2**63]
)
CALLS = st.dictionaries(
    st.sampled_from(["from", "to", "data", "input", "address", "topics", "fromBlock", "toBlock", "blockHash"]),
    WORDS | st.none() | st.lists(WORDS | st.none(), max_size=5),
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_parameters_are_an_internal_error(shared: Scene, dispatcher: Dispatcher, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(sorted(Methods(shared.node).table())))
    params = data.draw(st.lists(WORDS | CALLS | JSON, max_size=4))
    answer = respond(dispatcher, method, *params)
    code = answer["error"]["code"] if "error" in answer else None
    assert code in (None, rpc.INVALID_PARAMS, rpc.REFUSED, rpc.EXECUTION_REVERTED), answer


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_answered_in_json(body: bytes) -> None:
    dispatcher = Dispatcher.__new__(Dispatcher)  # nothing that gets this far asks a node
    dispatcher._methods = {}
    answers = sent(dispatcher, body)
    for answer in answers if isinstance(answers, list) else [answers]:
        assert answer["error"]["code"] in (rpc.PARSE_ERROR, rpc.INVALID_REQUEST)


NESTED = """
import sys
from chain.rpc.dispatcher import Dispatcher
sys.setrecursionlimit(100_000)
dispatcher = Dispatcher.__new__(Dispatcher)
for body in (b"[" * 10**6, b'{"a":' * 10**6, b'{"id":' + b"[" * 10**5 + b"]" * 10**5 + b"}"):
    print(dispatcher.respond_to_bytes(body).decode())
"""


def test_deeply_nested_json_does_not_end_the_process() -> None:
    """Also where a library lifts the recursion limit so far that Python's own parser overflows the stack of C."""
    run = subprocess.run([sys.executable, "-c", NESTED], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert [answer["error"]["code"] for answer in answers] == [rpc.INVALID_REQUEST] * 3


# --- refusals


def test_a_refused_transaction_keeps_its_class(own: Scene) -> None:
    network, node = own.network, own.node
    sender, plan = network.devices[2], ("plan", 2, 0, *named(b"p"))
    refused = {
        "MalformedTransactionError": b"\x02\xc0",
        "ChainIdError": network.signed(node, sender, *plan, chain_id=1),
        "NonceError": network.signed(node, sender, *plan, nonce=9),
        "UnregisteredSenderError": network.signed(node, account("stranger"), *plan),
        "NotRegistryCallError": network.signed(node, sender, *plan, to=bytes(20)),
        "GasError": network.signed(node, sender, *plan, gas=node.genesis.gas_limit + 1),
    }
    for name, raw in refused.items():
        error = own.refusal("eth_sendRawTransaction", hexed(raw))
        assert error["code"] == rpc.REFUSED
        assert error["data"] == {"error": name, "message": error["message"]}
        assert error_named(error["data"]["error"]) is not None
    assert own.ask("bfl_pendingTransactions") == [hexed(each) for each in own.pending]


def test_a_revert_has_code_3_and_its_reason_in_words_and_in_bytes(own: Scene) -> None:
    raw = gradient_of(own, 2)
    own.network.post_close(own.node)
    error = own.refusal("eth_sendRawTransaction", hexed(raw))
    reason = "this round is closed"
    words = (32).to_bytes(32, "big") + len(reason).to_bytes(32, "big") + reason.encode().ljust(32, b"\0")
    expected = {"code": 3, "message": f"execution reverted: {reason}", "data": "0x08c379a0" + words.hex()}
    assert error == expected


def test_a_failure_inside_is_logged_and_not_shown(own: Scene, caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher(own.node)

    def fail() -> None:
        raise RuntimeError("/home/alice/secret")

    dispatcher._methods["eth_chainId"] = replace(dispatcher._methods["eth_chainId"], call=fail)
    with caplog.at_level(logging.ERROR):
        reply = dispatcher.respond_to_bytes(json.dumps(CHAIN_ID).encode())
    assert json.loads(reply)["error"] == {"code": rpc.INTERNAL_ERROR, "message": "internal error: RuntimeError"}
    assert "/home/alice/secret" in caplog.text
    assert sent(dispatcher, CHAIN_ID | {"method": "eth_blockNumber"})["result"] == "0x2"


def test_a_closed_node_refuses_everything(own: Scene) -> None:
    table = Methods(own.node).table()
    own.node.close()
    for method in ("eth_chainId", "web3_clientVersion", "eth_accounts", "eth_blockNumber", "bfl_pendingTransactions"):
        assert method in table
        error = own.refusal(method)
        assert (error["code"], error["data"]["error"]) == (rpc.REFUSED, "StoreError")
        assert error["message"] == "this node is closed"


# --- batches and notifications


def test_a_batch_is_answered_in_order_with_its_mistakes(dispatcher: Dispatcher) -> None:
    answers = sent(dispatcher, [CHAIN_ID | {"id": 1}, 5, CHAIN_ID | {"id": "b", "method": "eth_mine"}, CHAIN_ID, []])
    assert [answer["id"] for answer in answers] == [1, None, "b", 7, None]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes == [None, rpc.INVALID_REQUEST, rpc.METHOD_NOT_FOUND, None, rpc.INVALID_REQUEST]


def test_a_batch_has_at_least_one_and_at_most_a_hundred_requests(dispatcher: Dispatcher) -> None:
    assert len(sent(dispatcher, [CHAIN_ID] * 100)) == 100
    for count in (0, 101):
        code, message = refusal(dispatcher, [CHAIN_ID] * count)
        assert (code, message) == (
            rpc.INVALID_REQUEST,
            f"found a batch of {count} requests, expected 1 to 100",
        )


def test_a_full_batch_of_the_most_complicated_requests_has_few_enough_brackets(dispatcher: Dispatcher) -> None:
    criteria = {"address": ["0x" + "00" * 20], "topics": [["0x" + "00" * 32]] * 4}
    batch = [CHAIN_ID | {"method": "eth_getLogs", "params": [criteria]}] * 100
    assert all(answer["result"] == [] for answer in sent(dispatcher, batch))


def test_a_batch_does_not_collect_answers_without_bound(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "MAX_BATCH_BYTES", 200)
    answers = sent(dispatcher, [CHAIN_ID | {"id": i} for i in range(10)])
    assert [answer["id"] for answer in answers] == list(range(10))
    assert "result" in answers[0]
    assert answers[-1]["error"]["code"] == rpc.TOO_LARGE


def test_a_notification_is_carried_out_and_not_answered(own: Scene) -> None:
    dispatcher = Dispatcher(own.node)
    raw = gradient_of(own, 2)
    notification = {"jsonrpc": "2.0", "method": "eth_sendRawTransaction", "params": [hexed(raw)]}
    assert dispatcher.respond_to_bytes(json.dumps(notification).encode()) == b""
    assert own.ask("bfl_pendingTransactions")[-1] == hexed(keccak(raw))
    for failing in (notification, notification | {"method": "eth_mine"}, notification | {"params": 1}):
        assert sent(dispatcher, failing) is None
    assert sent(dispatcher, [notification, notification]) is None
    assert [answer["id"] for answer in sent(dispatcher, [notification, CHAIN_ID])] == [7]


def test_a_malformed_request_without_an_id_is_no_notification(dispatcher: Dispatcher) -> None:
    for request in ({"jsonrpc": "2.0"}, {"method": "eth_chainId"}, {"jsonrpc": "2.0", "method": 5}):
        assert refusal(dispatcher, request)[0] == rpc.INVALID_REQUEST
