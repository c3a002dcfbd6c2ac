"""eth_estimateGas is an upper bound: every post is admitted with exactly the gas that was estimated for it."""

from dataclasses import dataclass
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.node.node import Node
from chain.protocol.contract import deployment, encode_call
from chain.protocol.genesis import block_gas
from chain.protocol.passes import begun_call
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import MODEL_0, PARAMETERS, SIZES, TERMS, Clock, Network, account, genesis, named, seal
from tests.chain.scene import Scene, hexed


@dataclass
class Frugal:
    """A network whose every post has the estimated gas and no more."""

    network: Network
    scene: Scene
    clock: Clock

    def signed(self, sender: LocalAccount, data: bytes, to: bytes) -> bytes:
        node = self.scene.node
        call = {"from": sender.address, "data": hexed(data)} | ({"to": hexed(to)} if to else {})
        gas = int(self.scene.ask("eth_estimateGas", call), 16)
        return sign_transaction(sender, Envelope(node.genesis.chain_id, node.nonce(address_of(sender)), gas, to), data)

    def post(self, sender: LocalAccount, name: str, *arguments: Any) -> bytes:
        """Returns the signed transaction."""
        raw = self.signed(sender, encode_call(name, *arguments), self.scene.node.genesis.registry)
        self.scene.node.submit(raw)
        return raw

    def found(self) -> None:
        node, founder, sizes = self.scene.node, self.network.founder, self.network.sizes
        node.submit(self.signed(founder, deployment(TERMS), b""))
        homes = self.network.homes
        for start in range(0, len(homes), 64):
            batch = list(homes)[start : start + 64]
            self.post(founder, "register", batch, [homes[each] for each in batch])
        self.post(founder, "found", *named(PARAMETERS), payload_digest(MODEL_0), sizes)
        for payload in (PARAMETERS, MODEL_0):
            node.deliver(payload_digest(payload), payload)
        node.propose(address_of(founder))
        seal(node, b"")


def frugal(servers: int, calls: int) -> Frugal:
    network, clock = Network([account(f"server {i}") for i in range(servers)]), Clock()
    node = Node.in_memory(genesis(gas_limit=block_gas(calls)), now=clock)
    return Frugal(network, Scene(network, node, ()), clock)


def test_every_post_of_a_round_fits_its_estimate() -> None:
    here = frugal(servers=3, calls=20)
    network, node = here.network, here.scene.node
    here.found()
    leader, dear = network.leader(node), b"\xff" * 32  # digests without zeros, whose bytes cost most
    here.post(leader, "plan", 1, 0, dear, SIZES.plan)
    gradient = (1, 0, node.ask("model_digest"), dear, 2**256 - 1, 2**256 - 1)
    raw = here.post(network.devices[0], "gradient", *gradient, dear, SIZES.gradient)
    here.post(leader, "close", 1, 0, dear, dear, SIZES.close)
    here.post(network.servers[0], "iterate", 1, 0, 0, dear, dear, SIZES.iterate)
    first = decode_transaction(raw)
    changed = encode_call("gradient", *gradient, b"\xfe" * 32, SIZES.gradient)
    envelope = Envelope(first.chain_id, first.nonce, first.gas, first.to)
    second = decode_transaction(sign_transaction(network.devices[0], envelope, changed))
    evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
    here.post(network.servers[0], "flag_equivocation", 1, first.sender, *evidence)
    here.post(leader, "model", 1, 0, dear, dear, SIZES.model)
    called = [entry.post.call.name for entry in node.pending() if entry.post.call is not None]
    assert called == ["plan", "gradient", "close", "iterate", "flag_equivocation", "model"]


@pytest.mark.slow
def test_the_dearest_posts_among_64_servers_fit_their_estimate() -> None:
    """The last server by rank leads; votes, endorsements and flags go over all servers, and the last flag excludes."""
    here = frugal(servers=64, calls=200)
    network, node = here.network, here.scene.node
    here.found()
    last = max(network.servers, key=lambda each: node.ask("rank", address_of(each)))
    here.post(last, "begin_attempt", *begun_call(network.passes(node, 63)))
    majority, offender = network.servers[:33], address_of(network.devices[0])
    newcomer, home = address_of(account("newcomer")), address_of(network.servers[0])
    for server in majority:
        here.post(server, "vote", newcomer, home)
    here.post(last, "plan", 1, 63, *named(b"plan"))
    for server in majority:
        here.post(server, "flag", 1, offender, Slot.GRADIENT, b"\xff" * 32, b"\xff" * 32)
    assert node.ask("is_excluded", offender)
    assert node.ask("is_device", newcomer)


def test_an_estimate_is_never_more_than_a_block_has() -> None:
    here = frugal(servers=1, calls=1)
    here.found()
    call = {"to": hexed(here.scene.node.genesis.registry), "data": "0x" + "ff" * (8 << 20)}
    assert int(here.scene.ask("eth_estimateGas", call), 16) == here.scene.node.genesis.gas_limit


def test_an_estimate_needs_no_founded_network_and_runs_nothing() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    scene = Scene(Network(), node, ())
    assert int(scene.ask("eth_estimateGas", {"data": "0x00"}), 16) > 4_000_000
    assert int(scene.ask("eth_estimateGas", {"to": hexed(node.genesis.registry)}), 16) > 0
    assert node.pending() == ()
