"""How many nodes a proof may have (P16), at the border."""

import re

import pytest

from chain.errors import ProofError
from tests.chain.proofs import honest, proven, replaced


@pytest.mark.parametrize("field", ["transaction_nodes", "receipt_nodes"])
def test_sixteen_nodes_are_looked_at_and_seventeen_are_not(field: str) -> None:
    """No honest proof has as many: whoever sends more makes the checker work for nothing."""
    proof = honest()
    nodes = getattr(proof.model, field)
    padding = (b"\xc0",) * 17
    with pytest.raises(ProofError, match=r"of 16 is not on the way|do not lead"):
        proven(replaced(proof, **{field: (*nodes, *padding)[:16]}))
    told = f"found 17 nodes to item {proof.model.index}, expected at most 16"
    with pytest.raises(ProofError, match=re.escape(told)):
        proven(replaced(proof, **{field: (*nodes, *padding)[:17]}))
