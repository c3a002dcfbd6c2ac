"""Model proofs (P16) that prove nothing: each forgery is refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import rlp
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import ProofError
from chain.node.node import Node
from chain.protocol.proof import ModelProof, _excluded_servers, check_model, proof_of
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.seal import is_sealed
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.network import Clock, Network, genesis
from tests.chain.proofs import ROUND, honest, index_of, on_top, proven, replaced
from tests.chain.small_chain import NETWORK, forged, model_of, signed, story


def test_the_honest_proof_is_accepted() -> None:
    assert proven(honest()).digest == payload_digest(model_of(ROUND))


# --- the transaction


def test_a_reverted_model_is_no_model() -> None:
    block = story().blocks[7]
    assert block.transactions[1].hash == story().reverted
    with pytest.raises(ProofError, match=r"transaction 1 of block 7 was reverted \(status 0\)"):
        proven(replace(honest(), model=proof_of(block, 1)))


@pytest.mark.parametrize("event", ["Planned", "GradientPosted", "Closed", "IteratePosted"])
def test_a_transaction_of_another_kind_is_no_model(event: str) -> None:
    block = story().blocks[ROUND + 1]
    with pytest.raises(ProofError, match="the receipt has no event ModelPublished of the registry"):
        proven(replace(honest(), model=proof_of(block, index_of(block, event))))


def test_the_founding_model_is_not_a_leaders() -> None:
    block = story().blocks[1]
    with pytest.raises(ProofError, match="no event ModelPublished"):
        proven(replace(honest(), model=proof_of(block, index_of(block, "Founded"))))


@pytest.mark.parametrize("index", [0, 1, 6, 127, 128, 255, 256, 2**40])
def test_another_index_is_refused(index: int) -> None:
    assert index != honest().model.index
    with pytest.raises(ProofError, match=f"do not lead from root 0x[0-9a-f]+ to item {index}|has no item {index}"):
        proven(replaced(honest(), index=index))


def test_every_flipped_byte_of_every_node_is_refused() -> None:
    proof = honest()
    for field in ("transaction_nodes", "receipt_nodes"):
        nodes = getattr(proof.model, field)
        for i, node in enumerate(nodes):
            for at in range(0, len(node), 1 + len(node) // 40):
                flipped = node[:at] + bytes([node[at] ^ 1]) + node[at + 1 :]
                with pytest.raises(ProofError):
                    proven(replaced(proof, **{field: (*nodes[:i], flipped, *nodes[i + 1 :])}))


@pytest.mark.parametrize("field", ["transaction_nodes", "receipt_nodes"])
def test_missing_and_superfluous_nodes_are_refused(field: str) -> None:
    proof = honest()
    nodes, other = getattr(proof.model, field), proof.exclusions[0].transaction_nodes
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


# --- the headers


@pytest.mark.parametrize(
    ("headers", "known", "message"),
    [
        (lambda h: (*h[:3], *h[4:]), 0, "header 4: block 4 names parent"),
        (lambda h: (*h[:2], h[3], h[2], *h[4:]), 0, "header 3: block 3 names parent"),
        (lambda h: h[::-1], 0, "header 6: block 6 names parent"),
        (lambda h: (*h[:3], *h[2:]), 0, "header 2: block 2 names parent"),
        (lambda h: (*h[:5], replace(h[5], state_root=bytes(32)), *h[6:]), 0, "header 6: block 6 names parent"),
        (lambda h: h[1:], 0, "do not contain 0x[0-9a-f]{64}, the one that is known"),
        (lambda h: h[:7], 7, "do not contain 0x[0-9a-f]{64}, the one that is known"),
        (lambda h: (), 0, "do not contain 0x[0-9a-f]{64}, the one that is known"),
        (lambda h: h[:5], 0, "do not contain the model's block 5"),
        (lambda h: h[6:], 7, "do not contain the model's block 5"),
        (lambda h: h[3:], 7, "found 2 headers before block 5, expected at least 3"),
        (lambda h: h[5:], 5, "found 0 headers before block 5, expected at least 3"),
    ],
)
def test_headers_that_do_not_lead_to_the_known_one_are_refused(
    headers: Callable[[tuple[Header, ...]], tuple[Header, ...]], known: int, message: str
) -> None:
    with pytest.raises(ProofError, match=message):
        proven(replace(honest(), headers=headers(story().headers)), known)


def test_a_header_without_work_is_refused() -> None:
    network = Network()
    node = Node.in_memory(genesis(difficulty=64), now=Clock())
    network.found(node)
    network.run_round(node)
    blocks = [block for number in range(3) if (block := node.block(number)) is not None]
    model, first = proof_of(blocks[2], len(blocks[2].transactions) - 1), blocks[0].header

    def sealed_with(nonce: int) -> ModelProof:
        header = model.header.with_nonce(nonce.to_bytes(8, "big"))
        return ModelProof((first, blocks[1].header, header), replace(model, header=header))

    nonces = {is_sealed(model.header.mining_hash, n.to_bytes(8, "big"), 64): n for n in range(2000)}
    assert check_model(sealed_with(nonces[True]), first.hash, node.genesis, network.membership).round == 1
    with pytest.raises(ProofError, match=r"header 2: found seal 0x[0-9a-f]+ of nonce 0x[0-9a-f]+, expected at most"):
        check_model(sealed_with(nonces[False]), first.hash, node.genesis, network.membership)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timestamp": 0}, "is of 0, before its parent"),
        ({"difficulty": 2}, "has difficulty 2, expected 1"),
        ({"gas_limit": 10**7}, "has gas limit 10000000"),
        ({"base_fee_per_gas": 1}, "and base fee 1"),
        ({"block_number": 9}, "block 9 names parent"),
        ({"mix_hash": b"\1" * 32}, "has uncles or a mix hash"),
        ({"uncles_hash": b"\1" * 32}, "has uncles or a mix hash"),
    ],
)
def test_a_sealed_header_against_the_rules_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProofError, match=message):
        proven(on_top(forged(story().blocks[ROUND + 1], **changes), honest().exclusions))


# --- the leader


def test_somebody_who_is_no_edge_server_may_not_lead() -> None:
    leader, membership = proven(honest()).leader, story().membership(ROUND)
    others = {who: home for who, home in membership.homes.items() if leader not in (who, home)}
    with pytest.raises(ProofError, match=f"0x{leader.hex()} may not lead: it is no edge server, or excluded"):
        proven(honest(), membership=replace(membership, homes=others))


def test_an_excluded_server_may_not_lead() -> None:
    """Its block is sealed, its receipt says status 1; the exclusion that is proven says otherwise."""
    liar = next(server for server in NETWORK.servers if address_of(server) == story().liar)
    with pytest.raises(ProofError, match=f"0x{story().liar.hex()} may not lead: it is no edge server, or excluded"):
        proven(on_top(_with_model(liar), honest().exclusions))


def test_a_successor_before_its_turn_is_refused() -> None:
    block = story().blocks[ROUND + 1]
    early = forged(block, timestamp=block.header.timestamp - 1)
    with pytest.raises(ProofError, match="has rank 1 and led 59 s after the parent block; its turn comes after 60 s"):
        proven(on_top(early, honest().exclusions))


def test_a_spent_leader_comes_last() -> None:
    """With a term cap of one, the leader of round 2 had to wait for all others in round 3."""
    membership, leaders = story().membership(3), [header.coinbase for header in story().headers[3:5]]
    assert leaders[0] == leaders[1] == proven(honest(3), membership=membership).leader
    with pytest.raises(ProofError, match="has rank 2 and led 0 s after the parent block"):
        proven(honest(3), membership=replace(membership, term_cap=1))


def _with_model(sender: LocalAccount, **changes: Any) -> Block:
    """Block 5 with nothing but a model of this sender, whose receipt is that of the honest one."""
    block, payload = story().blocks[ROUND + 1], model_of(ROUND)
    fields: dict[str, Any] = {"round_": ROUND, "digest": payload_digest(payload), "name": "model"} | changes
    arguments = (fields["round_"], 0, bytes(32), fields["digest"], len(payload))
    raw = signed(sender, 0, fields["name"], *arguments, **fields.get("envelope", {}))
    receipt = replace(block.receipts[index_of(block, "ModelPublished")], gas_used=21_000)
    logs = fields.get("logs", receipt.logs)
    return forged(block, [decode_transaction(raw)], [replace(receipt, logs=logs)])


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
        proven(on_top(_with_model(NETWORK.servers[0], **changes), honest().exclusions))


def test_an_event_of_another_contract_is_no_event() -> None:
    block = story().blocks[ROUND + 1]
    receipt = block.receipts[index_of(block, "ModelPublished")]
    elsewhere = tuple(replace(log, address=b"\1" * 20) for log in receipt.logs)
    with pytest.raises(ProofError, match="no event ModelPublished of the registry"):
        proven(on_top(_with_model(NETWORK.servers[0], logs=elsewhere), honest().exclusions))


def test_a_proof_of_another_network_is_refused() -> None:
    for other, message in (
        (genesis(chain_id=1), "no post of this network: found chain id 4242, expected 1"),
        (genesis(founder="0x" + "11" * 20), "no event ModelPublished of the registry"),
        (genesis(difficulty=2), "has difficulty 1, expected 2"),
    ):
        with pytest.raises(ProofError, match=message):
            check_model(honest(), story().headers[0].hash, other, story().membership(ROUND))
    with pytest.raises(ProofError, match="the one that is known"):
        check_model(honest(), genesis(chain_id=1).header.hash, story().genesis, story().membership(ROUND))


# --- exclusions


def test_an_exclusion_must_be_on_the_same_chain_and_accepted() -> None:
    proof, block = honest(), story().blocks[4]
    for exclusion, message in (
        (proof_of(forged(block, timestamp=block.header.timestamp + 1), 0), "do not contain block 4 of an exclusion"),
        (proof_of(block, 0), "the receipt has no event Excluded"),
        (proof_of(story().blocks[7], 1), "transaction 1 of block 7 was reverted"),
        (replace(proof.exclusions[0], index=0), "do not lead"),
    ):
        with pytest.raises(ProofError, match=message):
            proven(replace(proof, exclusions=(exclusion,)))


def test_an_exclusion_that_is_over_or_yet_to_come_does_not_count() -> None:
    """That of round 3 shortens nobody's wait in round 2, nor in round 6, when it is over."""
    exclusions = honest().exclusions
    assert _excluded_servers(replace(honest(2), exclusions=exclusions), story().genesis) == set()
    assert (
        _excluded_servers(honest(3), story().genesis) == _excluded_servers(honest(5), story().genesis) == {story().liar}
    )
    sixth = replace(honest(5), model=replace(honest(5).model, header=story().headers[7]))
    assert _excluded_servers(sixth, story().genesis) == set()


# --- a sealed header that commits to nonsense


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
    block = forged(story().blocks[ROUND + 1], transaction_root=keccak(leaf))
    model = replace(honest().model, header=block.header, index=0, transaction_nodes=(leaf,))
    receipt = proof_of(_with_model(NETWORK.servers[0]), 0)
    header = forged(block, transaction_root=keccak(leaf), receipt_root=receipt.header.receipt_root).header
    model = replace(model, header=header, receipt_nodes=receipt.receipt_nodes)
    with pytest.raises(ProofError, match=message):
        proven(ModelProof((*story().headers[: ROUND + 1], header), model, honest().exclusions))
