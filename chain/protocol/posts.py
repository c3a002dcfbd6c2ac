"""What participants say: a transaction as a signed call of the registry, its place in a block, its post in a slot."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from eth_hash.auto import keccak

from chain.errors import ChainIdError, GasError, NotRegistryCallError
from chain.protocol.contract import Call, decode_call
from chain.protocol.genesis import Genesis
from chain.protocol.slots import Slot, kind_of, slot_of_kind
from chain.wire.address import Address
from chain.wire.transactions import Transaction

KINDS = ("plan", "gradient", "close", "iterate", "model")
"""Calls that are a sender's one word in a slot; flags, chunks, votes and endorsements are not"""

PHASES = ("founding", "plan", "train", "close", "gossip", "verify", "model")
"""Of a round, in the order of a block (C3)"""
_PLACES = {
    "register": ("founding", 1),
    "found": ("founding", 2),
    "plan": ("plan", 0),
    "endorse": ("plan", 0),
    "vote": ("plan", 0),
    "gradient": ("train", 0),
    "close": ("close", 0),
    "flag": ("verify", 0),
    "flag_equivocation": ("verify", 0),
    "model": ("model", 0),
}


@dataclass(frozen=True)
class Post:
    """Something posted in a round, as read from the ledger."""

    round: int
    slot: int
    sender: Address
    digest: bytes
    payload: bytes
    transaction_hash: bytes
    arguments: Call = field(repr=False)
    """The whole call: samples, iterations, base model and plan of a gradient, say."""
    is_intact: bool
    """Whether the payload has the digest; one in chunks need not (C8), and then it counts as not posted."""

    @classmethod
    def of(cls, call: Call, sender: Address, transaction_hash: bytes, joined: bytes | None = None) -> "Post":
        """What a call posts; `joined` is its payload where that came in chunks."""
        slot = slot_of_kind(call.name, int(call["step"]) if "step" in call else 0)
        digest, payload = bytes(call["digest"]), bytes(call["payload"]) if joined is None else joined
        is_intact = not call["chunks"] if joined is None else keccak(payload) == digest
        return cls(int(call["round"]), slot, sender, digest, payload, transaction_hash, call, is_intact)

    @property
    def said(self) -> dict[str, object]:
        """All that it says; the payload is named by its digest."""
        return {name: value for name, value in self.arguments.arguments.items() if name != "payload"}


Place = tuple[int, int, Address, int]
"""(phase, step, sender, nonce): where a post stands in its block"""


@dataclass(frozen=True)
class SignedCall:
    """A transaction with its sender and, unless it creates the registry, what it calls."""

    transaction: Transaction
    sender: Address
    call: Call | None

    @property
    def phase(self) -> str:
        """The phase of the round it belongs to."""
        return PHASES[self.place[0]]

    @cached_property
    def place(self) -> Place:
        """Where it stands in its block: (phase, step, sender, nonce)."""
        call, phase, step = self.call, "founding", 0
        if call is not None and call.name == "iterate":
            phase, step = "gossip", int(call["step"])
        elif call is not None and call.name == "chunk":
            phase, step = _chunk_place(int(call["slot"]), int(call["round"]))
        elif call is not None:
            phase, step = _PLACES[call.name]
        return PHASES.index(phase), step, self.sender, self.transaction.nonce

    def may_follow(self, block_number: int) -> bool:
        """Whether it still has a place after this block: it is of a later round (k is block k + 1, P1), or of none."""
        if self.call is None or self.call.name in ("register", "found"):
            return False
        return "round" not in self.call or int(self.call["round"]) >= block_number

    def contradicts(self, other: "SignedCall") -> bool:
        """Whether its sender says two things in one slot (P15); the same thing sent again is no lie."""
        mine, theirs = self.post, other.post
        if mine is None or theirs is None or self.sender != other.sender:
            return False
        return (mine.round, mine.slot) == (theirs.round, theirs.slot) and mine.said != theirs.said

    @cached_property
    def post(self) -> Post | None:
        """What it posts in a slot; None for flags, votes and the like. One in chunks says nothing without them."""
        if self.call is None or self.call.name not in KINDS:
            return None
        return Post.of(self.call, self.sender, self.transaction.hash)

    def joined(self, chunks: Sequence[bytes]) -> Post | None:
        """What it posts, with the sender's chunks up to it put together (C8)."""
        if self.call is None or self.post is None or not self.call["chunks"]:
            return self.post
        payload = b"".join(chunks[-int(self.call["chunks"]) :])
        return Post.of(self.call, self.sender, self.transaction.hash, payload)


def _chunk_place(slot: int, round_: int) -> tuple[str, int]:
    """A chunk stands where the post it belongs to stands; that one has a later nonce."""
    if slot >= Slot.ITERATE:
        return "gossip", slot - Slot.ITERATE
    if slot == Slot.MODEL:
        return _PLACES["found" if round_ == 0 else "model"]
    return _PLACES.get(kind_of(slot), _PLACES["plan"])


def read_signed_call(transaction: Transaction, genesis: Genesis) -> SignedCall:
    """A transaction as a post of this network, or the reason it is none."""
    if transaction.chain_id != genesis.chain_id:
        raise ChainIdError(f"found chain id {transaction.chain_id}, expected {genesis.chain_id}")
    if transaction.value or transaction.max_fee or transaction.max_priority_fee:
        raise GasError("found a value or a fee above 0; there is no money on this chain, send 0")
    if not transaction.to:
        if transaction.sender != genesis.founder_address or transaction.nonce != 0:
            raise NotRegistryCallError("found a contract creation; only the founder creates, once, the registry")
        return SignedCall(transaction, transaction.sender, None)
    if transaction.to != genesis.registry:
        raise NotRegistryCallError(
            f"found a call to {Address(transaction.to)}, expected the registry {genesis.registry}"
        )
    call = decode_call(transaction.data)
    if call.name not in _PLACES and call.name not in ("iterate", "chunk"):
        raise NotRegistryCallError(f"found a call of {call.name}, expected a post of the protocol")
    return SignedCall(transaction, transaction.sender, call)
