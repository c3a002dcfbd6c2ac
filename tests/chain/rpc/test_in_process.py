"""web3 in this process: the same answers as over HTTP, for whatever web3 hands over."""

from collections.abc import Iterator
from typing import Any

import pytest
from eth_hash.auto import keccak
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.datastructures import AttributeDict
from web3.exceptions import ProviderConnectionError, Web3RPCError
from web3.types import RPCEndpoint

from chain.protocol.contract import events
from chain.rpc.in_process import InProcessProvider, web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.scene import Scene, gradient_of, hexed, scene

WHO = "0x" + "00" * 20
REQUESTS: list[tuple[str, list[Any]]] = [
    ("eth_chainId", []),
    ("bfl_genesis", []),
    ("eth_getBlockByNumber", ["latest", True]),
    ("eth_getBlockByNumber", ["pending", True]),
    ("eth_getBlockByNumber", ["0x99", False]),
    ("eth_feeHistory", ["0x3", "latest", [50]]),
    ("eth_getLogs", [{"fromBlock": "earliest", "toBlock": "pending"}]),
    ("eth_getTransactionCount", [WHO, "pending"]),
    ("eth_call", [{"to": WHO}, "latest"]),
    ("eth_getBalance", ["nobody"]),
    ("eth_sendRawTransaction", ["0x02c0"]),
    ("eth_mine", []),
    ("bfl_getWork", [WHO]),
]


@pytest.fixture(scope="module")
def http(shared: Scene) -> Iterator[HTTPProvider]:
    with RpcServer(shared.node, ServerParams(port=0)) as url:
        yield HTTPProvider(url)


@pytest.mark.parametrize(
    ("method", "params"), REQUESTS, ids=[f"{method}-{i}" for i, (method, _) in enumerate(REQUESTS)]
)
def test_an_answer_is_the_same_in_process_and_over_http(
    shared: Scene, http: HTTPProvider, method: str, params: list[Any]
) -> None:
    here = InProcessProvider(shared.node).make_request(RPCEndpoint(method), params)
    there = http.make_request(RPCEndpoint(method), params)
    assert {key: value for key, value in here.items() if key != "id"} == {
        key: value for key, value in there.items() if key != "id"
    }


def test_bytes_tuples_and_web3s_own_dictionaries_are_taken_as_over_http(shared: Scene, http: HTTPProvider) -> None:
    topic = events()["GradientPosted"].topic
    criteria = AttributeDict({"fromBlock": "earliest", "topics": (HexBytes(topic), None)})
    for provider in (InProcessProvider(shared.node), http):
        answer: Any = provider.make_request(RPCEndpoint("eth_getLogs"), (criteria,))
        assert len(answer["result"]) == 4
        answer = provider.make_request(RPCEndpoint("eth_sendRawTransaction"), (HexBytes(b"\x02\xc0"),))
        assert answer["error"]["data"]["error"] == "MalformedTransactionError"


def test_a_post_goes_through_web3(shared: Scene) -> None:
    own = scene()
    raw = gradient_of(own, 2)
    sent = web3_in_process(own.node).eth.send_raw_transaction(HexBytes(raw))
    assert bytes(sent) == keccak(raw)
    assert own.ask("bfl_pendingTransactions")[-1] == hexed(keccak(raw))
    with pytest.raises(Web3RPCError) as refused:
        web3_in_process(own.node).eth.send_raw_transaction(HexBytes(raw))
    assert refused.value.rpc_response is not None
    assert refused.value.rpc_response["error"]["data"]["error"] == "KnownTransactionError"  # type: ignore[index]


def test_a_batch_of_web3_is_answered_in_order(shared: Scene, http: HTTPProvider) -> None:
    for provider in (InProcessProvider(shared.node), http):
        web3 = Web3(provider)
        with web3.batch_requests() as batch:
            batch.add(web3.eth.get_block(1))
            batch.add(web3.eth.get_block("latest"))
            batch.add(web3.eth.get_code(Web3.to_checksum_address(WHO)))
            answers: Any = batch.execute()
        assert [answers[0]["number"], answers[1]["number"], bytes(answers[2])] == [1, 2, b""]


def test_a_closed_node_is_not_connected() -> None:
    own = scene()
    web3 = web3_in_process(own.node)
    assert web3.is_connected()
    own.node.close()
    assert not web3.is_connected()
    with pytest.raises(ProviderConnectionError, match="this node is closed"):
        web3.is_connected(show_traceback=True)
    with pytest.raises(Web3RPCError, match="this node is closed"):
        _ = web3.eth.chain_id
