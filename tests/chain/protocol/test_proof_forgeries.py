"""Model proofs (P16, Q2) that prove nothing: each forgery is refused."""

from dataclasses import replace
from typing import Any

import pytest
import rlp
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import ProofError
from chain.protocol.endorsements import Domain, Endorsement, endorse
from chain.protocol.proof import ModelProof, check_model, proof_of
from chain.wire.sidecar import payload_digest
from chain.wire.signatures import sign
from tests.chain.network import account, addresses, endorsements_of, genesis
from tests.chain.proofs import (
    ROUND,
    honest,
    index_of,
    of_block,
    proven,
    replaced,
    resigned,
    servers_before,
    signed,
    with_model,
)
from tests.chain.small_chain import NETWORK, forged, model_of, story

SERVERS = servers_before(ROUND + 1)
HEADER = story().headers[ROUND + 1]
DOMAIN = Domain.of(genesis())
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def test_the_honest_proof_is_accepted() -> None:
    assert proven(honest()).digest == payload_digest(model_of(ROUND))


# --- the transaction


def test_a_reverted_model_is_no_model() -> None:
    block = story().blocks[7]
    assert block.transactions[1].hash == story().reverted
    with pytest.raises(ProofError, match=r"transaction 1 of block 7 was reverted \(status 0\)"):
        proven(of_block(block, 1))


@pytest.mark.parametrize("event", ["Planned", "GradientPosted", "Closed", "IteratePosted"])
def test_a_transaction_of_another_kind_is_no_model(event: str) -> None:
    block = story().blocks[ROUND + 1]
    with pytest.raises(ProofError, match="the receipt has no event ModelPublished of the registry"):
        proven(of_block(block, index_of(block, event)))


def test_the_founding_block_proves_no_model_though_it_needs_no_signatures() -> None:
    block = story().blocks[1]
    for endorsed in ((), SERVERS):
        with pytest.raises(ProofError, match="found block 1, expected one after the founding"):
            proven(ModelProof(signed(proof_of(block, index_of(block, "Founded")), endorsed)))


@pytest.mark.parametrize("index", [0, 1, 5, 7, 127, 128, 255, 256, 2**40])
def test_another_index_is_refused(index: int) -> None:
    assert index != honest().model.proof.index
    with pytest.raises(ProofError, match=f"do not lead from root 0x[0-9a-f]+ to item {index}|has no item {index}"):
        proven(replaced(honest(), index=index))


def test_every_flipped_byte_of_every_node_is_refused() -> None:
    proof = honest()
    for field in ("transaction_nodes", "receipt_nodes"):
        nodes = getattr(proof.model.proof, field)
        for i, node in enumerate(nodes):
            for at in range(0, len(node), 1 + len(node) // 20):
                flipped = node[:at] + bytes([node[at] ^ 1]) + node[at + 1 :]
                with pytest.raises(ProofError):
                    proven(replaced(proof, **{field: (*nodes[:i], flipped, *nodes[i + 1 :])}))


@pytest.mark.parametrize("field", ["transaction_nodes", "receipt_nodes"])
def test_missing_and_superfluous_nodes_are_refused(field: str) -> None:
    proof = honest()
    nodes, other = getattr(proof.model.proof, field), proof.joined[0].proof.transaction_nodes
    for i in range(len(nodes)):
        with pytest.raises(ProofError, match="do not lead"):
            proven(replaced(proof, **{field: nodes[:i] + nodes[i + 1 :]}))
    for extra in (other[-1], nodes[0], b"\xc0"):
        with pytest.raises(ProofError, match=r"node \d of \d is not on the way|do not lead"):
            proven(replaced(proof, **{field: (*nodes, extra)}))
    with pytest.raises(ProofError, match="found 1000 nodes"):
        proven(replaced(proof, **{field: (other[-1],) * 1000}))


def test_the_receipt_of_another_transaction_is_refused() -> None:
    block = story().blocks[ROUND + 1]
    with pytest.raises(ProofError, match="do not lead"):
        proven(replaced(honest(), receipt_nodes=proof_of(block, 0).receipt_nodes))


# --- the signatures


@pytest.mark.parametrize("count", range(5))
def test_three_of_four_servers_are_a_majority_and_two_are_none(count: int) -> None:
    proof = honest(signers=SERVERS[4 - count :])
    if count < 3:
        with pytest.raises(ProofError, match=f"block 5 is signed by {count} of 4 servers, expected at least 3: it is"):
            proven(proof)
    else:
        assert proven(proof) == proven(honest())


def test_an_excluded_server_counts_among_all_and_its_signature_counts_as_well() -> None:
    liar = next(server for server in SERVERS if address_of(server) == story().liar)
    others = [server for server in SERVERS if server is not liar]
    assert proven(honest(signers=[liar, *others[:2]])) == proven(honest())
    with pytest.raises(ProofError, match="signed by 2 of 4 servers"):
        proven(honest(signers=others[:2]))


def _with_high_s(endorsement: Endorsement) -> Endorsement:
    """The same signature in its other form."""
    r, s, parity = endorsement.signature[:32], int.from_bytes(endorsement.signature[32:64], "big"), 1
    parity -= endorsement.signature[64]
    return replace(endorsement, signature=r + (_ORDER - s).to_bytes(32, "big") + bytes([parity]))


def test_signatures_that_are_not_of_this_block_round_time_chain_or_registry_do_not_count() -> None:
    own, other = endorsements_of(HEADER, SERVERS), forged(story().blocks[ROUND + 1], timestamp=HEADER.timestamp + 9)
    elsewhere = [
        [replace(each, round=ROUND - 1) for each in own],
        [replace(each, attempt=1) for each in own],
        [replace(each, time_ms=each.time_ms + 1) for each in own],
        endorsements_of(other.header, SERVERS),
        [replace(each, block_hash=HEADER.hash) for each in endorsements_of(other.header, SERVERS)],
        [replace(each, domain=DOMAIN) for each in endorsements_of(HEADER, SERVERS, genesis(chain_id=1))],
        endorsements_of(HEADER, SERVERS, genesis(chain_id=1)),
        endorsements_of(HEADER, SERVERS, genesis(founder="0x" + "11" * 20)),
        [endorse(each, DOMAIN, ROUND - 1, 0, HEADER.hash, 5) for each in SERVERS],
        endorsements_of(HEADER, [account(f"stranger {i}") for i in range(9)]),
        endorsements_of(HEADER, NETWORK.devices),
        [],
    ]
    for endorsements in elsewhere:
        with pytest.raises(ProofError, match="block 5 is signed by 0 of 4 servers"):
            proven(resigned(honest(), *endorsements))
    assert proven(resigned(honest(), *own)).round == ROUND


def test_a_signature_has_one_form() -> None:
    own = endorsements_of(HEADER, SERVERS)
    for other in (
        _with_high_s(own[0]),
        replace(own[0], signature=own[0].signature[:64] + bytes([27 + own[0].signature[64]])),
        replace(own[0], signature=own[0].signature[:-1]),
        replace(own[0], signature=bytes(65)),
        replace(own[0], signature=b"\xff" * 65),
    ):
        with pytest.raises(ProofError, match="an endorsement of round 4: "):
            proven(resigned(honest(), other, *own[1:]))


def test_one_server_counts_once_however_often_it_signs() -> None:
    many = [endorse(server, DOMAIN, ROUND, 0, HEADER.hash, time_ms) for time_ms in range(9) for server in SERVERS[:2]]
    with pytest.raises(ProofError, match="signed by 2 of 4 servers"):
        proven(resigned(honest(), *many, *many))


def test_signatures_of_different_attempts_are_not_added() -> None:
    def of_attempt(attempt: int, servers: list[LocalAccount]) -> list[Endorsement]:
        unsigned = Endorsement(ROUND, attempt, HEADER.hash, 5, DOMAIN)
        return [replace(unsigned, signature=_signature(server, unsigned)) for server in servers]

    with pytest.raises(ProofError, match="signed by 2 of 4 servers"):
        proven(resigned(honest(), *of_attempt(0, SERVERS[:2]), *of_attempt(1, SERVERS[2:])))
    assert proven(resigned(honest(), *of_attempt(0, SERVERS[:2]), *of_attempt(1, SERVERS[1:]))).round == ROUND


def _signature(server: LocalAccount, unsigned: Endorsement) -> bytes:
    return bytes(sign(server, unsigned.digest).to_bytes())


# --- what the transaction says


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"round_": ROUND - 1}, "the model is of round 3, its block of round 4"),
        ({"digest": bytes(32)}, "the model does not have the digest 0x0{64} that it names"),
        ({"name": "close"}, "the proven transaction does not publish a model"),
        ({"logs": ()}, "no event ModelPublished"),
        ({"envelope": {"chain_id": 1}}, "no post of this network: found chain id 1, expected 4242"),
        ({"envelope": {"to": b"\1" * 20}}, "no post of this network: found a call to 0x0101"),
        ({"envelope": {"to": b""}}, "no post of this network: found a contract creation"),
    ],
)
def test_a_model_that_does_not_fit_its_receipt_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProofError, match=message):
        proven(of_block(with_model(NETWORK.servers[0], **changes)))


def test_an_event_of_another_contract_is_no_event() -> None:
    block = story().blocks[ROUND + 1]
    receipt = block.receipts[index_of(block, "ModelPublished")]
    elsewhere = tuple(replace(log, address=b"\1" * 20) for log in receipt.logs)
    with pytest.raises(ProofError, match="no event ModelPublished of the registry"):
        proven(of_block(with_model(NETWORK.servers[0], logs=elsewhere)))


def test_a_proof_of_another_network_is_refused() -> None:
    """In memory and over JSON, where the signatures are read as the reader's own network has them."""
    content, servers = honest().to_json(), addresses(NETWORK.servers)
    for other in (genesis(chain_id=1), genesis(founder="0x" + "11" * 20)):
        for proof in (honest(), ModelProof.from_json(content, other)):
            with pytest.raises(ProofError, match="block 3 is signed by 0 of 3 servers, expected at least 2"):
                check_model(proof, other, servers)


# --- a signed header that commits to nonsense


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([b" ", b"a list"], "has no item 0"),
        (b"no transaction", "what is proven is no transaction: found transaction type 0x6e"),
        (b"\x02" + b"\xd0" * 2000, "what is proven is no transaction"),
    ],
)
def test_a_root_over_what_is_no_transaction_is_refused(item: Any, message: str) -> None:
    leaf = rlp.encode([b"\x20\x80", item], infer_serializer=False)  # the whole path to index 0
    receipt = proof_of(with_model(NETWORK.servers[0]), 0)
    block = story().blocks[ROUND + 1]
    header = forged(block, transaction_root=keccak(leaf), receipt_root=receipt.header.receipt_root).header
    with pytest.raises(ProofError, match=message):
        proven(ModelProof(signed(replace(receipt, header=header, transaction_nodes=(leaf,))), honest().joined))
