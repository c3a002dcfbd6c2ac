"""Model proofs (P16): what an honest node hands out is accepted without a node, in any form it may travel in."""

import json
from collections.abc import Iterator

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import LedgerError, ProofError, RpcError
from chain.node.node import Node
from chain.protocol.proof import ModelProof, ProvenModel, TransactionProof, check_model, check_transaction, proof_of
from chain.protocol.slots import Slot
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import payload_digest
from tests.chain.network import Clock, Network, founded_node, seal
from tests.chain.small_chain import NETWORK, model_of, story

HEAD = 7
WAYS = ("in-process", "http")


@pytest.fixture(scope="module", params=WAYS)
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """The small chain behind a node, read over one of the ways to it."""
    node = Node.open(story().write(tmp_path_factory.mktemp("node")), now=Clock())
    if request.param == "http":
        with RpcServer(node, ServerParams(port=0)) as url:
            yield Ledger.connect(url, story().genesis.registry)
    else:
        yield Ledger.of(web3_in_process(node), story().genesis.registry)
    node.close()


def checked(proof: ModelProof, known_number: int) -> ProvenModel:
    """What the proof proves to a device that knows one block of the small chain and who takes part in it."""
    round_ = proof.model.header.block_number - 1
    return check_model(proof, story().headers[known_number].hash, story().genesis, story().membership(round_))


@pytest.mark.parametrize("round_", [1, 4, 5])
def test_a_model_is_proven_whatever_block_is_known(ledger: Ledger, round_: int) -> None:
    for known in (0, 1, round_, round_ + 1, round_ + 2, HEAD):
        proven = checked(ledger.model_proof(round_, known), known)
        assert (proven.round, proven.digest) == (round_, payload_digest(model_of(round_)))
        assert proven.header == story().headers[round_ + 1]
        post = ledger.model(round_)
        assert post is not None
        assert proven.leader == post.sender


def test_a_proof_has_the_headers_it_needs_and_no_more(ledger: Ledger) -> None:
    def numbers(round_: int, known: int) -> list[int]:
        return [header.block_number for header in ledger.model_proof(round_, known).headers]

    assert numbers(1, 2) == [0, 1, 2]
    assert numbers(1, HEAD) == list(range(HEAD + 1))
    assert numbers(5, 6) == [2, 3, 4, 5, 6], "block - term cap - 1 on"
    assert numbers(5, 0) == [0, 1, 2, 3, 4, 5, 6]


def test_a_proof_survives_json(ledger: Ledger) -> None:
    proof = ledger.model_proof(4, HEAD)
    again = ModelProof.from_json(json.loads(json.dumps(proof.to_json())))
    assert again == proof
    assert checked(again, HEAD) == checked(proof, HEAD)


def test_exclusions_in_force_are_part_of_the_proof(ledger: Ledger) -> None:
    counts = {round_: len(ledger.model_proof(round_, HEAD).exclusions) for round_ in (1, 2, 3, 4, 5)}
    assert counts == {1: 0, 2: 0, 3: 1, 4: 1, 5: 1}


def test_without_the_exclusion_the_successor_was_too_early(ledger: Ledger) -> None:
    """The excluded server would have led round 4, and its real leader would have been third."""
    proof = ledger.model_proof(4, HEAD)
    assert checked(proof, HEAD).leader
    with pytest.raises(ProofError, match=r"has rank 2 and led 60 s after the parent block; its turn comes after 120 s"):
        checked(ModelProof(proof.headers, proof.model), HEAD)


def _run_round(network: Network, node: Node, liar: LocalAccount, *, flagged: bool) -> None:
    """A round whose servers other than the liar flag it, or go on without it."""
    leader, round_ = network.leader(node), node.ask("round")
    network.post_plan(node, leader)
    network.post_close(node, leader)
    for server in network.servers:
        if flagged and server is not liar:
            network.post(node, server, "flag", round_, address_of(liar), Slot.ITERATE, bytes(32), bytes(32))
    network.post_model(node, leader)
    node.propose(address_of(leader))
    seal(node, address_of(network.devices[0]))


def test_headers_reach_back_to_an_exclusion_before_the_term() -> None:
    network = Network()
    node = founded_node(network)
    liar = next(server for server in network.servers if server is not network.leader(node))
    for round_ in range(1, 7):
        _run_round(network, node, liar, flagged=round_ == 1)
    proof = Ledger.of(web3_in_process(node), node.genesis.registry).model_proof(6, 7)
    assert [header.block_number for header in proof.headers] == [2, 3, 4, 5, 6, 7]
    assert check_model(proof, node.head.hash, node.genesis, network.membership).round == 6


def test_the_ledger_knows_who_decided_on_a_round(ledger: Ledger) -> None:
    for round_ in range(1, 7):
        assert ledger.membership(round_) == story().membership(round_)


@pytest.mark.parametrize("round_", [0, 6, 7, 100])
def test_a_round_without_a_sealed_model_has_no_proof(ledger: Ledger, round_: int) -> None:
    with pytest.raises(LedgerError, match=f"round {round_} has no sealed model; the head is block 7"):
        ledger.model_proof(round_, HEAD)


def test_a_pending_model_has_no_proof_yet() -> None:
    network = Network()
    node = founded_node(network)
    network.post_round(node)
    ledger = Ledger.of(web3_in_process(node), node.genesis.registry)
    assert ledger.model(1) is not None
    with pytest.raises(LedgerError, match="round 1 has no sealed model; the head is block 1"):
        ledger.model_proof(1, 1)


def test_a_known_block_that_the_node_does_not_have_is_said_so(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="where the node should answer with bytes"):
        ledger.model_proof(1, HEAD + 1)


def test_every_transaction_that_was_accepted_can_be_proven() -> None:
    for block in story().blocks:
        for index, (transaction, receipt) in enumerate(zip(block.transactions, block.receipts, strict=True)):
            proof = TransactionProof.from_json(proof_of(block, index).to_json())
            if receipt.status == 1:
                assert check_transaction(proof) == (transaction, receipt)
            else:
                with pytest.raises(ProofError, match=f"transaction {index} of block 7 was reverted"):
                    check_transaction(proof)


def test_a_device_needs_a_network_it_knows(ledger: Ledger) -> None:
    assert isinstance(ledger.access, Connection)
    with pytest.raises(RpcError, match="there is no registry"):
        Ledger.of(ledger.access.web3, address_of(NETWORK.founder))
