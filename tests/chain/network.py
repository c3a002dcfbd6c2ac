"""A small network for tests: keys, a founded node, and every post of the protocol in one line each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.contract import RegistryTerms, deployment, encode_call, size_class
from chain.genesis import Genesis, block_gas
from chain.headers import Header
from chain.keys import address_of, simulated_account
from chain.node import Node
from chain.seal import find_nonce
from chain.transactions import Envelope, sign_transaction
from chain.turns import Membership

CHAIN_ID = 4242
START = 1_700_000_000
PAYLOAD_BYTES = 4096
MODEL_0 = b"model 0"
TERMS = RegistryTerms(turn_s=60)


class Clock:
    """Time that passes when told to."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += seconds


def account(name: str) -> LocalAccount:
    return simulated_account(b"tests", name)


def genesis(**changes: Any) -> Genesis:
    fields: dict[str, Any] = {
        "chain_id": CHAIN_ID,
        "founder": account("founder").address.lower(),
        "timestamp": START,
        "gas_limit": block_gas(60, PAYLOAD_BYTES, size_class(PAYLOAD_BYTES)),
    }
    return Genesis(**(fields | changes))


def seal(node: Node, device: bytes, leader: bytes | None = None) -> Header:
    """Mine the node's candidate for real and seal it."""
    work = node.work(device, leader)
    nonce = find_nonce(work.mining_hash, work.header.difficulty)
    assert nonce is not None
    return node.submit_work(work.mining_hash, nonce, device)


@dataclass
class Network:
    """Who takes part. Nonces are the node's: what it has admitted."""

    servers: list[LocalAccount] = field(default_factory=lambda: [account(f"server {i}") for i in range(3)])
    devices: list[LocalAccount] = field(default_factory=lambda: [account(f"device {i}") for i in range(4)])
    founder: LocalAccount = field(default_factory=lambda: account("founder"))
    terms: RegistryTerms = TERMS
    payload_bytes: int = PAYLOAD_BYTES

    @property
    def homes(self) -> dict[bytes, bytes]:
        """Device i's home is server i mod M."""
        servers = [address_of(server) for server in self.servers]
        return {s: s for s in servers} | {address_of(d): servers[i % len(servers)] for i, d in enumerate(self.devices)}

    @property
    def membership(self) -> Membership:
        return Membership(self.homes, self.terms.term_cap, self.terms.turn_s)

    def signed(self, node: Node, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> bytes:
        """A signed call, ready to be submitted; `changes` are to its envelope."""
        fields: dict[str, Any] = {
            "chain_id": node.genesis.chain_id,
            "nonce": node.state().nonce(address_of(sender)),
            "gas": 3_000_000,
            "to": node.genesis.registry,
        }
        return sign_transaction(sender, Envelope(**(fields | changes)), encode_call(name, *arguments))

    def post(self, node: Node, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> bytes:
        """Sign and submit a call; returns the transaction's hash."""
        return node.submit(self.signed(node, sender, name, *arguments, **changes))

    def found(self, node: Node) -> Header:
        """Post and seal the founding block."""
        creation = deployment(self.payload_bytes, self.terms)
        node.submit(sign_transaction(self.founder, Envelope(node.genesis.chain_id, 0, 20_000_000, b""), creation))
        participants = list(self.homes)
        for start in range(0, len(participants), 64):
            batch = participants[start : start + 64]
            homes = [self.homes[each] for each in batch]
            self.post(node, self.founder, "register", batch, homes, gas=20_000_000)
        self.post(node, self.founder, "found", b'{"scheme":"bfl"}', keccak(MODEL_0), 0, MODEL_0)
        node.propose(address_of(self.founder))
        return seal(node, b"")

    def leader(self, node: Node, rank: int = 0) -> LocalAccount:
        """The server with this rank in the round that is running."""
        return next(s for s in self.servers if node.ask("rank", address_of(s)) == rank)

    def post_plan(self, node: Node, leader: LocalAccount | None = None, payload: bytes = b"plan") -> bytes:
        return self.post(node, leader or self.leader(node), "plan", node.ask("round"), keccak(payload), 0, payload)

    def post_gradient(self, node: Node, sender: LocalAccount, payload: bytes = b"gradient") -> bytes:
        base, plan = node.ask("model_digest"), node.ask("plan_digest")
        return self.post(node, sender, "gradient", node.ask("round"), base, plan, 100, 10, keccak(payload), 0, payload)

    def post_close(self, node: Node, leader: LocalAccount | None = None, payload: bytes = b"close") -> bytes:
        return self.post(node, leader or self.leader(node), "close", node.ask("round"), keccak(payload), 0, payload)

    def post_iterate(self, node: Node, server: LocalAccount, step: int, payload: bytes = b"iterate") -> bytes:
        return self.post(node, server, "iterate", node.ask("round"), step, keccak(payload), 0, payload)

    def post_model(self, node: Node, leader: LocalAccount | None = None, payload: bytes = b"") -> bytes:
        payload = payload or b"model %d" % node.ask("round")
        return self.post(node, leader or self.leader(node), "model", node.ask("round"), keccak(payload), 0, payload)

    def post_round(self, node: Node, leader: LocalAccount | None = None, steps: int = 1) -> LocalAccount:
        """Every post of a round up to the model; returns the leader."""
        leader = leader or self.leader(node)
        self.post_plan(node, leader)
        for device in self.devices:
            self.post_gradient(node, device)
        self.post_close(node, leader)
        for step in range(steps + 1):
            for server in self.servers:
                self.post_iterate(node, server, step)
        self.post_model(node, leader)
        return leader

    def run_round(self, node: Node, winner: LocalAccount | None = None, leader: LocalAccount | None = None) -> Header:
        """A whole round, sealed by `winner` (the first device by default)."""
        leader = self.post_round(node, leader)
        node.propose(address_of(leader))
        return seal(node, address_of(winner or self.devices[0]))


def founded_node(network: Network | None = None, clock: Clock | None = None, **options: Any) -> Node:
    """A node in memory whose network is founded."""
    node = Node.in_memory(genesis(), now=clock or Clock(), **options)
    (network or Network()).found(node)
    return node


def addresses(accounts: Sequence[LocalAccount]) -> list[bytes]:
    return [address_of(each) for each in accounts]
