"""Attempts at a round in a node (D3.1, D3.2): what a majority passed by is left, and what it adopts becomes final."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import (
    ChainError,
    ConflictError,
    EndorsementError,
    InvalidBlockError,
    LeaderError,
    NonceError,
    PassError,
    RevertedError,
    TransactionOrderError,
    WaitingBlockError,
    WorkError,
)
from chain.node.candidates import FRESH_S
from chain.node.node import Node
from chain.protocol.endorsements import Domain, Endorsement, endorse
from chain.protocol.genesis import RETARGET
from chain.protocol.passes import Named, Pass, begun_call, sign_pass
from chain.wire.blocks import encode_block
from chain.wire.headers import Header
from chain.wire.seal import find_nonce
from chain.wire.sidecar import Sidecar, payload_digest
from tests.chain.endorsing import endorse_call, signed
from tests.chain.network import (
    SIZES,
    Clock,
    Network,
    account,
    endorsements_of,
    founded_node,
    genesis,
    named,
    passes_of,
    seal,
    sized,
)
from tests.chain.small_chain import executed
from tests.chain.small_chain import signed as call_signed
from tests.chain.store.faults import killed_at_every_statement

NETWORK = Network()
SERVERS = NETWORK.servers


def sealed(node: Node, attempt: int = 0, plan: bytes = b"plan") -> Header:
    """A short round of an attempt."""
    if attempt:
        NETWORK.begin_attempt(node, attempt)
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader, plan)
    node.propose(address_of(leader))
    return seal(node, address_of(NETWORK.devices[0]))


def names(node: Node) -> list[str]:
    return [entry.post.call.name for entry in node.pending() if entry.post.call is not None]


def other_than(*servers: LocalAccount) -> LocalAccount:
    return next(each for each in SERVERS if each not in servers)


# --- the pool


def test_a_certificate_drops_the_posts_of_lower_attempts_and_their_payloads() -> None:
    node = founded_node(NETWORK)
    NETWORK.post_round(node)
    gradient = payload_digest(sized(b"gradient", SIZES.gradient))
    assert node.has_payload(gradient)
    NETWORK.begin_attempt(node)
    assert names(node) == ["begin_attempt"]
    assert (node.pool.attempt, node.ask("attempt")) == (1, 1)
    for digest in (gradient, payload_digest(b"plan"), payload_digest(b"close")):
        assert not node.has_payload(digest)
    assert node.wanted() == []
    NETWORK.post_round(node)
    NETWORK.begin_attempt(node, 5)
    assert names(node) == ["begin_attempt"]
    assert node.pool.attempt == 5


def test_votes_flags_and_endorsements_go_too_or_nonces_would_differ_from_node_to_node() -> None:
    node = founded_node(NETWORK)
    first = sealed(node)
    leader, successor = NETWORK.leader(node, 0), NETWORK.leader(node, 1)
    third, newcomer = other_than(leader, successor), account("newcomer")
    NETWORK.post(node, NETWORK.devices[0], "endorse", *endorse_call(SERVERS[:2], 1, first.hash))
    NETWORK.post(node, third, "vote", address_of(newcomer), address_of(leader))
    NETWORK.post_plan(node, leader)
    NETWORK.post(node, third, "flag", 2, address_of(NETWORK.devices[1]), 1, b"\1" * 32, bytes(32))
    NETWORK.post(node, leader, "flag", 2, address_of(NETWORK.devices[1]), 1, b"\1" * 32, bytes(32))
    NETWORK.begin_attempt(node)
    assert names(node) == ["begin_attempt"]
    NETWORK.post(node, third, "vote", address_of(newcomer), address_of(leader))
    assert names(node) == ["begin_attempt", "vote"]


def test_the_leader_s_own_votes_are_posted_again_behind_its_certificate() -> None:
    """Its certificate has the nonce that was sealed last: what it had posted under that nonce is gone."""
    node = founded_node(NETWORK)
    successor, newcomer = NETWORK.leader(node, 1), account("newcomer")
    vote = NETWORK.post(node, successor, "vote", address_of(newcomer), address_of(successor))
    NETWORK.begin_attempt(node)
    assert node.find_pending(vote) is None
    NETWORK.post(node, successor, "vote", address_of(newcomer), address_of(successor))
    assert names(node) == ["begin_attempt", "vote"]


def test_a_refused_certificate_leaves_everything_as_it_was() -> None:
    node = founded_node(NETWORK)
    leader = NETWORK.post_round(node)
    header = node.propose(address_of(leader))
    before, state = [entry.post.transaction.hash for entry in node.pending()], node.ask("model_digest")
    work = node.work(address_of(NETWORK.devices[0]))
    with pytest.raises(RevertedError, match="no majority passed"):
        NETWORK.begin_attempt(node, servers=SERVERS[:1])
    with pytest.raises(RevertedError, match="not the leader of this attempt"):
        NETWORK.begin_attempt(node, leader=leader)
    said = begun_call(NETWORK.passes(node))
    with pytest.raises(NonceError):
        NETWORK.post(node, NETWORK.leader(node, 1), "begin_attempt", *said, nonce=7)
    assert [entry.post.transaction.hash for entry in node.pending()] == before
    assert (node.ask("attempt"), node.ask("model_digest")) == (0, state)
    assert node.has_payload(payload_digest(sized(b"gradient", SIZES.gradient)))
    assert node.work(address_of(NETWORK.devices[0])) == work == header.for_winner(address_of(NETWORK.devices[0]))
    assert seal(node, address_of(NETWORK.devices[0])) == node.head


def test_a_lower_or_the_same_attempt_changes_nothing() -> None:
    node = founded_node(NETWORK)
    NETWORK.begin_attempt(node, 3)
    NETWORK.post_plan(node)
    before = names(node)
    for attempt in (1, 2):
        with pytest.raises(RevertedError, match="not a later attempt"):
            NETWORK.begin_attempt(node, attempt)
    assert names(node) == before


def test_two_things_said_in_one_attempt_are_evidence_and_in_two_they_are_none() -> None:
    node = founded_node(NETWORK)
    device = NETWORK.devices[0]
    NETWORK.post_plan(node)
    NETWORK.post_gradient(node, device, b"one")
    NETWORK.begin_attempt(node)
    NETWORK.post_plan(node)
    NETWORK.post_gradient(node, device, b"other")
    assert node.pool.conflicts == []
    with pytest.raises(RevertedError, match="already posted"):
        NETWORK.post_gradient(node, device, b"a third")
    assert len(node.pool.conflicts) == 1


# --- blocks that a majority has passed by


def test_a_late_block_of_attempt_0_is_kept_and_never_head() -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    late = sealed(other)
    NETWORK.pass_on(node, servers=SERVERS[1:])
    node.sources = [other]
    node.import_block(other.raw_block(2) or b"")
    assert node.header(late.hash) == late
    assert node.head.block_number == 1
    assert node.attempt_of(late.hash) == 0
    header = sealed(node, 1)
    assert (node.head, node.attempt_of(header.hash)) == (header, 1)
    assert node.attempt_of(bytes(32)) is None


def test_a_head_that_a_majority_passes_by_is_left_and_its_posts_too() -> None:
    node = founded_node(NETWORK)
    newcomer = account("newcomer")
    vote = NETWORK.post(node, SERVERS[2], "vote", address_of(newcomer), address_of(SERVERS[2]))
    NETWORK.post_round(node)
    node.propose(address_of(NETWORK.leader(node)))
    dead = seal(node, address_of(NETWORK.devices[0]))
    NETWORK.pass_on(node, servers=SERVERS[:1], round_=1)
    assert node.head == dead
    NETWORK.pass_on(node, servers=SERVERS[1:2], round_=1)
    assert node.head.block_number == 1
    assert node.ask("round") == 1
    NETWORK.begin_attempt(node)
    assert "gradient" not in names(node)
    assert node.find_pending(vote) is None, "its voter posts it again"
    header = sealed_here(node)
    assert node.head == header != dead
    assert node.attempt_of(header.hash) == 1


def sealed_here(node: Node) -> Header:
    """A short round of the attempt that has begun."""
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    node.propose(address_of(leader))
    return seal(node, address_of(NETWORK.devices[0]))


def test_a_dead_block_takes_what_was_built_on_it_along() -> None:
    node = founded_node(NETWORK)
    dead = sealed(node)
    sealed(node)
    assert node.head.block_number == 3
    NETWORK.pass_on(node, servers=SERVERS[:2], round_=1)
    assert node.head.block_number == 1, f"block 3 is on 0x{dead.hash.hex()}, which never becomes final"


def test_what_is_built_on_a_dead_block_is_never_head() -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    sealed(other)
    sealed(other)
    NETWORK.pass_on(node, servers=SERVERS[:2], round_=1)
    node.sources = [other]
    for number in (2, 3):
        node.import_block(other.raw_block(number) or b"")
    assert node.header(other.head.hash) is not None
    assert node.head.block_number == 1


def test_endorsements_of_two_attempts_beside_a_final_block_are_no_second_majority() -> None:
    node = founded_node(NETWORK)
    head = sealed(node)
    for each in endorsements_of(head, SERVERS[:2]):
        node.take_endorsement(each)
    other = b"\7" * 32
    node.take_endorsement(signed(SERVERS[2:], 1, other)[0])
    node.take_endorsement(signed(SERVERS[:1], 1, other, attempt=1)[0])
    assert node.final == head
    with pytest.raises(ConflictError, match="two majorities"):
        node.take_endorsement(signed(SERVERS[2:], 1, other, attempt=1)[0])


def test_a_majority_that_names_a_block_leaves_it_alone() -> None:
    node = founded_node(NETWORK)
    head = sealed(node)
    for each in passes_of(1, 1, SERVERS[:2], Named(0, head.hash)):
        node.take_pass(each)
    NETWORK.pass_on(node, servers=SERVERS[2:], round_=1)
    assert node.head == head


def test_what_is_final_is_never_left() -> None:
    node = founded_node(NETWORK)
    head = sealed(node)
    for each in endorsements_of(head, SERVERS[:2]):
        node.take_endorsement(each)
    NETWORK.pass_on(node, round_=1)  # two of them lie, which convicts them
    assert node.head == node.final == head
    assert {first.signer for first, _ in node.contradictions()} == {address_of(each) for each in SERVERS[:2]}


def test_a_block_of_a_later_attempt_that_was_passed_by_is_dead_as_well() -> None:
    node = founded_node(NETWORK)
    NETWORK.pass_on(node)
    sealed(node, 1)
    assert node.head.block_number == 2
    NETWORK.pass_on(node, 2, SERVERS[:2], round_=1)
    assert node.head.block_number == 1
    second = sealed(node, 2)
    assert node.head == second, "its own attempt is not above it"


# --- adopting


def test_an_adopted_block_becomes_final_by_fresh_endorsements_of_its_attempt_alone() -> None:
    node = founded_node(NETWORK)
    head = sealed(node)
    node.take_endorsement(endorsements_of(head, SERVERS[:1])[0])
    for each in endorsements_of(head, SERVERS[1:2], attempt=1):
        node.take_endorsement(each)
    assert node.final.block_number == 1, "endorsements of different attempts are never added"
    for each in endorsements_of(head, SERVERS[2:], attempt=1):
        node.take_endorsement(each)
    assert node.final == head
    endorsements, passes = node.votes(1)
    assert sorted(each.attempt for each in endorsements) == [0, 1, 1]
    assert passes == []


def test_majorities_of_two_attempts_for_a_block_that_is_not_here_are_not_added() -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    header = sealed(other, plan=b"elsewhere")
    node.take_endorsement(endorsements_of(header, SERVERS[:1])[0])
    node.take_endorsement(endorsements_of(header, SERVERS[1:2], attempt=1)[0])
    sealed(node)  # nothing is missing yet
    node.take_endorsement(endorsements_of(header, SERVERS[2:], attempt=1)[0])
    with pytest.raises(EndorsementError, match="a majority has endorsed block"):
        node.propose(address_of(NETWORK.leader(node)))


# --- imports


def test_a_block_of_a_later_attempt_is_imported_and_waits_for_its_payloads_like_any_other() -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    NETWORK.begin_attempt(other)
    leader = NETWORK.post_round(other)
    other.propose(address_of(leader))
    header = seal(other, address_of(NETWORK.devices[0]))
    raw = other.raw_block(2) or b""
    with pytest.raises(WaitingBlockError, match="block 2 waits for"):
        node.import_block(raw)
    for wanted in node.wanted():
        payload = other.payload(wanted.digest)
        assert payload is not None
        node.deliver(wanted.digest, payload)
    assert node.head == header
    assert node.attempt_of(header.hash) == 1


def test_a_block_with_posts_of_another_attempt_than_its_certificate_is_refused() -> None:
    node, other = founded_node(NETWORK), founded_node(NETWORK)
    first, second = NETWORK.leader(other, 0), NETWORK.leader(other, 1)
    begin = NETWORK.signed(other, second, "begin_attempt", *begun_call(NETWORK.passes(other)))
    few = NETWORK.signed(other, second, "begin_attempt", *begun_call(NETWORK.passes(other, servers=SERVERS[:1])))
    plans = [call_signed(second, 1, "plan", 1, attempt, *named(b"plan")) for attempt in (0, 1, 2)]
    device = NETWORK.devices[0]
    for raw, leader, error in (
        ([begin, plans[0]], second, TransactionOrderError),
        ([begin, plans[2]], second, TransactionOrderError),
        ([plans[1]], second, InvalidBlockError),
        ([few, plans[1]], second, LeaderError),
        ([few], first, None),
        ([begin], first, LeaderError),
    ):
        try:
            made = executed(other, raw, leader, device)
        except ChainError:
            continue  # nobody can even execute it: a gap in the nonces
        block = encode_block(made.header, made.transactions)
        if error is not None:
            with pytest.raises(error):
                node.import_block(block, [Sidecar(b"plan")])
    assert node.head.block_number == 1
    made = executed(other, [begin, plans[1]], second, device)
    assert node.import_block(encode_block(made.header, made.transactions), [Sidecar(b"plan")]) == made.header


# --- bounds


def test_passes_are_of_servers_and_of_rounds_near_the_head() -> None:
    node = founded_node(NETWORK)
    for who in (account("stranger"), NETWORK.devices[0]):
        with pytest.raises(PassError, match="passes in round 1 and is no edge server"):
            node.take_pass(passes_of(1, 1, [who])[0])
    for round_ in (0, 6, 2**63):
        with pytest.raises(PassError, match=f"found a pass in round {round_}, the last final one is 0"):
            node.take_pass(passes_of(round_, 1, SERVERS[:1])[0])
    for round_ in (1, 5):
        assert node.take_pass(passes_of(round_, 1, SERVERS[:1])[0])
    assert not node.take_pass(passes_of(1, 1, SERVERS[:1])[0])
    assert not node.take_pass(replace(passes_of(1, 1, SERVERS[:1])[0]))
    again = sign_pass(SERVERS[0], Domain.of(node.genesis), 1, 1, None, 7)
    assert not node.take_pass(again), "another time tells nothing new"


def test_what_is_signed_for_a_time_that_has_not_come_is_refused_until_it_has() -> None:
    """Deadlines count from the latest time of a majority (D3.3): one server could make everybody wait for it."""
    clock = Clock()
    node = founded_node(NETWORK, clock)
    domain, latest = Domain.of(node.genesis), int(1000 * (clock() + node.genesis.max_drift_s))
    block = sealed(node)
    for ahead, is_early in ((0, False), (1, True)):
        given = sign_pass(SERVERS[ahead], domain, 1, 1, None, latest + ahead)
        signature = endorse(SERVERS[ahead], domain, 1, 0, block.hash, latest + ahead)
        if is_early:
            with pytest.raises(PassError, match="passes on at a time that has not come: check both clocks"):
                node.take_pass(given)
            with pytest.raises(EndorsementError, match="signs for a time that has not come: check both clocks"):
                node.take_endorsement(signature)
            clock.pass_s(1)
        assert node.take_pass(given)
        assert node.take_endorsement(signature)


def test_passes_to_an_attempt_come_after_a_majority_passed_to_the_one_below() -> None:
    node = founded_node(NETWORK)
    with pytest.raises(PassError, match="found a pass to attempt 2 of round 1, before the one below began"):
        node.take_pass(passes_of(1, 2, SERVERS[:1])[0])
    NETWORK.pass_on(node, 1, SERVERS[:1])
    with pytest.raises(PassError, match="before the one below began"):
        node.take_pass(passes_of(1, 2, SERVERS[:1])[0])
    NETWORK.pass_on(node, 1, SERVERS[1:2])
    assert NETWORK.pass_on(node, 2, SERVERS)
    assert NETWORK.pass_on(node, 3, SERVERS[:1])


def test_of_a_server_that_passes_twice_two_passes_are_kept() -> None:
    node = founded_node(NETWORK)
    for block in (None, Named(0, b"\1" * 32)):
        assert node.take_pass(passes_of(1, 1, SERVERS[:1], block)[0])
    with pytest.raises(PassError, match="has passed twice to attempt 1 of round 1 already"):
        node.take_pass(passes_of(1, 1, SERVERS[:1], Named(0, b"\2" * 32))[0])
    ((first, second),) = node.contradictions()
    assert isinstance(first, Pass)
    assert isinstance(second, Pass)
    assert first.contradicts(second)


def test_endorsements_of_attempts_that_nobody_knows_are_bounded_per_server() -> None:
    node = founded_node(NETWORK)
    header = sealed(node)
    for attempt in range(16):
        node.take_endorsement(endorsements_of(header, SERVERS[:1], attempt=attempt)[0])
    with pytest.raises(EndorsementError, match="has signed 16 attempts at round 1 already"):
        node.take_endorsement(endorsements_of(header, SERVERS[:1], attempt=2**32 - 1)[0])
    node.take_endorsement(endorsements_of(header, SERVERS[1:2], attempt=20)[0])


def test_what_a_server_hides_is_found() -> None:
    node = founded_node(NETWORK)
    header = sealed(node)
    node.take_endorsement(endorsements_of(header, SERVERS[:1])[0])
    node.take_pass(passes_of(1, 1, SERVERS[:1])[0])
    ((endorsed, passed),) = node.contradictions()
    assert isinstance(endorsed, Endorsement)
    assert isinstance(passed, Pass)
    assert passed.hides(endorsed)
    assert node.contradictions(2) == []


def test_passes_stay_after_a_restart(tmp_path: Path) -> None:
    node = Node.create(tmp_path / "chain.db", genesis(), now=Clock())
    NETWORK.found(node)
    sealed(node)
    NETWORK.pass_on(node, servers=SERVERS[:2], round_=1)
    assert node.head.block_number == 1
    node.close()
    again = Node.open(tmp_path / "chain.db", now=Clock())
    assert again.head.block_number == 1
    assert len(again.votes(1)[1]) == 2
    again.close()


# --- crashes


def test_whoever_dies_while_it_leaves_a_dead_head_is_on_it_or_before_it_and_leaves_it_when_told_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chain.db"
    first, second = passes_of(1, 1, SERVERS[:2])
    with closing(Node.create(path, genesis(), now=Clock())) as node:
        NETWORK.found(node)
        sealed(node)
    deaths = 0
    for again in killed_at_every_statement(
        path, Clock(), lambda node: node.take_pass(first), lambda node: node.take_pass(second)
    ):
        deaths += 1
        assert (again.head.block_number, len(again.votes(1)[1])) in ((2, 1), (1, 2)), deaths
        again.take_pass(second)
        assert again.head.block_number == 1
    assert deaths > 3


# --- fresh work (D3.4)


def test_work_is_refreshed_every_second_and_the_last_thirty_are_accepted() -> None:
    clock = Clock()
    node, device = founded_node(NETWORK, clock), address_of(NETWORK.devices[0])
    NETWORK.post_round(node)
    proposed = node.propose(address_of(NETWORK.leader(node)))
    works = {}
    for _ in range(FRESH_S + 10):
        clock.pass_s(1)
        works[int(clock.now)] = node.work(device)
        assert works[int(clock.now)] == node.work(device)
    now = int(clock.now)
    assert [work.timestamp for work in works.values()] == list(works)
    assert len({work.mining_hash for work in works.values()}) == FRESH_S + 10
    assert {work.state_root for work in works.values()} == {proposed.state_root}
    for second in (now - FRESH_S, now - FRESH_S - 5):
        stale = works[second]
        with pytest.raises(WorkError, match="ask for new work"):
            node.submit_work(stale.mining_hash, nonce_of(stale), device)
    with pytest.raises(WorkError, match="ask for new work"):  # handed to somebody else
        node.submit_work(works[now].mining_hash, nonce_of(works[now]), address_of(NETWORK.devices[1]))
    oldest = works[now - FRESH_S + 1]
    assert node.submit_work(oldest.mining_hash, nonce_of(oldest), device).timestamp == now - FRESH_S + 1
    replica = Node.in_memory(node.genesis, now=clock)
    replica.sources = [node]
    assert [replica.import_block(node.raw_block(number) or b"") for number in (1, 2)][1] == node.head


def nonce_of(work: Header) -> bytes:
    found = find_nonce(work.mining_hash, work.difficulty)
    assert found is not None
    return found


def test_a_clock_that_goes_back_gives_no_time_before_the_proposal() -> None:
    clock = Clock()
    node, device = founded_node(NETWORK, clock), address_of(NETWORK.devices[0])
    NETWORK.post_plan(node)
    clock.pass_s(10)
    proposed = node.propose(address_of(NETWORK.leader(node)))
    clock.pass_s(-5)
    assert node.work(device) == proposed.for_winner(device)
    assert seal(node, device).timestamp == proposed.timestamp


def test_the_block_of_a_long_search_has_the_difficulty_of_its_time() -> None:
    """A device that searches for long mines a later second, at that second's difficulty: any node takes the block."""
    clock = Clock()
    rules = genesis(difficulty=800, difficulty_rule=RETARGET)
    node, device = founded_node(NETWORK, clock, rules=rules), address_of(NETWORK.devices[0])
    NETWORK.post_plan(node)
    node.propose(address_of(NETWORK.leader(node)))
    clock.pass_s(25)
    work = node.work(device)
    header = node.submit_work(work.mining_hash, nonce_of(work), device)
    replica = Node.in_memory(node.genesis, now=clock)
    replica.sources = [node]
    assert [replica.import_block(node.raw_block(number) or b"") for number in (1, 2)][1] == header
