"""Rounds that are sealed by calls, where blocks are not ours (C7)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import (
    NotRegistryCallError,
)
from chain.protocol.contract import Call, RegistryTerms, registry_settings
from chain.protocol.slots import Slot
from chain.wire.seal import contract_puzzle, find_nonce, seal_hash, target
from chain.wire.sidecar import payload_digest
from tests.chain.endorsing import BARE, endorse_call
from tests.chain.network import (
    CHAIN_ID,
    MODEL_0,
    SIZES,
    TERMS,
    named,
)
from tests.chain.protocol.registry_bench import NOBODY, SENT, STRANGER, Bare, Bench, reverts


@dataclass
class SealedByCalls(Bare):
    """As on an external network: no block begins a round."""

    terms: RegistryTerms = field(default_factory=lambda: replace(TERMS, contract_seal=True, seal_difficulty=50))

    @property
    def leader(self) -> LocalAccount:
        return next(s for s in self.servers if self.registry.ask("rank", address_of(s)) == 0)

    @property
    def round(self) -> int:
        return int(self.registry.ask("round"))

    def publish(self, endorsed_by: int = 2) -> None:
        """Plan, close and model, so many endorsements, and the block after it."""
        leader, plan, close = self.leader, payload_digest(b"plan"), payload_digest(b"close")
        self.send(leader, "plan", self.round, 0, plan, 4)
        self.send(leader, "close", self.round, 0, plan, close, 5)
        self.send(leader, "model", self.round, 0, close, payload_digest(b"model"), SIZES.model)
        if endorsed_by:
            self.endorse(self.servers[:endorsed_by])
        self.registry.number += 1

    def endorse(self, servers: Sequence[LocalAccount]) -> list[Call]:
        said = endorse_call(servers, self.round, self.registry.ask("result"), BARE)
        return self.send(servers[0], "endorse", *said)

    def puzzle(self, device: LocalAccount, anchor: int | None = None) -> bytes:
        registry = self.registry
        anchor_hash = registry.block_hash(registry.ask("anchor") if anchor is None else anchor)
        model = registry.ask("model_digest")
        return contract_puzzle(CHAIN_ID, registry.address, self.round, anchor_hash, model, address_of(device))

    def nonce(self, device: LocalAccount) -> bytes:
        """A nonce for a seal in the block that is next."""
        self.registry.number -= 1
        nonce = find_nonce(self.puzzle(device), self.terms.seal_difficulty)
        self.registry.number += 1
        assert nonce is not None
        return nonce

    def seal(self, device: LocalAccount) -> list[Call]:
        return self.send(device, "seal", self.round, self.nonce(device))


def test_a_network_sealed_by_calls_begins_with_its_founding() -> None:
    bare = SealedByCalls()
    assert bare.round == 1
    assert registry_settings(bare.registry.ask("settings")).contract_seal is True
    assert bare.registry.ask("parent_hash") == bare.registry.block_hash(0)
    with reverts("this network has no blocks of its own"):
        bare.registry.begin(address_of(bare.devices[0]), NOBODY, bytes(32))


def test_a_seal_ends_the_round_and_names_the_next_leader() -> None:
    bare = SealedByCalls()
    device = bare.devices[1]
    bare.publish()
    puzzle, nonce = bare.puzzle(device), bare.nonce(device)
    (sealed,) = bare.seal(device)
    found = seal_hash(puzzle, nonce)
    said = {"round": 1, "winner": address_of(device), "seal_hash": found}
    assert (sealed.name, sealed.arguments) == ("Sealed", said)
    ask = bare.registry.ask
    assert (bare.round, ask("parent_hash"), ask("attempt")) == (2, found, 0)
    assert ask("credit", address_of(device)) == 1
    assert bare.leader == bare.servers[1]
    with reverts("wrong round"):
        bare.send(device, "seal", 1, nonce)
    bare.publish()
    assert ask("has_posted", address_of(bare.servers[1]), Slot.MODEL)
    assert ask("published_by") == address_of(bare.servers[1])


def test_a_seal_needs_a_model_a_block_a_device_and_work() -> None:
    bare = SealedByCalls()
    device, other = bare.devices[:2]
    with reverts("this round has no model"):
        bare.send(device, "seal", 1, bytes(8))
    bare.publish()
    bare.registry.number -= 1
    with reverts("the publishing block is not there yet"):
        bare.send(device, "seal", 1, bytes(8))
    bare.registry.number += 1
    for sender in (bare.servers[0], STRANGER):
        with reverts("only a registered device seals"):
            bare.send(sender, "seal", 1, bytes(8))
    nonce = bare.nonce(device)
    before = next(n for n in range(2**20) if n.to_bytes(8, "big") != nonce).to_bytes(8, "big")
    with reverts("the nonce does not solve the puzzle"):
        bare.send(device, "seal", 1, before)
    with reverts("the nonce does not solve the puzzle"):
        bare.send(other, "seal", 1, nonce)  # stolen
    with reverts("wrong round"):
        bare.send(device, "seal", 2, nonce)
    bare.send(device, "seal", 1, nonce)


def test_all_servers_count_the_excluded_ones_too() -> None:
    bare = SealedByCalls()
    liar, one, two = bare.servers
    bare.publish(endorsed_by=0)
    for server in (one, two):
        bare.send(server, "flag", 1, address_of(liar), Slot.PLAN, SENT, bytes(32))
    bare.endorse([one])
    with reverts("no majority has endorsed this round's result"):
        bare.seal(bare.devices[0])
    bare.endorse([liar, one])
    bare.seal(bare.devices[0])


def test_the_contract_and_the_miner_agree_on_the_hardest_puzzle_a_nonce_solves() -> None:
    probe = SealedByCalls()
    device = probe.devices[0]
    probe.publish()
    puzzle = probe.puzzle(device)
    for nonce in (n.to_bytes(8, "big") for n in range(4)):
        found = int.from_bytes(seal_hash(puzzle, nonce), "big")
        hardest = 2**256 // found
        assert target(hardest) >= found > target(hardest + 1)
        for difficulty, solves in ((1, True), (hardest, True), (hardest + 1, False), (2**256 - 1, False)):
            bare = SealedByCalls(replace(TERMS, contract_seal=True, seal_difficulty=difficulty))
            bare.publish()
            assert bare.puzzle(device) == puzzle
            if solves:
                bare.send(device, "seal", 1, nonce)
            else:
                with reverts("the nonce does not solve the puzzle"):
                    bare.send(device, "seal", 1, nonce)


@pytest.mark.parametrize("later", [1, 200, 201, 257, 401, 5000])
def test_a_round_can_be_sealed_however_late(later: int) -> None:
    """The EVM forgets block hashes after 256 blocks; the anchor moves on before."""
    bare = SealedByCalls()
    bare.publish()
    published = bare.registry.number - 1
    bare.registry.number = published + later
    bare.seal(bare.devices[0])
    assert bare.round == 2


def test_the_anchor_of_a_seal_stays_as_long_as_it_can() -> None:
    bare = SealedByCalls()
    bare.publish()
    published = bare.registry.number - 1
    nonce = bare.nonce(bare.devices[0])
    assert bare.registry.ask("anchor") == published
    bare.registry.number = published + 201
    with reverts("the nonce does not solve the puzzle"):
        bare.send(bare.devices[0], "seal", 1, nonce)
    bare.registry.number = published + 200
    bare.send(bare.devices[0], "seal", 1, nonce)


def test_the_term_cap_and_the_ranking_hold_without_blocks_of_our_own() -> None:
    bare = SealedByCalls(replace(TERMS, contract_seal=True, term_cap=2))
    home = bare.servers[0]
    leaders = []
    for _ in range(6):
        leaders.append(bare.leader)
        bare.publish()
        bare.seal(bare.devices[0])
    terms = [len(list(rounds)) for leader, rounds in itertools.groupby(leaders) if leader == home]
    assert terms[0] == 2
    successor = next(s for s in bare.servers if bare.registry.ask("rank", address_of(s)) == 1)
    with reverts("not the leader of this attempt"):
        bare.send(successor, "plan", bare.round, 0, *named(b"x"))
    bare.begin_attempt(successor)
    bare.send(successor, "plan", bare.round, 1, *named(b"x"))


def test_a_later_attempt_starts_from_the_same_model_with_nothing_agreed() -> None:
    bare = SealedByCalls()
    bare.publish()
    assert bare.registry.ask("model_digest") != payload_digest(MODEL_0)
    successor = next(s for s in bare.servers if bare.registry.ask("rank", address_of(s)) == 1)
    (begun,) = bare.begin_attempt(successor)
    said = {"round": 1, "leader": address_of(successor), "attempt": 1}
    assert (begun.name, begun.arguments) == ("AttemptBegun", said)
    assert bare.registry.ask("model_digest") == payload_digest(MODEL_0)
    with reverts("this round has no model"):
        bare.seal(bare.devices[0])
    with reverts("not the leader of this attempt"):
        bare.send(bare.servers[0], "plan", 1, 1, *named(b"x"))


def test_where_blocks_are_sealed_nobody_seals_rounds(bench: Bench) -> None:
    device = bench.network.devices[0]
    with pytest.raises(NotRegistryCallError):
        bench.post(device, "seal", 1, bytes(8))
    bare = Bare()
    with reverts("here blocks are sealed, not rounds"):
        bare.send(bare.devices[0], "seal", 1, bytes(8))
