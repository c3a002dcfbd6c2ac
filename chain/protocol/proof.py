"""Proofs for those without a node (P16): a model that is in a sealed block, accepted, posted by a lawful leader."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainError, ProofError
from chain.protocol.consensus import check_header
from chain.protocol.contract import Call, decode_log
from chain.protocol.genesis import Genesis
from chain.protocol.posts import read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK, Membership, rank_of
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, decode_receipt, inclusion_proof, proven_item
from chain.wire.transactions import Transaction, decode_transaction

_MAX_HEADERS = 1_000_000
_MAX_NODES = 16  # on the way to an item; an index has at most 4 bytes
_NO_PROOF = (KeyError, TypeError, ValueError, AttributeError, ChainError)


@dataclass(frozen=True)
class TransactionProof:
    """That a transaction is at `index` of a block, and what came of it."""

    header: Header
    index: int
    transaction_nodes: tuple[bytes, ...]
    receipt_nodes: tuple[bytes, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON object, bytes as hex; read back by `from_json`."""
        return {
            "header": "0x" + self.header.to_bytes().hex(),
            "index": self.index,
            "transaction": ["0x" + node.hex() for node in self.transaction_nodes],
            "receipt": ["0x" + node.hex() for node in self.receipt_nodes],
        }

    @classmethod
    def from_json(cls, content: Any) -> "TransactionProof":
        """The reverse of `to_json`; `ProofError` if it is none."""
        try:
            return cls(
                Header.from_bytes(_bytes(content["header"])),
                _index(content["index"]),
                tuple(map(_bytes, content["transaction"])),
                tuple(map(_bytes, content["receipt"])),
            )
        except _NO_PROOF as error:
            raise ProofError(f"found no transaction proof: {error}") from error


@dataclass(frozen=True)
class ModelProof:
    """A model's transaction, with headers that link it to one the checker knows."""

    headers: tuple[Header, ...]
    """Consecutive, ascending. They contain the model's block, as many before it as the term cap, and a known one."""
    model: TransactionProof
    exclusions: tuple[TransactionProof, ...] = ()
    """Of servers that are not in the ranking because they were excluded."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object, bytes as hex; read back by `from_json`."""
        return {
            "headers": ["0x" + header.to_bytes().hex() for header in self.headers],
            "model": self.model.to_json(),
            "exclusions": [each.to_json() for each in self.exclusions],
        }

    @classmethod
    def from_json(cls, content: Any) -> "ModelProof":
        """The reverse of `to_json`; `ProofError` if it is none."""
        try:
            headers = tuple(Header.from_bytes(_bytes(each)) for each in content["headers"][:_MAX_HEADERS])
            exclusions = tuple(TransactionProof.from_json(each) for each in content.get("exclusions", ()))
            return cls(headers, TransactionProof.from_json(content["model"]), exclusions)
        except _NO_PROOF as error:
            raise ProofError(f"found no model proof: {error}") from error


@dataclass(frozen=True)
class ProvenModel:
    """What a model proof proves."""

    round: int
    digest: bytes
    leader: Address
    header: Header


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _index(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ProofError(f"found index {found!r:.80}, expected the position of a transaction")
    return found


def proof_of(block: Block, index: int) -> TransactionProof:
    """Proof of transaction `index` of a block."""
    return TransactionProof(
        block.header,
        index,
        inclusion_proof([transaction.raw for transaction in block.transactions], index),
        inclusion_proof([receipt.encoded for receipt in block.receipts], index),
    )


def check_transaction(proof: TransactionProof) -> tuple[Transaction, Receipt]:
    """The transaction a proof proves, and its receipt with status 1: inclusion alone proves nothing."""
    raw = _proven_item(proof.header.transaction_root, proof.index, proof.transaction_nodes)
    receipt = decode_receipt(_proven_item(proof.header.receipt_root, proof.index, proof.receipt_nodes))
    if receipt.status != 1:
        raise ProofError(f"transaction {proof.index} of block {proof.header.block_number} was reverted (status 0)")
    try:
        return decode_transaction(raw), receipt
    except ChainError as error:
        raise ProofError(f"what is proven is no transaction: {error}") from error


def _proven_item(root: bytes, index: int, nodes: tuple[bytes, ...]) -> bytes:
    """The item the nodes lead to; none of them may be superfluous, so that one proof has one form."""
    if len(nodes) > _MAX_NODES:
        raise ProofError(f"found {len(nodes)} nodes to item {index}, expected at most {_MAX_NODES}")
    item = proven_item(root, index, nodes)
    for i in range(len(nodes)):
        if _lead(root, index, nodes[:i] + nodes[i + 1 :]):
            raise ProofError(f"node {i} of {len(nodes)} is not on the way to item {index}")
    return item


def _lead(root: bytes, index: int, nodes: tuple[bytes, ...]) -> bool:
    try:
        proven_item(root, index, nodes)
    except ProofError:
        return False
    return True


def check_links(headers: Sequence[Header], known_hash: bytes, genesis: Genesis) -> None:
    """Raise `ProofError` unless the headers are linked, sealed, and contain the one the checker knows."""
    if known_hash not in {header.hash for header in headers}:
        raise ProofError(f"the headers do not contain 0x{known_hash.hex()}, the one that is known")
    for parent, header in itertools.pairwise(headers):
        try:
            check_header(header, parent, genesis)
        except ChainError as error:
            raise ProofError(f"header {header.block_number}: {error}") from error


def check_model(proof: ModelProof, known_hash: bytes, genesis: Genesis, membership: Membership) -> ProvenModel:
    """What the proof proves to somebody who knows the network and one block hash; needs neither node nor py-evm."""
    check_links(proof.headers, known_hash, genesis)
    before = _headers_before(proof, membership.term_cap)
    transaction, receipt = check_transaction(proof.model)
    call = _model_call(transaction, receipt, genesis, proof.model.header.block_number - FOUNDING_BLOCK)
    _check_turn(transaction.sender, proof, before, membership, _excluded_servers(proof, genesis))
    return ProvenModel(int(call["round"]), bytes(call["digest"]), transaction.sender, proof.model.header)


def _model_call(transaction: Transaction, receipt: Receipt, genesis: Genesis, round_: int) -> Call:
    """The call that publishes the model of a round, and that the registry has agreed to it."""
    event = _event(receipt, genesis, "ModelPublished")
    try:
        call = read_signed_call(transaction, genesis).call
    except ChainError as error:
        raise ProofError(f"the proven transaction is no post of this network: {error}") from error
    if call is None or call.name != "model":
        raise ProofError("the proven transaction does not publish a model")
    if int(call["round"]) != round_:
        raise ProofError(f"the model is of round {call['round']}, its block of round {round_}")
    digest = bytes(call["digest"])
    if digest != bytes(event["digest"]):
        raise ProofError(f"the model does not have the digest 0x{digest.hex()} that it names")
    return call


def _headers_before(proof: ModelProof, term_cap: int) -> list[Header]:
    """The headers before the model's block that decide who leads it."""
    number = proof.model.header.block_number
    if proof.model.header not in proof.headers:
        raise ProofError(f"the headers do not contain the model's block {number}")
    before = [header for header in proof.headers if header.block_number < number]
    needed = min(term_cap, number - FOUNDING_BLOCK)
    if len(before) < needed or not before:
        raise ProofError(f"found {len(before)} headers before block {number}, expected at least {needed}")
    return before


def _check_turn(
    sender: Address, proof: ModelProof, before: Sequence[Header], membership: Membership, excluded: Collection[Address]
) -> None:
    rank = rank_of(sender, before, membership, excluded)
    if rank is None:
        raise ProofError(f"{sender} may not lead: it is no edge server, or excluded")
    waited = proof.model.header.timestamp - before[-1].timestamp
    if rank > 0 and waited < rank * membership.turn_s:
        raise ProofError(
            f"{sender} has rank {rank} and led {waited} s after the parent block; "
            f"its turn comes after {rank * membership.turn_s} s"
        )


def _excluded_servers(proof: ModelProof, genesis: Genesis) -> set[Address]:
    """Servers proven to be excluded in the model's round."""
    round_ = proof.model.header.block_number - FOUNDING_BLOCK
    found = set()
    for exclusion in proof.exclusions:
        if exclusion.header not in proof.headers:
            raise ProofError(f"the headers do not contain block {exclusion.header.block_number} of an exclusion")
        event = _event(check_transaction(exclusion)[1], genesis, "Excluded")
        if int(event["round"]) <= round_ <= int(event["last_round"]):
            found.add(event["participant"])
    return found


def _event(receipt: Receipt, genesis: Genesis, name: str) -> Call:
    for log in receipt.logs:
        if log.address == genesis.registry:
            event = decode_log(log.topics, log.data)
            if event is not None and event.name == name:
                return event
    raise ProofError(f"the receipt has no event {name} of the registry {genesis.registry}")
