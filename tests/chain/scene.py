"""A node in the middle of a round, and JSON-RPC asked of it directly: what the tests of the node's door look at."""

from dataclasses import dataclass
from typing import Any

from eth_hash.auto import keccak
from web3 import Web3
from web3.contract import Contract

from chain.contract import build
from chain.keys import address_of
from chain.node import Node
from chain.rpc import Dispatcher
from tests.chain.network import Clock, Network, founded_node


@dataclass
class Scene:
    """Block 1 founds, block 2 is round 1, and of round 2 the plan and two gradients are pending."""

    network: Network
    node: Node
    pending: tuple[bytes, ...]
    """Hashes of the plan and the gradients."""

    def ask(self, method: str, *params: Any) -> Any:
        return result(Dispatcher(self.node), method, *params)

    def refusal(self, method: str, *params: Any) -> Any:
        answer = respond(Dispatcher(self.node), method, *params)
        assert "result" not in answer, answer
        return answer["error"]


def scene(**options: Any) -> Scene:
    network = Network()
    node = founded_node(network, Clock(), **options)
    network.run_round(node)
    plan = network.post_plan(node)
    return Scene(network, node, (plan, *(network.post_gradient(node, device) for device in network.devices[:2])))


def respond(dispatcher: Dispatcher, method: str, *params: Any) -> Any:
    return dispatcher.respond({"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)})


def result(dispatcher: Dispatcher, method: str, *params: Any) -> Any:
    answer = respond(dispatcher, method, *params)
    assert "error" not in answer, answer
    return answer["result"]


def hexed(data: bytes) -> str:
    return "0x" + data.hex()


def registry_of(web3: Web3, node: Node) -> Contract:
    address = Web3.to_checksum_address(node.genesis.registry)
    return web3.eth.contract(address=address, abi=build()["abi"])


def gradient_of(scene: Scene, device: int, payload: bytes = b"late gradient") -> bytes:
    """A signed gradient for the running round, not posted."""
    node, sender = scene.node, scene.network.devices[device]
    digests = node.ask("model_digest"), node.ask("plan_digest")
    post = (node.ask("round"), *digests, 100, 10, keccak(payload), 0, payload)
    return scene.network.signed(node, sender, "gradient", *post)


def leader_of(scene: Scene) -> bytes:
    return address_of(scene.network.leader(scene.node))
