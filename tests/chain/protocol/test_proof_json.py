"""Model proofs from outside: whatever arrives as JSON, it proves something or `ProofError` leaves, nothing else."""

import functools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chain.errors import ProofError
from chain.protocol.endorsements import Domain
from chain.protocol.proof import FinalTransaction, ModelProof, TransactionProof
from tests.chain.network import genesis
from tests.chain.proofs import honest, proven

_KEYS = ("model", "joined", "endorsements", "header", "index", "transaction", "receipt")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("0x"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4),
    max_leaves=10,
)


@functools.cache
def _text() -> str:
    """An honest proof."""
    return json.dumps(honest().to_json())


@given(_JSON)
def test_random_json_is_no_proof(content: Any) -> None:
    for read in (
        lambda: ModelProof.from_json(content, genesis()),
        lambda: FinalTransaction.from_json(content, Domain.of(genesis())),
        lambda: TransactionProof.from_json(content),
    ):
        with pytest.raises(ProofError):
            read()


def _places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be put in the place of something else."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path] * bool(path) + [place for key, each in inner for place in _places(each, (*path, key))]


def _variants(old: Any) -> list[Any]:
    """Near misses."""
    if isinstance(old, str):
        return [old[: len(old) // 2], old[:-1], old + "00", "0x"]
    if isinstance(old, list):
        return [old[:-1], old[1:], old + old, old[::-1]]
    return [None] if isinstance(old, dict) else [old - 1, old + 1]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_proof_with_anything_in_the_place_of_anything_is_refused_or_proves_the_same(data: st.DataObject) -> None:
    content = json.loads(_text())
    *path, last = data.draw(st.sampled_from(_places(content)))
    parent = content
    for key in path:
        parent = parent[key]
    old = parent[last]
    parent[last] = data.draw(_JSON | st.sampled_from(_variants(old)))
    try:
        found = proven(ModelProof.from_json(content, genesis()))
    except ProofError:
        return
    right = proven(honest())
    assert found.servers <= right.servers, "a vote may be left out: whoever knows of it sees that"
    assert replace(found, servers=right.servers) == right


def test_truncated_text_is_no_proof() -> None:
    for end in range(0, len(_text()), len(_text()) // 50):
        with pytest.raises(ProofError, match="found no model proof"):
            ModelProof.from_json(_text()[:end], genesis())


@pytest.mark.parametrize("index", [float("inf"), float("nan"), 1e400, -1, 1.0, "1", True, None, []])
def test_an_index_is_a_whole_number(index: Any) -> None:
    content = honest().to_json()
    content["model"]["index"] = index
    with pytest.raises(ProofError, match=r"found index .*, expected the position of a transaction"):
        ModelProof.from_json(content, genesis())


@pytest.mark.parametrize("signed", [[""], ["0x"], ["0x" + "00" * 116], ["0x" + "00" * 118], [3], [None], 3, None, {}])
def test_an_endorsement_has_a_fixed_size(signed: Any) -> None:
    content = honest().to_json()
    content["model"]["endorsements"] = signed
    with pytest.raises(ProofError, match="found no transaction of a final block"):
        ModelProof.from_json(content, genesis())
