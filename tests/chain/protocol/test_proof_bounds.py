"""How many nodes, signatures and votes a proof may have (P16), at the border."""

import re

import pytest

from chain.errors import ProofError
from chain.protocol.proof import ModelProof
from chain.protocol.turns import MOST_SERVERS
from tests.chain.proofs import honest, proven, replaced
from tests.chain.small_chain import story


@pytest.mark.parametrize("field", ["transaction_nodes", "receipt_nodes"])
def test_sixteen_nodes_are_looked_at_and_seventeen_are_not(field: str) -> None:
    """No honest proof has as many: whoever sends more makes the checker work for nothing."""
    proof = honest()
    nodes = getattr(proof.model.proof, field)
    padding = (b"\xc0",) * 17
    with pytest.raises(ProofError, match=r"of 16 is not on the way|do not lead"):
        proven(replaced(proof, **{field: (*nodes, *padding)[:16]}))
    told = f"found 17 nodes to item {proof.model.proof.index}, expected at most 16"
    with pytest.raises(ProofError, match=re.escape(told)):
        proven(replaced(proof, **{field: (*nodes, *padding)[:17]}))


def test_as_many_signatures_and_votes_are_read_as_there_can_be_servers() -> None:
    content = honest().to_json()
    content["model"]["endorsements"] *= 1000
    content["joined"] *= 1000
    found = ModelProof.from_json(content, story().genesis)
    assert (len(found.model.endorsements), len(found.joined)) == (MOST_SERVERS, MOST_SERVERS)
    assert proven(found) == proven(honest())
    content["model"]["endorsements"] = [content["model"]["endorsements"][0]] * MOST_SERVERS + honest().to_json()[
        "model"
    ]["endorsements"]
    with pytest.raises(ProofError, match="signed by 1 of 4 servers, expected at least 3"):
        proven(ModelProof.from_json(content, story().genesis))
