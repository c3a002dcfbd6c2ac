"""What participants say: a transaction as a signed call of the registry, its place in a block, its post in a slot."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from chain.errors import ChainIdError, GasError, NotRegistryCallError
from chain.protocol.contract import Call, PayloadSizes, decode_call
from chain.protocol.genesis import Genesis
from chain.protocol.slots import slot_of_kind
from chain.wire.address import Address
from chain.wire.transactions import Transaction

KINDS = ("plan", "gradient", "roll", "close", "iterate", "model")
"""Calls that are a sender's one word in a slot; flags, votes and endorsements are not"""

PHASES = ("founding", "plan", "train", "close", "gossip", "verify", "model")
"""Of a round, in the order of a block (C3)"""
_PLACES = {
    "register": ("founding", 1),
    "found": ("founding", 2),
    "begin_attempt": ("plan", 0),
    "endorse": ("plan", 1),
    "vote": ("plan", 1),
    "plan": ("plan", 1),
    "gradient": ("train", 0),
    "roll": ("train", 1),
    "close": ("close", 0),
    "flag": ("verify", 0),
    "flag_equivocation": ("verify", 0),
    "flag_signatures": ("verify", 0),
    "model": ("model", 0),
}


class PayloadSource(Protocol):
    """Where payloads are, by their digests (B1)."""

    def payload(self, digest: bytes) -> bytes | None:
        """The payload with this sha256; None where it is not (yet, or any more)."""

    def has_payload(self, digest: bytes) -> bool:
        """Whether it is here; cheaper than reading it."""


class NoPayloads:
    """A source that has none: who reads headers and calls alone needs no other."""

    def payload(self, digest: bytes) -> bytes | None:
        """None."""
        return None

    def has_payload(self, digest: bytes) -> bool:
        """False."""
        return False


@dataclass(frozen=True)
class Commitment:
    """What a post says of a payload: its sha256 and its size in bytes."""

    digest: bytes
    size: int


@dataclass(frozen=True)
class Post:
    """Something posted in a round, as read from the ledger; its payload is beside it (B1)."""

    round: int
    attempt: int
    slot: int
    sender: Address
    digest: bytes
    size: int
    transaction_hash: bytes
    arguments: Call = field(repr=False)
    """The whole call: samples, iterations, base model and plan of a gradient, say."""
    source: PayloadSource = field(default=NoPayloads(), repr=False, compare=False)

    @classmethod
    def of(cls, call: Call, sender: Address, transaction_hash: bytes, source: PayloadSource | None = None) -> "Post":
        """What a call posts."""
        slot = slot_of_kind(call.name, int(call["step"]) if "step" in call else 0)
        round_, attempt, digest, size = (call[name] for name in ("round", "attempt", "digest", "size"))
        return cls(round_, attempt, slot, sender, digest, size, transaction_hash, call, source or NoPayloads())

    def beside(self, source: PayloadSource) -> "Post":
        """The same post, its payload read from `source`."""
        return replace(self, source=source)

    @property
    def payload(self) -> bytes | None:
        """What it posts; None while that is not here. Read anew each time: a payload may be as large as memory."""
        return self.source.payload(self.digest)

    @property
    def is_here(self) -> bool:
        """Whether its payload is."""
        return self.source.has_payload(self.digest)

    @property
    def said(self) -> dict[str, object]:
        """All that it says; the payload is named by its digest."""
        return dict(self.arguments.arguments)


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
        places = [(post.round, post.attempt, post.slot) for post in (mine, theirs)]
        return places[0] == places[1] and mine.said != theirs.said

    @property
    def begins(self) -> int | None:
        """The attempt whose certificate it is; None for every other call (D3.2)."""
        return None if self.call is None or self.call.name != "begin_attempt" else int(self.call["attempt"])

    @property
    def attempt(self) -> int | None:
        """The attempt that it belongs to; None for what counts in any: endorsements, flags, votes."""
        if self.call is None or self.call.name not in (*KINDS, "begin_attempt"):
            return None
        return int(self.call["attempt"])

    @cached_property
    def post(self) -> Post | None:
        """What it posts in a slot; None for flags, votes and the like."""
        if self.call is None or self.call.name not in KINDS:
            return None
        return Post.of(self.call, self.sender, self.transaction.hash)

    @cached_property
    def commitments(self) -> tuple[Commitment, ...]:
        """The payloads that are beside it: one of a post in a slot, two of the founding (B1)."""
        return () if self.call is None else commitments_of(self.call)

    @property
    def is_stored(self) -> bool:
        """Whether its payloads are kept with the block; iterates follow from the gradients (B3)."""
        return self.call is not None and self.call.name != "iterate"


def commitments_of(call: Call) -> tuple[Commitment, ...]:
    """The payloads that are beside a call."""
    if call.name in KINDS:
        return (Commitment(call["digest"], call["size"]),)
    if call.name == "found":
        model = Commitment(call["model"], PayloadSizes(*call["sizes"]).model)
        return (Commitment(call["parameters"], call["parameters_size"]), model)
    return ()


@dataclass(frozen=True)
class PostCounts:
    """What a block has, in numbers."""

    kinds: Counter[str]
    """How many posts of each kind; "creation" of the registry, "unreadable" where a file has what no node admits."""
    payload_bytes: int
    """Of the payloads that are kept with it; of equal ones one."""
    attempt: int
    """At its round (D3.1)."""


def count_posts(executed: Iterable[tuple[Transaction, int]]) -> PostCounts:
    """Of transactions with their statuses, for whoever watches: senders are not recovered, which takes most time."""
    kinds: Counter[str] = Counter()
    kept: dict[bytes, int] = {}
    attempt = 0
    for each, status in executed:
        try:
            call = decode_call(each.data) if each.to else None
        except NotRegistryCallError:
            kinds["unreadable"] += 1
            continue
        kinds["creation" if call is None else call.name] += 1
        if call is not None and call.name != "iterate":  # iterates follow from the gradients (B3)
            kept |= {named.digest: named.size for named in commitments_of(call)}
        if call is not None and call.name == "begin_attempt" and status == 1:
            attempt = attempt or int(call["attempt"])
    return PostCounts(kinds, sum(kept.values()), attempt)


def attempt_in(executed: Iterable[tuple[SignedCall, int]]) -> int:
    """The attempt that a block has the posts of, from its posts with their statuses (D3.1)."""
    return next((post.begins for post, status in executed if status == 1 and post.begins is not None), 0)


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
    if call.name not in _PLACES and call.name != "iterate":
        raise NotRegistryCallError(f"found a call of {call.name}, expected a post of the protocol")
    return SignedCall(transaction, transaction.sender, call)
