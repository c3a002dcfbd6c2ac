"""A registry to try the rules on: in a founded network whose rounds pass when told to, or without a chain around it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import (
    RevertedError,
)
from chain.node.node import Node
from chain.protocol import contract
from chain.protocol.contract import Call, RegistryTerms
from chain.protocol.passes import Named, Pass, begun_call, sign_pass
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Transaction, decode_transaction
from tests.chain.endorsing import BARE
from tests.chain.network import (
    NEVER,
    SIZES,
    START,
    TERMS,
    BareRegistry,
    Clock,
    Network,
    account,
    founded_node,
    named,
    seal,
    sized,
)

NOBODY = bytes(20)
SENT = keccak(b"a post")
"""The transaction that a flag is about"""
STRANGER = account("stranger")
A, B, C = (address_of(account(name)) for name in "abc")
SECP256K1_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def reverts(reason: str) -> Any:
    """The registry refuses for exactly this reason."""
    return pytest.raises(RevertedError, match=f"^{re.escape(reason)}$")


@dataclass
class Bench:
    """A founded network and its node, whose rounds pass when told to."""

    network: Network = field(default_factory=Network)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.node: Node = founded_node(self.network, self.clock)

    @property
    def round(self) -> int:
        return int(self.node.ask("round"))

    @property
    def attempt(self) -> int:
        return int(self.node.ask("attempt"))

    @property
    def leader(self) -> LocalAccount:
        return self.network.leader(self.node)

    @property
    def others(self) -> list[LocalAccount]:
        """The servers that do not lead."""
        return [server for server in self.network.servers if server != self.leader]

    def post(self, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> list[Call]:
        """Post a call; returns its events."""
        return self._events(self.network.post(self.node, sender, name, *arguments, **changes))

    def _events(self, sent: bytes) -> list[Call]:
        entry = self.node.pool.find(sent)
        assert entry is not None
        events = [contract.decode_log(log.topics, log.data) for log in entry.outcome.logs]
        return [event for event in events if event is not None]

    def plan(self, sender: LocalAccount | None = None, payload: bytes = b"plan") -> list[Call]:
        return self.post(sender or self.leader, "plan", self.round, self.attempt, *named(payload), beside=(payload,))

    def close(self, sender: LocalAccount | None = None, payload: bytes = b"closed") -> list[Call]:
        said = (self.round, self.attempt, self.node.ask("plan_digest"), *named(payload))
        return self.post(sender or self.leader, "close", *said, beside=(payload,))

    def model(self, sender: LocalAccount | None = None) -> list[Call]:
        payload = sized(b"model", SIZES.model)
        said = (self.round, self.attempt, self.node.ask("close_digest"), *named(payload))
        return self.post(sender or self.leader, "model", *said, beside=(payload,))

    def iterate(self, sender: LocalAccount, step: int = 0, payload: bytes = b"iterate") -> list[Call]:
        payload = sized(payload, SIZES.iterate)
        said = (self.round, self.attempt, step, self.node.ask("close_digest"), *named(payload))
        return self.post(sender, "iterate", *said, beside=(payload,))

    def gradient(self, sender: LocalAccount, **changes: Any) -> list[Call]:
        """`changes` to what the call says; then the payload is left out."""
        payload = sized(b"gradient", SIZES.gradient)
        said = {
            "round": self.round,
            "attempt": self.attempt,
            "base_model": self.node.ask("model_digest"),
            "plan_digest": self.node.ask("plan_digest"),
            "samples": 100,
            "iterations": 10,
            "digest": payload_digest(payload),
            "size": len(payload),
        }
        return self.post(sender, "gradient", *(said | changes).values(), beside=() if changes else (payload,))

    def flag(
        self, server: LocalAccount, offender: LocalAccount, slot: int = Slot.ITERATE, sent: bytes = SENT
    ) -> list[Call]:
        said = (address_of(offender), slot, sent.rjust(32, b"\0"), keccak(b"expected"))
        return self.post(server, "flag", self.round, *said)

    def exclude(self, offender: LocalAccount, by: Sequence[LocalAccount] = ()) -> None:
        """Have everybody else (or `by`) flag it until it is excluded."""
        for server in by or self.network.servers:
            if server != offender and not self.is_excluded(offender) and not self.is_excluded(server):
                self.flag(server, offender)
        assert self.is_excluded(offender)

    def begin_attempt(
        self, attempt: int = 1, servers: Sequence[LocalAccount] | None = None, leader: LocalAccount | None = None
    ) -> list[Call]:
        """The leader of an attempt (or `leader`) posts the passes of these servers (or all); returns the events."""
        return self._events(self.network.begin_attempt(self.node, attempt, servers, leader))

    def roll(self, sender: LocalAccount, payload: bytes = b"roll") -> list[Call]:
        said = (self.round, self.attempt, self.node.ask("plan_digest"), *named(payload))
        return self.post(sender, "roll", *said, beside=(payload,))

    def vote(self, server: LocalAccount, participant: LocalAccount, home: LocalAccount) -> list[Call]:
        return self.post(server, "vote", address_of(participant), address_of(home))

    def is_excluded(self, who: LocalAccount) -> bool:
        return bool(self.node.ask("is_excluded", address_of(who)))

    def rank(self, who: LocalAccount) -> int:
        return int(self.node.ask("rank", address_of(who)))

    def attend(self) -> None:
        """Every server posts something, so that nobody is dormant (D3.7)."""
        self.plan()
        for server in self.network.servers:
            self.roll(server)

    def end_round(self, winner: LocalAccount | None = None, leader: LocalAccount | None = None) -> None:
        """Seal what is posted."""
        self.node.propose(address_of(leader or self.leader))
        seal(self.node, address_of(winner or self.network.devices[0]))

    def end_rounds(self, count: int) -> None:
        for _ in range(count):
            self.end_round()


def bench_of(servers: int, **terms: Any) -> Bench:
    """A network of so many servers."""
    accounts = [account(f"server {i}") for i in range(servers)]
    return Bench(Network(servers=accounts, terms=replace(TERMS, **terms)))


@dataclass
class Bare:
    """The registry without a chain around it: three servers, two devices each; the first server leads round 1."""

    terms: RegistryTerms = TERMS

    def __post_init__(self) -> None:
        self.servers = [account(f"server {i}") for i in range(3)]
        self.devices = [account(f"device {i}") for i in range(6)]
        self.network = Network(self.servers, self.devices, terms=self.terms)
        self.registry = BareRegistry(self.terms)
        self.registry.found(self.network.homes)
        if not self.terms.contract_seal:
            self.registry.begin(address_of(self.devices[0]), NOBODY, keccak(b"block 1"))

    def send(self, sender: LocalAccount, name: str, *arguments: Any) -> list[Call]:
        return self.registry.send(address_of(sender), name, *arguments)

    def ranking(self) -> list[LocalAccount]:
        """The servers that may lead the running round, in their order."""
        ranks = {self.registry.ask("rank", address_of(each)): each for each in self.servers}
        return [ranks[rank] for rank in sorted(ranks) if rank != NEVER]

    def passes(
        self, attempt: int = 1, servers: Sequence[LocalAccount] | None = None, named_: Named | None = None
    ) -> list[Pass]:
        """What servers (all by default) sign who give up the attempts below this one."""
        who, round_ = self.servers if servers is None else servers, self.registry.ask("round")
        return [sign_pass(each, BARE, round_, attempt, named_, 1000 * START) for each in who]

    def begin_attempt(
        self, sender: LocalAccount, attempt: int = 1, servers: Sequence[LocalAccount] | None = None
    ) -> list[Call]:
        """The passes of these servers (all by default), posted by whoever."""
        return self.send(sender, "begin_attempt", *begun_call(self.passes(attempt, servers)))

    def next_round(self, leader: LocalAccount | None = None, winner: LocalAccount | None = None) -> None:
        """A block of this leader (by default of attempt 0's), sealed by this device (by default the first)."""
        led_by = address_of(leader or self.ranking()[0])
        self.registry.number += 1
        parent = self.registry.block_hash(self.registry.number - 1)
        self.registry.begin(address_of(winner or self.devices[0]), led_by, parent)


def iterate_saying(bench: Bench, sender: LocalAccount, payload: bytes, step: int = 0, **changes: Any) -> Transaction:
    """An iterate, signed and not posted."""
    payload = sized(payload, SIZES.iterate)
    said = (bench.round, bench.attempt, step, bench.node.ask("close_digest"), *named(payload))
    return signed(bench, sender, "iterate", *said, **changes)


def signed(bench: Bench, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> Transaction:
    """A call, signed and not posted."""
    return decode_transaction(bench.network.signed(bench.node, sender, name, *arguments, **changes))


def prove(
    bench: Bench, server: LocalAccount, offender: LocalAccount, first: Transaction, second: Transaction, **changes: Any
) -> list[Call]:
    """Accuse of equivocation; returns the events."""
    evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
    return bench.post(server, "flag_equivocation", bench.round, address_of(offender), *evidence, **changes)
