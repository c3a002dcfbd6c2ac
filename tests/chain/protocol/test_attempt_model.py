"""A round in every order of events (D3.2, Q1): small ones whole, larger ones by walks. `python -m benchmarks.attempts`
does more of the same.

1. Without a liar there is never a second final block. 2. With one there may be, and then its own signatures convict it.
3. No honest server is ever convicted. 4. Once a quorum of honest servers hears each other, the round ends.
"""

import random
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chain.protocol.endorsements import Endorsement, is_final, quorum
from chain.protocol.passes import Named, Pass
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.headers import Header
from tests.chain.protocol.attempt_faults import STUCK, UNSAFE
from tests.chain.protocol.attempt_model import (
    ROUND,
    Block,
    Message,
    Model,
    Rules,
    block,
    endorsement,
    server,
    to_pass,
    votes_of,
)
from tests.chain.protocol.attempt_search import Found, search, walks
from tests.chain.protocol.attempt_world import World, ends, one_step

LIARS = (None, 0, 1, 2)


def found_nothing(found: Found) -> bool:
    """Whether all was seen, and nothing wrong; else the way to it is shown."""
    assert not found.violation, f"{found.violation}\n{found.trace}"
    return found.is_complete


@pytest.mark.parametrize("liar", LIARS)
def test_three_servers_and_two_attempts_in_every_order(liar: int | None) -> None:
    assert found_nothing(search(Model(3, 2, liar), live_every=1))


def test_three_servers_and_three_attempts_without_a_liar_in_every_order() -> None:
    assert found_nothing(search(Model(3, 3), live_every=5))


@pytest.mark.parametrize("liar", [None, 0, 3])
def test_four_servers_and_two_attempts_in_every_order(liar: int | None) -> None:
    assert found_nothing(search(Model(4, 2, liar), live_every=20))


@pytest.mark.parametrize("servers", [3, 4, 5])
def test_a_leader_that_signs_both_blocks_does_not_stop_the_others(servers: int) -> None:
    assert found_nothing(search(Model(servers, 1, 0), live_every=1, leaves_convicted=False))


@pytest.mark.parametrize("servers", [3, 4, 5])
def test_messages_that_come_late_or_never_and_servers_that_crash(servers: int) -> None:
    found = walks(lambda rng: Model(servers, 4, rng.choice([None, *range(servers)])), range(60), steps=160)
    found_nothing(found)
    assert found.with_final > 0


# --- why the search may leave out who has received what


BLOCKS = [block(0, "A"), block(0, "B"), block(1, "A")]
ANYTHING: list[Message] = [
    *BLOCKS,
    *(endorsement(who, attempt, each) for who in range(4) for attempt in range(3) for each in BLOCKS),
    *(to_pass(who, attempt) for who in range(4) for attempt in (1, 2)),
    *(to_pass(who, a, (b, each)) for who in range(4) for a, b in ((1, 0), (2, 0), (2, 1)) for each in BLOCKS),
]
"""Blocks and statements, lawful or not"""


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_whoever_holds_more_may_do_more(share: float) -> None:
    rng, gained = random.Random(7), 0
    for _ in range(1000):
        held = [each for each in ANYTHING if rng.random() < share]
        servers, kept = rng.choice([3, 4]), rng.choice([0.5, 0.9])
        less, more = votes_of(servers, [each for each in held if rng.random() < kept]), votes_of(servers, held)
        for attempt in (1, 2):
            assert less.may_plan(attempt) <= more.may_plan(attempt)
            assert set(less.adoptable(attempt)) <= set(more.adoptable(attempt))
            assert set(less.choices(attempt)) <= set(more.choices(attempt))
            gained += len(more.adoptable(attempt)) - len(less.adoptable(attempt))
    assert gained > 50


def renamed(model: Model, exists: int, attempts: set[int]) -> int:
    """The signatures among these, with the two blocks of some attempts in each other's place."""
    names = {block(a, one).block_hash: block(a, other) for a in attempts for one, other in ("AB", "BA")}
    signatures = 0
    for each in model.held(exists):
        who = None if isinstance(each, Block) else model.signer(model.bit(each))
        if isinstance(each, Endorsement) and who is not None:
            given = names.get(each.block_hash, Block(0, each.block_hash))
            signatures |= model.bit(endorsement(who, each.attempt, given))
        elif isinstance(each, Pass) and who is not None:
            name = each.named and Named(each.named[0], names.get(each.named[1], Block(*each.named)).block_hash)
            signatures |= model.bit(to_pass(who, each.attempt, name))
    return signatures


def test_the_search_has_seen_whatever_a_walk_comes_to() -> None:
    model, reached = Model(3, 3), set()
    seen = search(model).seen
    for seed in range(60):
        rng, world = random.Random(seed), World.begin(model)
        for _ in range(120):
            one_step(world, rng)
            reached.add(world.exists)
    swaps = [{a for a in range(3) if bits >> a & 1} for bits in range(8)]
    assert all(any(renamed(model, each, swap) in seen for swap in swaps) for each in reached)
    assert len(reached) > 300


# --- the checks can fail


@pytest.mark.parametrize("fault", UNSAFE)
def test_a_fault_in_the_rules_makes_two_final_blocks_or_convicts_an_honest_server(fault: str) -> None:
    attempts, liar, rules = UNSAFE[fault]
    assert search(Model(3, attempts, liar, rules), 12_000).violation


def test_a_round_does_not_end_where_neither_of_two_blocks_is_adopted() -> None:
    rules = STUCK["two blocks of one leader, and neither is adopted"]
    found = search(Model(4, 1, 0, rules), live_every=1, leaves_convicted=False)
    assert "does not end" in found.violation


@pytest.mark.parametrize(
    "fault", ["any block of the attempt may be endorsed", "a restarted server has lost what it received"]
)
def test_a_fault_keeps_a_round_from_ending(fault: str) -> None:
    faulty = walks(lambda rng: Model(3, 3, rng.choice(LIARS), STUCK[fault]), range(30), steps=120)
    sound = walks(lambda rng: Model(3, 3, rng.choice(LIARS)), range(30), steps=120)
    assert "does not end" in faulty.violation
    assert not sound.violation  # on the same seeds


def test_a_node_that_keeps_two_passes_of_a_liar_may_miss_the_one_that_others_went_by() -> None:
    """The liar is 0. With its pass to 2 and that of 2, server 1 goes on to 3; server 2 has two others of the liar."""
    for most_kept, is_well in ((2, False), (None, True)):
        model = Model(3, 4, 0, Rules(most_kept=most_kept))
        world, lie = World.begin(model), [model.bit(to_pass(0, 2, (0, block(0, nonce)))) for nonce in "AB"]
        honest = [model.bit(to_pass(who, attempt)) for who, attempt in ((1, 1), (2, 1), (2, 2))]
        for bit in (*honest, *lie, empty := model.bit(to_pass(0, 2))):
            world.say(bit)
        for who, bits in ((1, [*honest, empty]), (2, [*honest, *lie])):
            for bit in bits:
                world.deliver(who, bit)
        last = model.bit(to_pass(1, 3))
        assert last in model.moves(1, world.known[1])
        world.say(last)
        assert ends(world) is is_well


# --- the same by hypothesis, which looks for short ways


class Round(RuleBasedStateMachine):
    """Servers, a liar perhaps, and a network that owes nobody anything."""

    @initialize(servers=st.integers(3, 5), liar=st.none() | st.integers(0, 4))
    def begin(self, servers: int, liar: int | None) -> None:
        self.model = Model(servers, 4, liar if liar is None else liar % servers)
        self.world = World.begin(self.model)

    def one(self, data: st.DataObject, options: list[int]) -> None:
        if options:
            self.world.say(data.draw(st.sampled_from(options)))

    @rule(data=st.data())
    def a_server_signs(self, data: st.DataObject) -> None:
        self.one(data, self.world.signable())

    @rule(data=st.data())
    def a_block_is_sealed(self, data: st.DataObject) -> None:
        self.one(data, self.world.sealable())

    @precondition(lambda self: self.model.liar is not None)
    @rule(data=st.data())
    def the_liar_signs(self, data: st.DataObject) -> None:
        self.one(data, self.world.lies())

    @rule(data=st.data())
    def messages_arrive(self, data: st.DataObject) -> None:
        if options := self.world.deliverable():
            for who, bit in data.draw(st.lists(st.sampled_from(options), min_size=1, unique=True)):
                self.world.deliver(who, bit)

    @rule(who=st.integers(0, 4))
    def a_server_crashes_or_comes_back(self, who: int) -> None:
        who %= self.model.servers
        (self.world.crash if who in self.world.up else self.world.restart)(who)

    @invariant()
    def nothing_is_violated(self) -> None:
        assert not self.model.violation(self.world.exists)

    @invariant()
    def final_is_what_the_program_calls_final(self) -> None:
        signed = [each for each in self.model.held(self.world.exists) if isinstance(each, Endorsement)]
        servers = [server(who) for who in range(self.model.servers)]
        hashes = {each.block_hash for each in signed}
        headers = {each: SimpleNamespace(block_number=ROUND + FOUNDING_BLOCK, hash=each) for each in hashes}
        final = {each for each in hashes if is_final(cast(Header, headers[each]), signed, servers)}
        assert final == self.model.finals(self.world.exists)

    def teardown(self) -> None:
        if len(self.world.up - {self.model.liar}) >= quorum(self.model.servers):
            assert ends(self.world)


TestRound = Round.TestCase
TestRound.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
