"""The ledger of a node in this process answers what the same node answers over JSON-RPC."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chain.client.keys import address_of, simulated_account
from chain.client.ledger import Ledger
from chain.errors import LedgerError, RevertedError
from chain.node.access import LocalLedger
from chain.node.node import Node
from chain.node.pool import PendingCall
from chain.protocol.contract import decode_call, encode_call
from chain.protocol.posts import Post, read_signed_call
from chain.protocol.proof import check_model
from chain.protocol.slots import Slot, iterate_slot
from chain.rpc.in_process import web3_in_process
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import SIZES, Network, addresses, founded_node, named, seal, sized

STEPS = 2


@dataclass(frozen=True)
class Both:
    """One node, asked in both ways."""

    network: Network
    node: Node
    near: LocalLedger
    far: Ledger

    def told(self, name: str, *arguments: Any) -> Any:
        """What both answer to a question; they must agree."""
        near, far = getattr(self.near, name)(*arguments), getattr(self.far, name)(*arguments)
        assert near == far, name
        assert payloads_of(near) == payloads_of(far), name
        return near


def payloads_of(found: Any) -> list[tuple[bool, bytes | None]]:
    """Whether and what is beside the posts among an answer."""
    posts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else [found]
    return [(post.is_here, post.payload) for post in posts if isinstance(post, Post)]


def both(**options: Any) -> Both:
    network = Network()
    node = founded_node(network, **options)
    return Both(network, node, LocalLedger(node), Ledger.of(web3_in_process(node), node.genesis.registry))


@pytest.fixture(scope="module")
def running() -> Iterator[Both]:
    """Two sealed rounds, and a third in which everything is posted, its iterates unlike those before."""
    found = both()
    for _ in range(2):
        found.network.run_round(found.node, endorsers=found.network.servers)
    found.network.post_round(found.node, steps=STEPS, iterate=lambda step: b"of step %d" % step)
    yield found
    found.node.close()


SLOTS = [
    Slot.PLAN,
    Slot.GRADIENT,
    Slot.CLOSE,
    Slot.MODEL,
    *range(Slot.ITERATE, iterate_slot(STEPS + 2)),
]


@pytest.mark.parametrize("round_", [1, 3, 4])
@pytest.mark.parametrize("slot", SLOTS)
def test_posts_of_running_sealed_and_coming_rounds_are_the_same(running: Both, round_: int, slot: int) -> None:
    found = running.told("posts", round_, slot)
    assert list(found) == sorted(found)
    steps = STEPS if round_ == 3 else 0
    is_there = round_ < 4 and (slot < Slot.ITERATE or slot - Slot.ITERATE <= steps)
    assert bool(found) == is_there or round_ < 3
    is_kept = round_ == 3 or slot < Slot.ITERATE  # iterates of a sealed round follow from its gradients
    assert {post.is_here for post in found.values()} <= {is_kept}


@pytest.mark.parametrize("round_", [1, 3, 4])
def test_everything_of_a_round_is_the_same_slot_by_slot(running: Both, round_: int) -> None:
    found = running.told("round_posts", round_)
    assert [post.slot for post in found] == sorted(post.slot for post in found)


def test_the_state_of_the_running_round_is_the_same(running: Both) -> None:
    assert running.told("round") == 3
    assert running.told("parent_hash") == running.node.head.hash
    assert running.told("attempt") == 0
    assert running.told("plan_digest") == next(iter(running.told("posts", 3, Slot.PLAN).values())).digest
    assert running.told("close_digest") == next(iter(running.told("posts", 3, Slot.CLOSE).values())).digest
    assert running.told("model_digest") == next(iter(running.told("posts", 3, Slot.MODEL).values())).digest
    running.told("parameters")
    running.told("participants")
    ranking = running.told("ranking")
    assert [running.told("leader", attempt) for attempt in range(4)] == [*ranking, ranking[0]]


def test_nonces_count_what_is_pending(running: Both) -> None:
    for account in (*running.network.servers, *running.network.devices):
        assert running.told("nonce", address_of(account)) >= 3


def test_nobody_is_excluded_and_nobody_has_contradicted_himself(running: Both) -> None:
    for account in (*running.network.servers, *running.network.devices):
        assert running.told("is_excluded", address_of(account)) is False
    assert running.told("conflicts") == []


def test_a_founded_network_without_rounds_answers_the_same() -> None:
    fresh = both()
    assert fresh.told("round") == 1
    assert fresh.told("round_posts", 1) == []
    assert fresh.told("attempt") == 0
    assert fresh.told("model", 0) is not None
    fresh.node.close()


def test_after_two_posts_for_one_slot_both_show_the_pair_and_the_exclusion_that_follows() -> None:
    found = both()
    network, node = found.network, found.node
    leader = network.post_round(node)
    liar = next(account for account in network.servers if account is not leader)
    genesis = node.genesis
    post = found.near.posts(1, Slot.ITERATE)[address_of(liar)]
    call = encode_call("iterate", 1, 0, 0, node.ask("close_digest"), *named(bytes(post.size)))
    raw = sign_transaction(
        liar, Envelope(genesis.chain_id, node.nonce(address_of(liar)), 5_000_000, genesis.registry), call
    )
    with pytest.raises(RevertedError, match="already posted"):
        found.near.access.send_raw(raw)
    ((first, second),) = found.told("conflicts")
    assert (first.sender, second.hash) == (address_of(liar), found.near.conflicts()[0][1].hash)
    node.pool.drop(next(iter(found.near.posts(1, Slot.MODEL).values())).transaction_hash)
    for account in network.servers:
        if account is not liar and not found.near.is_excluded(address_of(liar)):
            found.near.signed_by(account).submit_equivocation(1, first, second)
    assert found.told("is_excluded", address_of(liar)) is True
    assert found.told("flags", 1)[0].offender == address_of(liar)
    node.close()


# --- posting ----------------------------------------------------------------------------------------------------------


def test_what_is_posted_nearby_is_what_is_posted_from_afar() -> None:
    """The same calls on two nodes make the same transactions."""
    near, far = both(), both()
    leader = near.network.leader(near.node)
    sent = []
    for found in (near.near, far.far):
        ledger = found.signed_by(leader)
        sent.append([ledger.post(Slot.PLAN, 1, b"plan"), ledger.post(Slot.CLOSE, 1, b"close")])
    assert sent[0] == sent[1]
    assert near.near.posts(1, Slot.PLAN) == far.far.posts(1, Slot.PLAN)
    assert near.near.posts(1, Slot.CLOSE) == far.far.posts(1, Slot.CLOSE)
    near.node.close()
    far.node.close()


def test_a_post_without_its_payload_is_visible_to_both_and_says_nothing_yet() -> None:
    found = both()
    network, node = found.network, found.node
    network.post_plan(node)
    network.post_gradient(node, network.devices[0], b"late", is_beside=False)
    (post,) = found.told("posts", 1, Slot.GRADIENT).values()
    assert (post.is_here, post.payload, post.size) == (False, None, SIZES.gradient)
    node.deliver(post.digest, sized(b"late", SIZES.gradient))
    assert (post.is_here, post.payload) == (True, sized(b"late", SIZES.gradient))
    assert payloads_of(found.told("posts", 1, Slot.GRADIENT)) == [(True, post.payload)]
    found.node.close()


def test_a_ledger_without_a_key_is_for_reading(running: Both) -> None:
    with pytest.raises(LedgerError, match="this ledger is for reading"):
        running.near.post(Slot.PLAN, 3, b"plan")


def test_a_transaction_that_is_no_post_of_a_round_is_not_read_as_one(running: Both) -> None:
    founding = running.node.block(1)
    assert founding is not None
    creation = read_signed_call(founding.transactions[0], running.node.genesis)
    assert creation.post is None


# --- proofs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("round_", [1, 2])
def test_proofs_are_the_same_and_hold(running: Both, round_: int) -> None:
    proof = running.near.model_proof(round_)
    assert proof.to_json() == running.far.model_proof(round_).to_json()
    proven = check_model(proof, running.node.genesis, addresses(running.network.servers))
    assert (proven.round, proven.header) == (round_, running.node.header(round_ + 1))


@pytest.mark.parametrize("round_", [0, 3])
def test_what_is_not_sealed_has_no_proof(running: Both, round_: int) -> None:
    for ledger in (running.near, running.far):
        with pytest.raises(LedgerError, match=f"round {round_} has no sealed model"):
            ledger.model_proof(round_)


def test_what_is_sealed_and_not_final_has_no_proof() -> None:
    found = both()
    found.network.run_round(found.node, endorsers=found.network.servers[:1])
    for ledger in (found.near, found.far):
        with pytest.raises(LedgerError, match="round 1 is not final: too few servers have endorsed its block yet"):
            ledger.model_proof(1)
    found.node.close()


def test_a_proof_has_the_vote_that_made_a_server_a_member() -> None:
    found = both()
    network, node, new = found.network, found.node, simulated_account(b"tests", "new server")
    founders = addresses(network.servers)
    for server in network.servers[:2]:
        network.post(node, server, "vote", address_of(new), address_of(new))
    network.run_round(node, endorsers=network.servers)
    leader = next(each for each in (*network.servers, new) if node.ask("rank", address_of(each)) == 0)
    network.run_round(node, leader=leader, endorsers=(*network.servers[:2], new))
    assert found.near.model_proof(1).joined == found.far.model_proof(1).joined == ()
    near, far = found.near.model_proof(2), found.far.model_proof(2)
    assert near.to_json() == far.to_json()
    assert [each.header for each in near.joined] == [node.header(2)]
    assert check_model(near, node.genesis, founders).servers == {*founders, address_of(new)}
    node.close()


def test_a_model_that_was_reverted_is_not_the_one_that_is_proven() -> None:
    """Somebody else's model stands before the leader's in the block, and came to nothing."""
    found = both()
    network, node = found.network, found.node
    lowest = min(network.servers, key=address_of)
    while network.leader(node) is lowest:
        network.run_round(node, winner=network.devices[1])
    round_, leader = node.ask("round"), network.post_round(node)
    vain = read_signed_call(
        decode_transaction(network.signed(node, lowest, "model", round_, 0, bytes(32), *named(b"no"))), node.genesis
    )
    pool = node.pool
    first = next(iter(pool))
    pool._entries = {
        vain.transaction.hash: PendingCall(vain, first.outcome),
        **pool._entries,
    }  # a careless node lets it in
    node.deliver(payload_digest(b"no"), b"no")
    node.propose(address_of(leader))
    seal(node, address_of(network.devices[0]))
    network.endorse(node)
    block = node.block(round_ + 1)
    assert block is not None
    names = [decode_call(each.data).name for each in block.transactions]
    assert [r.status for r, name in zip(block.receipts, names, strict=True) if name == "model"] == [0, 1]
    near, far = found.near.model_proof(round_), found.far.model_proof(round_)
    assert near.to_json() == far.to_json()
    assert check_model(near, node.genesis, addresses(network.servers)).round == round_
    node.close()
