"""Proofs of the small chain's models, honest ones and forged ones, for the tests of proofs."""

from dataclasses import replace
from typing import Any

from chain.protocol.contract import events
from chain.protocol.proof import ModelProof, ProvenModel, TransactionProof, check_model, proof_of
from chain.protocol.turns import Membership
from chain.wire.blocks import Block
from tests.chain.small_chain import story

ROUND = 4
"""Led by a successor, sixty seconds after its parent; an exclusion of round 3 is in force."""


def index_of(block: Block, event: str) -> int:
    """Position of the last accepted transaction whose receipt has this event."""
    topic = events()[event].topic
    return max(i for i, r in enumerate(block.receipts) if any(log.topics[0] == topic for log in r.logs))


def honest(round_: int = ROUND) -> ModelProof:
    """The proof of a model of the small chain, with all its headers."""
    blocks = story().blocks
    exclusion = proof_of(blocks[4], index_of(blocks[4], "Excluded"))
    model = proof_of(blocks[round_ + 1], index_of(blocks[round_ + 1], "ModelPublished"))
    return ModelProof(story().headers, model, (exclusion,) if round_ >= 3 else ())


def proven(proof: ModelProof, known: int = 0, membership: Membership | None = None) -> ProvenModel:
    """What a device that knows one block makes of it."""
    return check_model(proof, story().headers[known].hash, story().genesis, membership or story().membership(ROUND))


def replaced(proof: ModelProof, **changes: Any) -> ModelProof:
    return replace(proof, model=replace(proof.model, **changes))


def on_top(block: Block, exclusions: tuple[TransactionProof, ...] = ()) -> ModelProof:
    """Proof of the last transaction of a forged block, its header in the place of the honest one."""
    number = block.header.block_number
    headers = (*story().headers[:number], block.header)
    return ModelProof(headers, proof_of(block, len(block.transactions) - 1), exclusions)
