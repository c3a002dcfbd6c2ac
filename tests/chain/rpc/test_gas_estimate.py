"""eth_estimateGas is an upper bound: every post is admitted with exactly the gas that was estimated for it."""

from dataclasses import dataclass
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.node.node import Node
from chain.protocol.contract import build, deployment, encode_call
from chain.protocol.genesis import block_gas
from chain.protocol.slots import Slot
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import TERMS, Clock, Network, account, genesis, seal
from tests.chain.scene import Scene, hexed

SIZES = sorted(map(int, build()["bytecode"]))


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

    def found(self, model: bytes) -> None:
        node, founder = self.scene.node, self.network.founder
        node.submit(self.signed(founder, deployment(self.network.payload_bytes, TERMS), b""))
        homes = self.network.homes
        for start in range(0, len(homes), 64):
            batch = list(homes)[start : start + 64]
            self.post(founder, "register", batch, [homes[each] for each in batch])
        self.post(founder, "found", b"{" + b"x" * 16_382 + b"}", keccak(model), 0, model)
        node.propose(address_of(founder))
        seal(node, b"")


def frugal(payload_bytes: int, servers: int, calls: int) -> Frugal:
    network = Network([account(f"server {i}") for i in range(servers)], payload_bytes=payload_bytes)
    clock = Clock()
    node = Node.in_memory(genesis(gas_limit=block_gas(calls, payload_bytes, payload_bytes)), now=clock)
    return Frugal(network, Scene(network, node, ()), clock)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("is_small", [True, False], ids=["small payload", "largest payload"])
def test_every_post_of_a_round_fits_its_estimate_in_every_size_class(size: int, is_small: bool) -> None:
    payload = b"\xff" * (100 if is_small else size)
    digest = keccak(payload)
    here = frugal(size, servers=3, calls=20)
    network, node = here.network, here.scene.node
    here.found(payload)
    leader = network.leader(node)
    here.post(leader, "plan", 1, digest, 0, payload)
    plan = node.ask("plan_digest")
    raw = here.post(network.devices[0], "gradient", 1, digest, plan, 1, 1, digest, 0, payload)
    here.post(leader, "close", 1, digest, 0, payload)
    here.post(network.servers[0], "iterate", 1, 0, digest, 0, payload)
    first = decode_transaction(raw)
    other = payload[:-1] + b"\xfe"
    changed = encode_call("gradient", 1, digest, plan, 1, 1, keccak(other), 0, other)
    envelope = Envelope(first.chain_id, first.nonce, first.gas, first.to)
    second = decode_transaction(sign_transaction(network.devices[0], envelope, changed))
    evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
    here.post(network.servers[0], "flag_equivocation", 1, first.sender, *evidence)
    here.post(leader, "model", 1, digest, 0, payload)
    node.propose(address_of(leader))
    seal(node, address_of(network.devices[1]))
    assert node.head.block_number == 2


@pytest.mark.slow
def test_the_dearest_posts_among_64_servers_fit_their_estimate() -> None:
    """The last server by rank leads; votes, endorsements and flags go over all servers, and the last flag excludes."""
    here = frugal(SIZES[0], servers=64, calls=200)
    network, node = here.network, here.scene.node
    here.found(b"model")
    here.clock.pass_s(64 * TERMS.turn_s)
    majority, offender = network.servers[:33], address_of(network.devices[0])
    newcomer, home = address_of(account("newcomer")), address_of(network.servers[0])
    here.post(majority[0], "endorse", 1, node.head.hash)
    for server in majority:
        here.post(server, "vote", newcomer, home)
    here.post(max(network.servers, key=lambda each: node.ask("rank", address_of(each))), "plan", 1, keccak(b""), 0, b"")
    for server in majority:
        here.post(server, "flag", 1, offender, Slot.GRADIENT, bytes(32), b"\1" * 32, b"\xff" * 1024)
    assert node.ask("is_excluded", offender)
    assert node.ask("is_device", newcomer)


def test_an_estimate_is_never_more_than_a_block_has() -> None:
    here = frugal(SIZES[0], servers=1, calls=1)
    here.found(b"model")
    call = {"to": hexed(here.scene.node.genesis.registry), "data": "0x" + "ff" * (8 << 20)}
    assert int(here.scene.ask("eth_estimateGas", call), 16) == here.scene.node.genesis.gas_limit


def test_an_estimate_needs_no_founded_network_and_runs_nothing() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    scene = Scene(Network(), node, ())
    assert int(scene.ask("eth_estimateGas", {"data": "0x00"}), 16) > 4_000_000
    assert int(scene.ask("eth_estimateGas", {"to": hexed(node.genesis.registry)}), 16) > 0
    assert node.pending() == ()
