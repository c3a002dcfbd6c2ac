"""Proofs of the small chain's models, honest ones and forged ones, for the tests of proofs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.protocol.contract import decode_log
from chain.protocol.endorsements import Endorsement
from chain.protocol.proof import FinalTransaction, ModelProof, ProvenModel, TransactionProof, check_model, proof_of
from chain.wire.blocks import Block
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import decode_transaction
from tests.chain.network import addresses, endorsements_of
from tests.chain.small_chain import NETWORK, NEW_SERVER, forged, model_of, story
from tests.chain.small_chain import signed as signed_call

ROUND = 4
"""Led by a successor; a server has joined by votes in round 2, and another is excluded."""
JOINED = 3
"""The block with the vote that made the new server a member."""


def servers_before(number: int) -> list[LocalAccount]:
    """Whose signatures count under a block of the small chain."""
    return [*NETWORK.servers, *([NEW_SERVER] if number > JOINED else [])]


def indices_of(block: Block, event: str, **arguments: bytes) -> list[int]:
    """Positions of the accepted transactions whose receipts have such an event."""
    found = [[decode_log(log.topics, log.data) for log in receipt.logs] for receipt in block.receipts]
    return [
        index
        for index, logs in enumerate(found)
        if any(e and e.name == event and arguments.items() <= e.arguments.items() for e in logs)
    ]


def index_of(block: Block, event: str, **arguments: bytes) -> int:
    """The last of them."""
    return indices_of(block, event, **arguments)[-1]


def signed(proof: TransactionProof, signers: Sequence[LocalAccount] | None = None) -> FinalTransaction:
    """A transaction with signatures under its block: by default of everybody who may sign it."""
    servers = servers_before(proof.header.block_number) if signers is None else signers
    return FinalTransaction(proof, tuple(endorsements_of(proof.header, servers)))


def joining(signers: Sequence[LocalAccount] | None = None) -> FinalTransaction:
    """The vote that made the new server a member."""
    block, who = story().blocks[JOINED], address_of(NEW_SERVER)
    return signed(proof_of(block, index_of(block, "Registered", participant=who, home=who)), signers)


def honest(round_: int = ROUND, signers: Sequence[LocalAccount] | None = None) -> ModelProof:
    """The proof of a model of the small chain; `signers` of its block are all servers by default."""
    block = story().blocks[round_ + 1]
    model = signed(proof_of(block, index_of(block, "ModelPublished")), signers)
    return ModelProof(model, (joining(),) if round_ + 1 > JOINED else ())


def proven(proof: ModelProof, founders: Iterable[bytes] | None = None) -> ProvenModel:
    """What a device that knows the servers of the founding makes of it."""
    known = addresses(NETWORK.servers) if founders is None else founders
    return check_model(proof, story().genesis, frozenset(known))


def replaced(proof: ModelProof, **changes: Any) -> ModelProof:
    """The proof with other nodes or another index, its signatures as they are."""
    return replace(proof, model=replace(proof.model, proof=replace(proof.model.proof, **changes)))


def resigned(proof: ModelProof, *endorsements: Endorsement) -> ModelProof:
    """The proof with other signatures under the model's block."""
    return replace(proof, model=replace(proof.model, endorsements=endorsements))


def of_block(block: Block, index: int = -1) -> ModelProof:
    """Proof of a transaction of a forged block (the last by default), signed by all servers: what even they cannot."""
    return ModelProof(signed(proof_of(block, index % len(block.transactions))), honest().joined)


def with_model(sender: LocalAccount, **changes: Any) -> Block:
    """Block 5 with nothing but a model of this sender, whose receipt is that of the honest one."""
    block, payload = story().blocks[ROUND + 1], model_of(ROUND)
    fields: dict[str, Any] = {"round_": ROUND, "digest": payload_digest(payload), "name": "model"} | changes
    arguments = (fields["round_"], 0, bytes(32), fields["digest"], len(payload))
    raw = signed_call(sender, 0, fields["name"], *arguments, **fields.get("envelope", {}))
    receipt = replace(block.receipts[index_of(block, "ModelPublished")], gas_used=21_000)
    logs = fields.get("logs", receipt.logs)
    return forged(block, [decode_transaction(raw)], [replace(receipt, logs=logs)])
