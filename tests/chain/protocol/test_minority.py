"""Whatever less than half of the servers write, mine and sign, it proves no other model (Q1, Q2)."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings

from chain.errors import ProofError
from chain.protocol.endorsements import Domain, Endorsement, quorum
from chain.protocol.proof import FinalTransaction, ModelProof, check_model, proof_of
from chain.wire.sidecar import payload_digest
from tests.chain.minority import RULES, SYBILS, Attack, attacks, model_payload, published, servers_of, signature, voted
from tests.chain.network import addresses, endorsements_of


def sybils_of_block(number: int) -> Attack:
    """The servers' majority outvoted by members that a block says it has; nobody but they sign."""
    servers, sybils, payload = servers_of(3), SYBILS[:4], model_payload(3, change=1.0)
    votes = [voted(number, each, each) for each in sybils]
    joined = tuple(
        FinalTransaction(proof_of(each, 0), tuple(endorsements_of(each.header, sybils, RULES) if number else ()))
        for each in votes
    )
    block = published(3, payload, sybils[0])
    model = FinalTransaction(proof_of(block, 0), tuple(endorsements_of(block.header, sybils, RULES)))
    return Attack(servers, [], 3, payload, block, ModelProof(model, joined))


@example(sybils_of_block(0))
@example(sybils_of_block(1))
@example(sybils_of_block(2))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(attacks())
def test_no_minority_proves_another_model(attack: Attack) -> None:
    servers = addresses(attack.servers)
    assert len(attack.keys) < quorum(len(servers))
    with pytest.raises(ProofError):
        check_model(attack.proof, RULES, servers)
    content = json.loads(json.dumps(attack.proof.to_json()))
    with pytest.raises(ProofError):
        check_model(ModelProof.from_json(content, RULES), RULES, servers)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(attacks())
def test_the_same_block_is_believed_once_a_strict_majority_has_signed_it(attack: Attack) -> None:
    if attack.round == 0:
        return  # the founding block has no leader's model
    found = check_model(attack.with_honest(), RULES, addresses(attack.servers))
    assert (found.round, found.digest) == (attack.round, payload_digest(attack.payload))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8])
def test_one_signature_less_than_a_strict_majority_is_no_proof(count: int) -> None:
    servers, block = servers_of(count), published(2, model_payload(2), servers_of(1)[0])
    made = [signature(each, Endorsement(2, 0, block.header.hash, 7, _domain())) for each in servers]
    for signers in range(count + 1):
        proof = ModelProof(FinalTransaction(proof_of(block, 0), tuple(made[:signers])))
        if 2 * signers > count:
            assert check_model(proof, RULES, addresses(servers)).round == 2
        else:
            with pytest.raises(ProofError, match=f"signed by {signers} of {count} servers"):
                check_model(proof, RULES, addresses(servers))


def _domain() -> Domain:
    return Domain.of(RULES)
