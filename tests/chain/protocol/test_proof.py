"""Model proofs (P16, Q2): what an honest node hands out is accepted without a node, in any form it may travel in."""

import json
from collections.abc import Iterator

import pytest

from chain.client.connection import Connection
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import LedgerError, ProofError, RpcError
from chain.node.access import LocalLedger
from chain.node.node import Node
from chain.protocol.proof import ModelProof, TransactionProof, check_model, check_transaction, proof_of
from chain.rpc.in_process import web3_in_process
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.sidecar import payload_digest
from tests.chain.network import Clock, Network, addresses, founded_node
from tests.chain.proofs import JOINED, proven, servers_before
from tests.chain.small_chain import NETWORK, model_of, story

WAYS = ("in-process", "http")


@pytest.fixture(scope="module", params=WAYS)
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """The small chain, all of it signed, behind a node, read over one of the ways to it."""
    node = Node.open(story().write(tmp_path_factory.mktemp("node")), now=Clock())
    for header in story().headers[2:]:
        NETWORK.endorse(node, header, servers_before(header.block_number))
    if request.param == "http":
        with RpcServer(node, ServerParams(port=0)) as url:
            yield Ledger.connect(url, story().genesis.registry)
    else:
        yield Ledger.of(web3_in_process(node), story().genesis.registry)
    node.close()


@pytest.mark.parametrize("round_", [1, 2, 3, 4, 5])
def test_a_final_model_is_proven_to_who_knows_the_founding(ledger: Ledger, round_: int) -> None:
    found = proven(ledger.model_proof(round_))
    assert (found.round, found.digest) == (round_, payload_digest(model_of(round_)))
    assert found.header == story().headers[round_ + 1]
    post = ledger.model(round_)
    assert post is not None
    assert found.leader == post.sender


def test_a_proof_has_one_header_and_the_votes_that_made_servers_members_before_it(ledger: Ledger) -> None:
    for round_ in (1, 2, 3, 4, 5):
        proof = ledger.model_proof(round_)
        assert [each.header.block_number for each in proof.joined] == ([JOINED] if round_ + 1 > JOINED else [])
        assert len(proof.model.endorsements) == len(servers_before(round_ + 1))


def test_a_proof_survives_json(ledger: Ledger) -> None:
    proof = ledger.model_proof(4)
    again = ModelProof.from_json(json.loads(json.dumps(proof.to_json())), story().genesis)
    assert again == proof
    assert proven(again) == proven(proof)


def test_the_ledger_knows_who_decided_on_a_round(ledger: Ledger) -> None:
    for round_ in range(1, 7):
        assert ledger.membership(round_) == story().membership(round_)


@pytest.mark.parametrize("round_", [0, 6, 7, 100])
def test_a_round_without_a_sealed_model_has_no_proof(ledger: Ledger, round_: int) -> None:
    with pytest.raises(LedgerError, match=f"round {round_} has no sealed model; the head is block 7"):
        ledger.model_proof(round_)


def test_a_pending_model_has_no_proof_yet() -> None:
    network = Network()
    node = founded_node(network)
    network.post_round(node)
    ledger = Ledger.of(web3_in_process(node), node.genesis.registry)
    assert ledger.model(1) is not None
    with pytest.raises(LedgerError, match="round 1 has no sealed model; the head is block 1"):
        ledger.model_proof(1)


def test_a_sealed_model_has_a_proof_once_more_than_half_of_the_servers_have_signed_it() -> None:
    network = Network()
    node = founded_node(network)
    ledger, known = LocalLedger(node), addresses(network.servers)
    network.run_round(node, endorsers=network.servers[:1])
    with pytest.raises(LedgerError, match="round 1 is not final: too few servers have endorsed its block yet"):
        ledger.model_proof(1)
    network.endorse(node, servers=network.servers[2:])
    assert check_model(ledger.model_proof(1), node.genesis, known).round == 1


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
