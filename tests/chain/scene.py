"""A node in the middle of a round, and JSON-RPC asked of it directly: what the tests of the node's door look at."""

from dataclasses import dataclass
from typing import Any

import pytest
from web3 import Web3
from web3.contract import Contract

from chain.client.keys import address_of
from chain.node.node import Node
from chain.protocol.contract import build
from chain.rpc.dispatcher import Dispatcher
from chain.wire.address import Address
from chain.wire.headers import Header
from tests.chain.network import SIZES, Clock, Network, founded_node, seal, sized


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

    def seal_round(self) -> Header:
        """Post what round 2 lacks, and seal it as block 3."""
        leader = self.network.leader(self.node)
        self.network.post_close(self.node, leader)
        for server in self.network.servers:
            self.network.post_iterate(self.node, server, 0)
        self.network.post_model(self.node, leader)
        self.node.propose(address_of(leader))
        return seal(self.node, address_of(self.network.devices[1]))

    def seal_once_after(self, monkeypatch: pytest.MonkeyPatch, reading: str) -> None:
        """Let the round be sealed right after the next answer of the node's method `reading`."""
        read = getattr(self.node, reading)

        def read_then_seal(*arguments: Any) -> Any:
            found = read(*arguments)
            monkeypatch.setattr(self.node, reading, read)
            self.seal_round()
            return found

        monkeypatch.setattr(self.node, reading, read_then_seal)


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
    """A signed gradient for the running round, not posted; its payload is `sized(payload, SIZES.gradient)`."""
    node, sender = scene.node, scene.network.devices[device]
    arguments = scene.network.gradient(node, sized(payload, SIZES.gradient))
    return scene.network.signed(node, sender, "gradient", *arguments)


def leader_of(scene: Scene) -> bytes:
    return address_of(scene.network.leader(scene.node))


def header_of(block: Any) -> Header:
    """The header a block's JSON describes; its hash tells whether every field is right."""
    return Header(
        parent_hash=bytes(block["parentHash"]),
        uncles_hash=bytes(block["sha3Uncles"]),
        coinbase=Address(block["miner"]),
        state_root=bytes(block["stateRoot"]),
        transaction_root=bytes(block["transactionsRoot"]),
        receipt_root=bytes(block["receiptsRoot"]),
        bloom=int.from_bytes(block["logsBloom"], "big"),
        difficulty=block["difficulty"],
        block_number=block["number"],
        gas_limit=block["gasLimit"],
        gas_used=block["gasUsed"],
        timestamp=block["timestamp"],
        extra_data=bytes(block["extraData"]),
        mix_hash=bytes(block["mixHash"]),
        nonce=bytes(block["nonce"]),
        base_fee_per_gas=block["baseFeePerGas"],
    )
