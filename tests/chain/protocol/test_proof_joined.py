"""Whose signatures count under a model (Q1, Q2): the founding's servers', and theirs who joined by final votes."""

from dataclasses import replace
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.errors import ProofError
from chain.node.access import LocalLedger
from chain.protocol.proof import FinalTransaction, ModelProof, check_model, proof_of
from chain.wire.blocks import Block
from tests.chain.network import Network, account, addresses, founded_node
from tests.chain.proofs import JOINED, ROUND, honest, index_of, indices_of, joining, proven, signed, with_model
from tests.chain.small_chain import NETWORK, NEW_DEVICE, NEW_SERVER, forged, story


def test_servers_that_join_with_one_block_are_both_followed_with_the_signatures_of_that_block() -> None:
    """Two of three signed it; two of five would not do. Under the next block three of five are needed."""
    network, new = Network(), [account("fourth server"), account("fifth server")]
    node = founded_node(network)
    known = addresses(network.servers)
    for each in new:
        for server in network.servers[:2]:
            network.post(node, server, "vote", address_of(each), address_of(each))
    network.run_round(node, endorsers=network.servers[:2])
    leader = next(each for each in network.servers + new if node.ask("rank", address_of(each)) == 0)
    network.run_round(node, leader=leader, endorsers=[network.servers[0], *new])
    proof = LocalLedger(node).model_proof(2)
    assert len(proof.joined) == 2
    assert check_model(proof, node.genesis, known).round == 2
    with pytest.raises(ProofError, match="block 3 is signed by 1 of 3 servers, expected at least 2"):
        check_model(ModelProof(proof.model), node.genesis, known)


@pytest.mark.parametrize("number", [0, 1])
def test_a_block_that_claims_to_be_the_founding_does_not_do_without_signatures(number: int) -> None:
    block = forged(with_model(account("stranger"), round_=0), block_number=number)
    with pytest.raises(ProofError, match=f"found block {number}, expected one after the founding: servers sign it"):
        proven(ModelProof(FinalTransaction(proof_of(block, 0), ())))


def test_without_the_vote_a_signature_of_the_new_server_does_not_count() -> None:
    two = [NEW_SERVER, NETWORK.servers[0]]
    with pytest.raises(ProofError, match="block 5 is signed by 1 of 3 servers, expected at least 2"):
        proven(replace(honest(signers=two), joined=()))
    assert proven(honest(signers=[*two, NETWORK.servers[1]])).round == ROUND


@pytest.mark.parametrize("count", [0, 1])
def test_a_vote_that_is_not_signed_by_a_majority_of_the_old_servers_makes_nobody_a_member(count: int) -> None:
    signers = [*NETWORK.servers[:count], NEW_SERVER]
    with pytest.raises(ProofError, match=f"block 3 is signed by {count} of 3 servers, expected at least 2"):
        proven(replace(honest(), joined=(joining(signers),)))


@pytest.mark.parametrize("number", [0, 1])
def test_a_vote_in_a_block_that_claims_to_be_the_founding_makes_nobody_a_member(number: int) -> None:
    """It needs no signatures: with it, anybody could make servers of his own a majority."""
    own = [account(f"sybil {i}") for i in range(4)]
    votes = tuple(FinalTransaction(proof_of(_joining_of(each, block_number=number), 0), ()) for each in own)
    proof = replace(honest(signers=own), joined=votes)
    with pytest.raises(ProofError, match=f"found (a vote in )?block {number}, expected one"):
        proven(proof)


def _joining_of(server: LocalAccount, **changes: Any) -> Block:
    """The block with the vote, which makes somebody else a member instead."""
    block, who = story().blocks[JOINED], address_of(NEW_SERVER)
    index = index_of(block, "Registered", participant=who, home=who)
    topic, other = bytes(12) + who, bytes(12) + address_of(server)
    receipt = block.receipts[index]
    logs = tuple(replace(log, topics=tuple(other if t == topic else t for t in log.topics)) for log in receipt.logs)
    return forged(block, [block.transactions[index]], [replace(receipt, logs=logs)], **changes)


def test_a_forged_vote_with_the_signature_of_one_server_makes_nobody_a_member() -> None:
    traitor, sybil = NETWORK.servers[0], account("sybil")
    vote = signed(proof_of(_joining_of(sybil), 0), [traitor, sybil])
    with pytest.raises(ProofError, match="block 3 is signed by 1 of 3 servers"):
        proven(replace(honest(signers=[traitor, sybil]), joined=(vote,)))


def test_a_vote_must_be_accepted_for_a_server_and_before_the_model() -> None:
    block, home = story().blocks[JOINED], address_of(NETWORK.servers[0])
    who = address_of(NEW_SERVER)
    device = index_of(block, "Registered", participant=address_of(NEW_DEVICE), home=home)
    first = indices_of(block, "Voted", participant=who, home=who)[0]
    for vote, message in (
        (signed(proof_of(block, device)), "joined as a device, expected a server"),
        (signed(proof_of(block, first)), "the receipt has no event Registered"),
        (signed(proof_of(story().blocks[7], 1)), "found a vote in block 7, expected one between"),
        (replace(joining(), proof=replace(joining().proof, index=0)), "do not lead"),
    ):
        with pytest.raises(ProofError, match=message):
            proven(replace(honest(), joined=(vote,)))
    with pytest.raises(ProofError, match="found a vote in block 3, expected one between the last and the model's"):
        proven(replace(honest(2), joined=(joining(),)))


def test_votes_come_in_the_order_of_their_blocks() -> None:
    late = signed(proof_of(_joining_of(account("sixth"), block_number=JOINED + 1), 0))
    assert proven(replace(honest(), joined=(joining(), late))).round == ROUND
    with pytest.raises(ProofError, match="found a vote in block 3, expected one between the last and the model's"):
        proven(replace(honest(), joined=(late, joining())))
