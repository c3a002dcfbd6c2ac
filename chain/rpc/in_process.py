"""web3 on a node of this very process: no sockets, the same dispatcher as over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from web3 import Web3
from web3.providers import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from chain.node.node import Node
from chain.rpc.dispatcher import Dispatcher


class InProcessProvider(JSONBaseProvider):
    """Hands web3's requests to the node's dispatcher."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._dispatcher = Dispatcher(node)

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """The dispatcher's answer to one request of web3."""
        request = {"jsonrpc": "2.0", "id": next(self.request_counter), "method": method, "params": _plain(params or [])}
        return cast(RPCResponse, self._dispatcher.respond(request))

    def make_batch_request(self, requests: list[tuple[RPCEndpoint, Any]]) -> list[RPCResponse] | RPCResponse:
        """Several requests of `web3.batch_requests()`, one after the other."""
        return [self.make_request(method, params) for method, params in requests]


def _plain(value: Any) -> Any:
    """What JSON would make of web3's parameters, without the detour through text: payloads have megabytes."""
    if isinstance(value, bytes | bytearray):
        return "0x" + bytes(value).hex()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def web3_in_process(node: Node) -> Web3:
    """A web3 of a node in this process."""
    return Web3(InProcessProvider(node))
