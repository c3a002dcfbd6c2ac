"""Proofs for those without a node (P16, Q2): a model that is in a final block, accepted by the registry."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from chain.errors import ChainError, ProofError
from chain.protocol.contract import Call, decode_log
from chain.protocol.endorsements import Domain, Endorsement, check_final, decode_endorsement
from chain.protocol.genesis import Genesis
from chain.protocol.posts import read_signed_call
from chain.protocol.turns import FOUNDING_BLOCK, MOST_SERVERS
from chain.wire.address import Address
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, decode_receipt, inclusion_proof, proven_item
from chain.wire.transactions import Transaction, decode_transaction

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
class FinalTransaction:
    """A transaction of a final block, with the signatures that make it final (Q1)."""

    proof: TransactionProof
    endorsements: tuple[Endorsement, ...]

    @property
    def header(self) -> Header:
        """Of its block."""
        return self.proof.header

    def to_json(self) -> dict[str, Any]:
        """A JSON object, bytes as hex; read back by `from_json`."""
        return self.proof.to_json() | {"endorsements": ["0x" + each.encode().hex() for each in self.endorsements]}

    @classmethod
    def from_json(cls, content: Any, domain: Domain) -> "FinalTransaction":
        """The reverse of `to_json`; `ProofError` if it is none."""
        try:
            signed = [_bytes(each) for each in content["endorsements"][:MOST_SERVERS]]
            return cls(TransactionProof.from_json(content), tuple(decode_endorsement(each, domain) for each in signed))
        except _NO_PROOF as error:
            raise ProofError(f"found no transaction of a final block: {error}") from error


@dataclass(frozen=True)
class ModelProof:
    """A model's transaction in a final block. Headers, seals and turns prove nothing to who counts signatures (Q2)."""

    model: FinalTransaction
    joined: tuple[FinalTransaction, ...] = ()
    """The votes that made servers members after the founding, in their order: their signatures count from then on."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object, bytes as hex; read back by `from_json`."""
        return {"model": self.model.to_json(), "joined": [each.to_json() for each in self.joined]}

    @classmethod
    def from_json(cls, content: Any, genesis: Genesis) -> "ModelProof":
        """The reverse of `to_json`; `ProofError` if it is none."""
        domain = Domain.of(genesis)
        try:
            joined = tuple(FinalTransaction.from_json(each, domain) for each in content["joined"][:MOST_SERVERS])
            return cls(FinalTransaction.from_json(content["model"], domain), joined)
        except _NO_PROOF as error:
            raise ProofError(f"found no model proof: {error}") from error


@dataclass(frozen=True)
class ProvenModel:
    """What a model proof proves."""

    round: int
    digest: bytes
    leader: Address
    header: Header
    servers: frozenset[bytes]
    """Whose signatures counted: they never become fewer."""


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


def check_model(proof: ModelProof, genesis: Genesis, servers: Collection[bytes]) -> ProvenModel:
    """What the proof proves to somebody who knows the network's servers at its founding; needs neither node nor py-evm.

    A block counts as far as a strict majority has signed it (Q1, Q2). That the model's post was not reverted is told by
    its receipt, which the signed header commits to: a refused post is in the block as well.
    """
    members = _members_at(proof, genesis, servers)
    _check_signed(proof.model, members, genesis)
    transaction, receipt = check_transaction(proof.model.proof)
    header = proof.model.header
    call = _model_call(transaction, receipt, genesis, header.block_number - FOUNDING_BLOCK)
    return ProvenModel(int(call["round"]), bytes(call["digest"]), transaction.sender, header, frozenset(members))


def _members_at(proof: ModelProof, genesis: Genesis, servers: Collection[bytes]) -> set[bytes]:
    """The servers whose signatures count under the model's block: the founding's, and who joined before it."""
    members, joining, before = set(servers), set[bytes](), FOUNDING_BLOCK
    for each in proof.joined:
        number = each.header.block_number
        if not before <= number < proof.model.header.block_number:
            raise ProofError(f"found a vote in block {number}, expected one between the last and the model's block")
        if number > before:  # who joins with a block signs from the next one on
            members, joining, before = members | joining, set(), number
        _check_signed(each, members, genesis)
        event = _event(check_transaction(each.proof)[1], genesis, "Registered")
        if event["participant"] != event["home"]:
            raise ProofError(f"{event['participant']} joined as a device, expected a server")
        joining.add(event["participant"])
    return members | joining


def _check_signed(proven: FinalTransaction, servers: Collection[bytes], genesis: Genesis) -> None:
    """The founding block is final without signatures, which proves nothing of a header that claims its number."""
    if proven.header.block_number <= FOUNDING_BLOCK:
        raise ProofError(f"found block {proven.header.block_number}, expected one after the founding: servers sign it")
    domain = Domain.of(genesis)
    try:
        check_final(proven.header, [each for each in proven.endorsements if each.domain == domain], servers)
    except ChainError as error:
        raise ProofError(str(error)) from error


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


def _event(receipt: Receipt, genesis: Genesis, name: str) -> Call:
    for log in receipt.logs:
        if log.address == genesis.registry:
            event = decode_log(log.topics, log.data)
            if event is not None and event.name == name:
                return event
    raise ProofError(f"the receipt has no event {name} of the registry {genesis.registry}")
