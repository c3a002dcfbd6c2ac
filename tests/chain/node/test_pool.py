"""What is pending: admitted and executed on arrival, bounded, in canonical order when a block is built (C2, C3, P5)."""

import random
from typing import Any

import pytest

from chain.client.keys import address_of
from chain.errors import (
    NonceError,
    OversizedTransactionError,
    PhaseOrderError,
    PoolFullError,
    RevertedError,
    SidecarSizeError,
    UnregisteredSenderError,
)
from chain.node import pool as pool_module
from chain.node.body import Body
from chain.node.node import Node
from chain.node.pool import Pool
from chain.protocol.genesis import RETARGET
from chain.protocol.posts import PHASES, read_signed_call
from chain.wire.sidecar import Sidecar, payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.network import SIZES, START, Clock, Network, account, founded_node, genesis, named, seal, sized


def hashes(node: Node) -> list[bytes]:
    return [entry.post.transaction.hash for entry in node.pending()]


def names(node: Node) -> list[str]:
    return [entry.post.call.name for entry in node.pending() if entry.post.call is not None]


def fresh(node: Node, **options: Any) -> Pool:
    """Another pool over the same database."""
    return Pool(node._store, node._now, **options)


def admit(pool: Pool, raw: bytes) -> bytes:
    """What a node does with a post that comes without its payload; returns its hash."""
    post = pool.read(raw)
    pool.admit(post, {})
    return post.transaction.hash


# --- admission


def test_what_is_admitted_is_executed_at_once_and_readable() -> None:
    network = Network()
    node = founded_node(network)
    posted = network.post_plan(node)
    entry = node.find_pending(posted)
    assert entry is not None
    assert (entry.outcome.status, len(entry.outcome.logs)) == (1, 1)
    assert node.ask("plan_digest") == payload_digest(b"plan")
    assert node.ask("plan_digest", header=node.head) == bytes(32)
    assert len(node.pool) == 1


def test_a_sender_hears_the_registrys_reason_at_once_and_may_try_again() -> None:
    network = Network()
    node = founded_node(network)
    with pytest.raises(RevertedError, match="gradient for another plan"):
        network.post_gradient(node, network.devices[0])
    network.post_plan(node)
    network.post_gradient(node, network.devices[0])
    assert names(node) == ["plan", "gradient"]


def test_pending_nonces_count() -> None:
    network = Network()
    node = founded_node(network)
    leader = network.leader(node)
    first = network.signed(node, leader, "plan", 1, 0, *named(b"p"))
    second = network.signed(node, leader, "close", 1, 0, payload_digest(b"p"), *named(b"c"), nonce=1)
    with pytest.raises(NonceError, match=r"found nonce 1 of 0x.*, expected 0"):
        node.submit(second)
    node.submit(first)
    node.submit(second)
    assert node.nonce(address_of(leader)) == 2
    assert node.nonce(address_of(leader), node.head) == 0


def test_nobody_becomes_a_member_by_being_asked_often() -> None:
    network = Network()
    node = founded_node(network)
    for _ in range(2):
        with pytest.raises(UnregisteredSenderError):
            network.post(node, account("stranger"), "vote", bytes(20), bytes(20))


def test_a_member_by_pending_votes_is_none_once_they_are_dropped() -> None:
    network, newcomer = Network(), account("newcomer")
    node = founded_node(network)
    home = address_of(network.servers[0])
    voters = [server for server in network.servers if server != network.leader(node)]
    votes = [network.post(node, server, "vote", address_of(newcomer), home) for server in voters]
    network.post_plan(node)
    network.post_gradient(node, newcomer)
    assert node.pool.drop(votes[1])
    assert names(node) == ["vote", "plan"]
    with pytest.raises(UnregisteredSenderError, match="is not registered"):
        network.post_gradient(node, newcomer)


# --- bounds


def test_the_pool_is_bounded_in_bytes() -> None:
    network = Network()
    node = founded_node(network)
    plan = network.signed(node, network.leader(node), "plan", 1, 0, *named(b"plan"))
    small = fresh(node, max_bytes=len(plan) + 100)
    admit(small, plan)
    other = network.signed(node, network.servers[0], "vote", bytes(20), bytes(20), nonce=7)
    with pytest.raises(PoolFullError, match=rf"holds 1 transactions of {len(plan)} bytes in all; it takes 4096 and"):
        admit(small, other)
    assert len(small) == 1


def test_the_pool_is_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAX_POOL_TRANSACTIONS", 3)
    network = Network()
    node = founded_node(network)
    network.post_plan(node)
    for device in network.devices[:2]:
        network.post_gradient(node, device)
    before = hashes(node)
    with pytest.raises(PoolFullError, match=r"holds 3 transactions .* it takes 3 and"):
        network.post_gradient(node, network.devices[2])
    assert hashes(node) == before
    node.propose(address_of(network.leader(node)))
    seal(node, address_of(network.devices[0]))
    network.post_plan(node)  # the next block made room


def test_room_is_given_back_when_something_goes() -> None:
    network = Network()
    node = founded_node(network)
    plan = network.signed(node, network.leader(node), "plan", 1, 0, *named(b"plan"))
    small = fresh(node, max_bytes=len(plan))
    for _ in range(3):
        assert small.drop(admit(small, plan))
    assert len(small) == 0
    assert not small.drop(b"\x01" * 32)


def test_the_gas_of_a_block_bounds_the_pool() -> None:
    network = Network()
    limit = genesis().gas_limit
    node = founded_node(network)
    network.post_plan(node, payload=b"plan")
    used = sum(entry.outcome.gas for entry in node.pending())
    gradient = network.gradient(node, bytes(SIZES.gradient))
    with pytest.raises(Exception, match=f"the block has {limit - used} left"):
        network.post(node, network.devices[0], "gradient", *gradient, gas=limit - used + 1)
    network.post(node, network.devices[0], "gradient", *gradient, gas=limit - used)


def test_a_post_of_another_size_than_was_founded_is_refused_before_it_is_executed() -> None:
    """The registry would refuse it too; the pool does so for nothing."""
    network = Network()
    node = founded_node(network)
    leader, device = network.leader(node), network.devices[0]
    largest = b"p" * SIZES.plan
    found = f"found {SIZES.plan + 1} bytes of plan, this network was founded with at most {SIZES.plan}"
    with pytest.raises(SidecarSizeError, match=found):
        network.post_plan(node, payload=largest + b"p")
    network.post_plan(node, leader, largest)
    for size in (SIZES.gradient - 1, SIZES.gradient + 1):
        found = f"found {size} bytes of gradient, this network was founded with {SIZES.gradient}$"
        with pytest.raises(SidecarSizeError, match=found):
            network.post(node, device, "gradient", *network.gradient(node, bytes(size)))
    assert names(node) == ["plan"]
    network.post_gradient(node, device)


def test_a_transaction_is_at_most_as_large_as_the_largest_post() -> None:
    """Refused by its length, before anything in it is read."""
    node = founded_node()
    most = 8192
    with pytest.raises(OversizedTransactionError, match=f"of {most + 1} bytes, expected at most {most}"):
        node.submit(bytes(most + 1))


# --- equivocation (P15)


def two_gradients(network: Network, node: Node, first: bytes, second: bytes) -> None:
    network.post_plan(node)
    network.post_gradient(node, network.devices[0], first)
    with pytest.raises(RevertedError, match="already posted"):
        network.post_gradient(node, network.devices[0], second)


def test_two_different_posts_for_one_slot_are_kept_as_evidence_the_registry_takes() -> None:
    network = Network()
    node = founded_node(network)
    two_gradients(network, node, b"one", b"another")
    ((first, second),) = node.pool.conflicts
    said = [payload_digest(sized(each, SIZES.gradient)) for each in (b"one", b"another")]
    assert [digest in each.data for digest, each in zip(said, (first, second), strict=True)] == [True, True]
    assert first.sender == second.sender == address_of(network.devices[0])
    evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
    network.post(node, network.servers[0], "flag_equivocation", 1, first.sender, *evidence)


def test_the_same_words_sent_again_are_no_lie() -> None:
    network = Network()
    node = founded_node(network)
    two_gradients(network, node, b"one", b"one")
    assert node.pool.conflicts == []


def test_one_liar_cannot_push_out_the_evidence_against_another() -> None:
    network = Network()
    node = founded_node(network)
    two_gradients(network, node, b"one", b"another")
    network.post_gradient(node, network.devices[1], b"honest once")
    for i in range(pool_module._KEPT_CONFLICTS + 1):
        with pytest.raises(RevertedError, match="already posted"):
            network.post_gradient(node, network.devices[1], b"lie %d" % i)
    assert [first.sender for first, _ in node.pool.conflicts] == [address_of(d) for d in network.devices[:2]]


def test_different_steps_rounds_and_senders_are_no_conflict() -> None:
    network = Network()
    node = founded_node(network)
    for _ in range(2):
        network.post_round(node, steps=2)
        assert node.pool.conflicts == []
        node.propose(address_of(network.leader(node)))
        seal(node, address_of(network.devices[0]))


def test_evidence_goes_with_its_round() -> None:
    network = Network()
    node = founded_node(network)
    two_gradients(network, node, b"one", b"another")
    node.propose(address_of(network.leader(node)))
    seal(node, address_of(network.devices[0]))
    assert node.pool.conflicts == []


# --- following the head (P5)


def test_sealing_drops_the_round_and_keeps_votes_and_posts_of_the_next() -> None:
    network, newcomer = Network(), account("newcomer")
    node = founded_node(network)
    leader = network.leader(node)
    network.post_plan(node, leader)
    network.post_close(node, leader)
    network.post_model(node, leader)
    node.propose(address_of(leader))
    voter, late_one = (server for server in network.servers if server != leader)
    vote = network.post(node, voter, "vote", address_of(newcomer), address_of(leader))
    late = network.post(node, late_one, "flag", 1, address_of(voter), 0, b"\1" * 32, bytes(32))
    assert {vote, late} < set(hashes(node))
    seal(node, address_of(network.devices[0]))
    assert hashes(node) == [vote]
    network.run_round(node)
    assert node.place(vote) is not None
    assert node.place(late) is None
    assert hashes(node) == []


def test_a_kept_post_that_no_longer_holds_is_dropped() -> None:
    """A vote whose nonce a sealed post of another copy of its sender took."""
    network, newcomer = Network(), account("newcomer")
    node, other = founded_node(network), founded_node(network)
    node.sources = [other]
    leader = network.leader(node)
    vote = network.post(node, leader, "vote", address_of(newcomer), address_of(leader))
    network.run_round(other)
    node.import_block(other.raw_block(2) or b"")
    assert node.find_pending(vote) is None
    network.run_round(node)


def test_a_vote_that_was_sealed_elsewhere_is_not_pending_any_more() -> None:
    network, newcomer = Network(), account("newcomer")
    node, other = founded_node(network), founded_node(network)
    leader = network.leader(node)
    raw = network.signed(node, leader, "vote", address_of(newcomer), address_of(leader))
    for each in (node, other):
        each.submit(raw)
    other.propose(address_of(leader))
    seal(other, address_of(network.devices[0]))
    node.import_block(other.raw_block(2) or b"")
    assert hashes(node) == []
    assert node.place(decode_transaction(raw).hash) == (2, 0)


# --- building


def test_drop_takes_what_needs_it_too() -> None:
    network = Network()
    node = founded_node(network)
    leader = network.post_round(node)
    (close,) = [e.post.transaction.hash for e in node.pending() if e.post.call and e.post.call.name == "close"]
    assert node.pool.drop(close)
    assert names(node) == ["plan"] + ["gradient"] * len(network.devices)
    assert not node.pool.drop(close)
    network.post_close(node, leader)


@pytest.mark.parametrize("seed", range(2))
def test_the_body_does_not_depend_on_the_order_of_arrival(seed: int) -> None:
    """In canonical order what was executed on arrival is reused, in any other it is executed again: same block."""
    network = Network()
    node = founded_node(network)
    leader = address_of(network.post_round(node, steps=2))
    raws = [entry.post.transaction.raw for entry in node.pending()]
    ordered, shuffled = fresh(node), fresh(node)
    for raw in [e.post.transaction.raw for e in sorted(node.pending(), key=lambda entry: entry.post.place)]:
        admit(ordered, raw)
    arrive_in_any_order(shuffled, raws, random.Random(seed))
    assert len(ordered) == len(shuffled) == len(raws)
    reused = ordered.body(leader, START)
    assert reused.execution is ordered.execution
    executed = shuffled.body(leader, START)
    assert executed.execution is not shuffled.execution
    assert [p.transaction for p in executed.posts] == [p.transaction for p in reused.posts]
    assert executed.receipts == reused.receipts
    assert executed.execution.state_root() == reused.execution.state_root()


def arrive_in_any_order(pool: Pool, raws: list[bytes], rng: random.Random) -> None:
    """Shuffled as far as the registry allows: phase by phase, and what comes before an earlier nonce is sent again."""
    for phase in PHASES:
        waiting = [raw for raw in raws if read_signed_call(decode_transaction(raw), genesis()).phase == phase]
        while waiting:
            rng.shuffle(waiting)
            waiting = [raw for raw in waiting if not is_admitted(pool, raw)]


def is_admitted(pool: Pool, raw: bytes) -> bool:
    try:
        admit(pool, raw)
    except NonceError:
        return False
    return True


def test_calls_refusals_and_second_candidates_do_not_change_the_body() -> None:
    network = Network()
    quiet, noisy = founded_node(network), founded_node(network)
    leader = address_of(network.leader(quiet))
    network.post_round(quiet)
    for entry in quiet.pending():
        beside = [quiet.payload(each.digest) for each in entry.post.commitments]
        noisy.submit(entry.post.transaction.raw, [Sidecar(each) for each in beside if each is not None])
        noisy.ask("rank", leader)
        with pytest.raises(RevertedError):
            network.post(noisy, network.devices[0], "close", 1, 0, noisy.ask("plan_digest"), *named(b"x"))
        noisy.propose(leader)
    assert noisy.propose(leader) == quiet.propose(leader)


@pytest.mark.parametrize("attempt", [0, 1])
def test_no_post_looks_at_the_time_or_the_builder_so_nothing_is_executed_twice(attempt: int) -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock)
    if attempt:
        network.begin_attempt(node, attempt)
    leader = network.post_round(node)
    clock.pass_s(1000)
    assert not node.pool.execution.depends_on_builder
    posts = sorted((entry.post for entry in node.pool), key=lambda post: post.place)
    bodies = [
        Body.executed(node._store, node.head, posts, address_of(leader), START + seconds) for seconds in (0, 1, 10**6)
    ]
    roots = {body.execution.state_root() for body in bodies}
    assert len(roots) == 1, "times do not alter the state root (D3.4)"
    assert len({body.receipts for body in bodies}) == 1
    assert all(receipt.status == 1 for body in bodies for receipt in body.receipts)


def test_a_post_that_only_held_in_the_order_of_arrival_is_in_the_block_reverted() -> None:
    """Flags stand before the model: a leader that is excluded publishes nothing, though its model came first."""
    network = Network()
    node = founded_node(network)
    leader = network.post_round(node)
    others = [server for server in network.servers if server != leader]
    for server in others:
        flag = (1, address_of(leader), 3, b"\1" * 32, payload_digest(b"expected"))
        network.post(node, server, "flag", *flag)
    assert node.ask("is_excluded", address_of(leader))
    body = node.pool.body(address_of(leader), START)
    reverted = [p.call.name for p, r in zip(body.posts, body.receipts, strict=True) if p.call and not r.status]
    assert reverted == ["model"]
    assert len(body.posts) == len(names(node))


def test_posts_of_an_earlier_phase_than_the_senders_last_are_refused() -> None:
    """Sorted into the block they would leave a gap in the sender's nonces, and all it posted would vanish."""
    network = Network()
    node = founded_node(network)
    leader = network.leader(node)
    network.post_plan(node, leader)
    network.post_close(node, leader)
    before = hashes(node)
    with pytest.raises(PhaseOrderError, match=r"found a post of phase plan .* has posted phase close"):
        network.post(node, leader, "vote", address_of(account("newcomer")), address_of(leader))
    assert hashes(node) == before
    network.post_model(node, leader)
    assert len(node.pool.body(address_of(leader), START).posts) == 3


def test_a_retarget_is_computed_for_the_time_of_the_block() -> None:
    network, clock = Network(), Clock()
    node = founded_node(network, clock, rules=genesis(difficulty=800, difficulty_rule=RETARGET))
    network.post_round(node)
    clock.pass_s(20)
    assert node.propose(address_of(network.leader(node))).difficulty == 900 - 900 // 8
