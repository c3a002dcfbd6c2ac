"""A small network for tests: keys, a founded node, and every post of the protocol in one line each."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth.constants import BLANK_ROOT_HASH
from eth.db.atomic import AtomicDB
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.london.state import LondonState
from eth.vm.message import Message
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of, simulated_account
from chain.errors import RevertedError
from chain.node.node import Node
from chain.node.vm import SYSTEM
from chain.protocol.contract import (
    Call,
    PayloadSizes,
    RegistryTerms,
    decode_log,
    decode_result,
    deployment,
    encode_call,
    revert_reason,
)
from chain.protocol.endorsements import Domain, Endorsement, endorse
from chain.protocol.genesis import Genesis, block_gas
from chain.protocol.passes import Named, Pass, begun_call, sign_pass
from chain.protocol.turns import FOUNDING_BLOCK, Membership
from chain.wire.headers import Header
from chain.wire.seal import find_nonce
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import Envelope, sign_transaction

CHAIN_ID = 4242
START = 1_700_000_000
NEVER = 2**256 - 1
"""The rank of whoever may not lead"""
SIZES = PayloadSizes(gradient=32, iterate=32, model=52, plan=4096, close=4096)
PARAMETERS = b'{"scheme":"bfl"}'
TERMS = RegistryTerms()
Ask = Callable[..., Any]
"""How a post learns of the running round: `Node.ask`, or what remembers its answers"""


def sized(payload: bytes, size: int) -> bytes:
    """A payload of at least this size."""
    return payload.ljust(size, b"\0")


MODEL_0 = sized(b"model 0", SIZES.model)


def named(payload: bytes) -> tuple[bytes, int]:
    """How a post names a payload: digest and size."""
    return payload_digest(payload), len(payload)


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
        "gas_limit": block_gas(60),
    }
    return Genesis(**(fields | changes))


def seal(node: Node, device: bytes, leader: bytes | None = None) -> Header:
    """Mine the node's candidate for real and seal it."""
    work = node.work(device, leader)
    nonce = find_nonce(work.mining_hash, work.difficulty)
    assert nonce is not None
    return node.submit_work(work.mining_hash, nonce, device)


@dataclass
class Network:
    """Who takes part. Nonces are the node's: what it has admitted."""

    servers: list[LocalAccount] = field(default_factory=lambda: [account(f"server {i}") for i in range(3)])
    devices: list[LocalAccount] = field(default_factory=lambda: [account(f"device {i}") for i in range(4)])
    founder: LocalAccount = field(default_factory=lambda: account("founder"))
    terms: RegistryTerms = TERMS
    sizes: PayloadSizes = SIZES

    @property
    def homes(self) -> dict[bytes, bytes]:
        """Device i's home is server i mod M."""
        servers = [address_of(server) for server in self.servers]
        devices: dict[bytes, bytes] = {address_of(d): servers[i % len(servers)] for i, d in enumerate(self.devices)}
        return {**{s: s for s in servers}, **devices}

    @property
    def membership(self) -> Membership:
        return Membership(self.homes, self.terms.term_cap)

    def signed(self, node: Node, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> bytes:
        """A signed call, ready to be submitted; `changes` are to its envelope."""
        fields: dict[str, Any] = {
            "chain_id": node.genesis.chain_id,
            "nonce": node.nonce(address_of(sender)),
            "gas": 3_000_000,
            "to": node.genesis.registry,
        }
        return sign_transaction(sender, Envelope(**(fields | changes)), encode_call(name, *arguments))

    def post(
        self, node: Node, sender: LocalAccount, name: str, *arguments: Any, beside: Sequence[bytes] = (), **changes: Any
    ) -> bytes:
        """Sign and submit a call with the payloads `beside` it; returns the transaction's hash."""
        return node.submit(self.signed(node, sender, name, *arguments, **changes), [Sidecar(each) for each in beside])

    def found(self, node: Node) -> Header:
        """Post and seal the founding block."""
        creation = deployment(self.terms)
        node.submit(sign_transaction(self.founder, Envelope(node.genesis.chain_id, 0, 20_000_000, b""), creation))
        participants = list(self.homes)
        for start in range(0, len(participants), 64):
            batch = participants[start : start + 64]
            homes = [self.homes[each] for each in batch]
            self.post(node, self.founder, "register", batch, homes, gas=20_000_000)
        model = sized(MODEL_0, self.sizes.model)
        arguments = (*named(PARAMETERS), payload_digest(model), self.sizes)
        self.post(node, self.founder, "found", *arguments, beside=(PARAMETERS, model))
        node.propose(address_of(self.founder))
        return seal(node, b"")

    def leader(self, node: Node, attempt: int | None = None) -> LocalAccount:
        """The server that leads an attempt at the running round; by default the one whose posts are pending."""
        by_rank = {node.ask("rank", address_of(each)): each for each in self.servers}
        ranking = [by_rank[rank] for rank in sorted(by_rank) if rank != NEVER]
        return ranking[(node.ask("attempt") if attempt is None else attempt) % len(ranking)]

    def passes(
        self, node: Node, attempt: int = 1, servers: Sequence[LocalAccount] | None = None, named: Named | None = None
    ) -> list[Pass]:
        """What servers (all by default) sign who give up the attempts below this one at the running round."""
        return passes_of(node.ask("round"), attempt, self.servers if servers is None else servers, named, node.genesis)

    def begin_attempt(
        self,
        node: Node,
        attempt: int = 1,
        servers: Sequence[LocalAccount] | None = None,
        leader: LocalAccount | None = None,
    ) -> bytes:
        """The certificate of an attempt, posted by its leader with the nonce that was sealed last: the rest goes."""
        sender = leader or self.leader(node, attempt)
        said = begun_call(self.passes(node, attempt, servers))
        return self.post(node, sender, "begin_attempt", *said, nonce=node.nonce(address_of(sender), node.head))

    def pass_on(
        self, node: Node, attempt: int = 1, servers: Sequence[LocalAccount] | None = None, round_: int | None = None
    ) -> list[Pass]:
        """Servers (all by default) pass to an attempt and name nothing; the node is handed what they sign."""
        who = self.servers if servers is None else servers
        signed = passes_of(node.ask("round") if round_ is None else round_, attempt, who, None, node.genesis)
        for each in signed:
            node.take_pass(each)
        return signed

    def post_plan(
        self, node: Node, leader: LocalAccount | None = None, payload: bytes = b"plan", ask: Ask | None = None
    ) -> bytes:
        ask = ask or node.ask
        arguments = (ask("round"), ask("attempt"), *named(payload))
        return self.post(node, leader or self.leader(node), "plan", *arguments, beside=(payload,))

    def gradient(self, node: Node, payload: bytes, ask: Ask | None = None) -> tuple[Any, ...]:
        """The arguments of a gradient for the running round."""
        ask = ask or node.ask
        digests = (ask("model_digest"), ask("plan_digest"))
        return (ask("round"), ask("attempt"), *digests, 100, 10, *named(payload))

    def post_gradient(
        self,
        node: Node,
        sender: LocalAccount,
        payload: bytes = b"gradient",
        is_beside: bool = True,
        ask: Ask | None = None,
    ) -> bytes:
        """`is_beside`: whether the payload comes with it."""
        payload = sized(payload, self.sizes.gradient)
        beside = (payload,) if is_beside else ()
        return self.post(node, sender, "gradient", *self.gradient(node, payload, ask), beside=beside)

    def post_close(
        self, node: Node, leader: LocalAccount | None = None, payload: bytes = b"close", ask: Ask | None = None
    ) -> bytes:
        ask = ask or node.ask
        arguments = (ask("round"), ask("attempt"), ask("plan_digest"), *named(payload))
        return self.post(node, leader or self.leader(node), "close", *arguments, beside=(payload,))

    def post_iterate(
        self, node: Node, server: LocalAccount, step: int, payload: bytes = b"iterate", ask: Ask | None = None
    ) -> bytes:
        ask, payload = ask or node.ask, sized(payload, self.sizes.iterate)
        arguments = (ask("round"), ask("attempt"), step, ask("close_digest"), *named(payload))
        return self.post(node, server, "iterate", *arguments, beside=(payload,))

    def post_model(
        self, node: Node, leader: LocalAccount | None = None, payload: bytes = b"", ask: Ask | None = None
    ) -> bytes:
        ask = ask or node.ask
        payload = sized(payload or b"model %d" % ask("round"), self.sizes.model)
        arguments = (ask("round"), ask("attempt"), ask("close_digest"), *named(payload))
        return self.post(node, leader or self.leader(node), "model", *arguments, beside=(payload,))

    def post_round(
        self,
        node: Node,
        leader: LocalAccount | None = None,
        steps: int = 1,
        iterate: Callable[[int], bytes] = lambda _: b"iterate",
    ) -> LocalAccount:
        """Every post of a round up to the model, with what is iterated at each step; returns the leader."""
        leader, ask = leader or self.leader(node), functools.cache(node.ask)
        self.post_plan(node, leader, ask=ask)
        for device in self.devices:
            self.post_gradient(node, device, ask=ask)
        self.post_close(node, leader, ask=ask)
        for step in range(steps + 1):
            for server in self.servers:
                self.post_iterate(node, server, step, iterate(step), ask)
        self.post_model(node, leader, ask=ask)
        return leader

    def run_round(
        self,
        node: Node,
        winner: LocalAccount | None = None,
        leader: LocalAccount | None = None,
        endorsers: Sequence[LocalAccount] = (),
    ) -> Header:
        """A whole round, sealed by `winner` (the first device by default) and signed by `endorsers`, if by any."""
        leader = self.post_round(node, leader)
        node.propose(address_of(leader))
        header = seal(node, address_of(winner or self.devices[0]))
        self.endorse(node, header, endorsers)
        return header

    def endorse(
        self,
        node: Node,
        header: Header | None = None,
        servers: Sequence[LocalAccount] | None = None,
        attempt: int = 0,
    ) -> list[Endorsement]:
        """Servers (all by default) sign a block (the head by default), and the node is handed what they signed."""
        who = self.servers if servers is None else servers
        signed = endorsements_of(header or node.head, who, node.genesis, attempt)
        for each in signed:
            node.take_endorsement(each)
        return signed


def endorsements_of(
    header: Header, servers: Sequence[LocalAccount], rules: Genesis | None = None, attempt: int = 0
) -> list[Endorsement]:
    """What servers sign under a block, a second after it was built."""
    domain, round_ = Domain.of(rules or genesis()), header.block_number - FOUNDING_BLOCK
    return [endorse(each, domain, round_, attempt, header.hash, 1000 * (header.timestamp + 1)) for each in servers]


def passes_of(
    round_: int,
    attempt: int,
    servers: Sequence[LocalAccount],
    named_: Named | None = None,
    rules: Genesis | None = None,
) -> list[Pass]:
    """What servers sign who give up the attempts below this one."""
    domain = Domain.of(rules or genesis())
    return [sign_pass(each, domain, round_, attempt, named_, 1000 * START) for each in servers]


def founded_node(
    network: Network | None = None, clock: Clock | None = None, rules: Genesis | None = None, **options: Any
) -> Node:
    """A node in memory whose network is founded."""
    node = Node.in_memory(rules or genesis(), now=clock or Clock(), **options)
    (network or Network()).found(node)
    return node


def addresses(accounts: Sequence[LocalAccount]) -> list[bytes]:
    return [address_of(each) for each in accounts]


class BareRegistry:
    """The registry alone in an EVM, sealed by calls or by blocks: any sender, any block, any parent, nobody signs."""

    address = b"\xcc" * 20
    founder = b"\xf0" * 20

    def __init__(self, terms: RegistryTerms = TERMS) -> None:
        self.number, self.time_s = 1, START
        self.gas = 0
        """Of the last call, its calldata not counted."""
        self._state: Any = LondonState(AtomicDB(), self._context(), BLANK_ROOT_HASH)
        self._run(self.founder, deployment(terms), is_creation=True)

    @property
    def code(self) -> bytes:
        """What is deployed."""
        return bytes(self._state.get_code(self.address))

    def found(self, homes: Mapping[bytes, bytes]) -> None:
        """Register everybody, found in block 1; the first round begins with block 2."""
        self.send(self.founder, "register", list(homes), list(homes.values()))
        self.send(self.founder, "found", *named(b"{}"), payload_digest(MODEL_0), SIZES)
        self.number = 2

    def begin(self, winner: bytes, leader: bytes, parent_hash: bytes) -> None:
        """The system call of a block."""
        self.send(SYSTEM, "begin_block", winner, leader, parent_hash)

    def send(self, sender: bytes, name: str, *arguments: Any) -> list[Call]:
        """A call; returns its events."""
        return self.send_raw(sender, encode_call(name, *arguments))

    def send_raw(self, sender: bytes, data: bytes) -> list[Call]:
        """A call with any calldata."""
        logs = self._run(sender, data).get_log_entries()
        events = [decode_log(tuple(t.to_bytes(32, "big") for t in topics), log) for _, topics, log in logs]
        return [event for event in events if event is not None]

    def ask(self, name: str, *arguments: Any) -> Any:
        """The answer of a view."""
        return decode_result(name, bytes(self._run(bytes(20), encode_call(name, *arguments)).output))

    def block_hash(self, number: int) -> bytes:
        """What stands for the hash of a block here."""
        return keccak(b"block %d" % number)

    def _hashes(self) -> Iterator[bytes]:
        return (self.block_hash(number) for number in range(self.number - 1, max(-1, self.number - 257), -1))

    def _context(self) -> Any:
        return ExecutionContext(
            coinbase=bytes(20),
            timestamp=self.time_s,
            block_number=self.number,
            difficulty=1,
            mix_hash=bytes(32),
            gas_limit=1 << 62,
            prev_hashes=self._hashes(),
            chain_id=CHAIN_ID,
            base_fee_per_gas=0,
            excess_blob_gas=None,
        )

    def _run(self, sender: bytes, data: bytes, is_creation: bool = False) -> Any:
        state = self._state
        state.execution_context = self._context()
        state.lock_changes()
        context = state.get_transaction_context_class()(gas_price=0, origin=sender)
        if is_creation:
            message = Message(1 << 40, b"", sender, 0, b"", data, create_address=self.address)
            computation = state.computation_class.apply_create_message(state, message, context)
        else:
            message = Message(1 << 40, self.address, sender, 0, data, state.get_code(self.address))
            computation = state.computation_class.apply_message(state, message, context)
        self.gas = int(computation.get_gas_used())
        if computation.is_error:
            raise RevertedError(revert_reason(bytes(computation.output)) or f"no reason: {computation.error}")
        return computation
