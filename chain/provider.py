"""web3 on a node of this very process: no sockets, the same dispatcher as over HTTP."""

from typing import Any

from web3 import Web3
from web3.providers import BaseProvider
from web3.types import RPCEndpoint, RPCResponse

from chain.node import Node
from chain.rpc import Dispatcher


class InProcessProvider(BaseProvider):
    """Hands web3's requests to the node's dispatcher."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._dispatcher = Dispatcher(node)

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """One JSON-RPC request."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        return self._dispatcher.respond(request)  # type: ignore[return-value]

    def is_connected(self, show_traceback: bool = False) -> bool:
        """A node in this process is always there."""
        return True


def web3_in_process(node: Node) -> Web3:
    """A web3 of a node in this process."""
    return Web3(InProcessProvider(node))
