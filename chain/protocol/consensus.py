"""The rules of a block that need no state: difficulty, time, canonical order, fork choice. Light: no py-evm here."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chain.errors import (
    ChainIdError,
    DifficultyError,
    GasError,
    GasLimitError,
    NotRegistryCallError,
    TimestampError,
    TransactionOrderError,
    UnknownParentError,
)
from chain.protocol.contract import Call, decode_call
from chain.protocol.genesis import RETARGET, Genesis
from chain.protocol.posts import KINDS, Post
from chain.protocol.slots import Slot, kind_of
from chain.wire.address import Address
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.headers import Header
from chain.wire.seal import check_seal
from chain.wire.transactions import Transaction

# Most a retarget changes the difficulty by: 1 / 8 per block.
_RETARGET_DAMPING = 8
# (phase, step) of each call; `None` where the step is an argument (C3). Names are the protocol's phases.
PHASES = ("founding", "plan", "train", "close", "gossip", "verify", "model")
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


Place = tuple[int, int, bytes, int]
"""(phase, step, sender, nonce): where a post stands in its block"""


@dataclass(frozen=True)
class SignedCall:
    """A transaction with its sender and, unless it creates the registry, what it calls."""

    transaction: Transaction
    sender: bytes
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
        return Post.of(self.call, Address(self.sender), self.transaction.hash)

    def joined(self, chunks: Sequence[bytes]) -> Post | None:
        """What it posts, with the sender's chunks up to it put together (C8)."""
        if self.call is None or self.post is None or not self.call["chunks"]:
            return self.post
        payload = b"".join(chunks[-int(self.call["chunks"]) :])
        return Post.of(self.call, Address(self.sender), self.transaction.hash, payload)


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
        if f"0x{transaction.sender.hex()}" != genesis.founder or transaction.nonce != 0:
            raise NotRegistryCallError("found a contract creation; only the founder creates, once, the registry")
        return SignedCall(transaction, transaction.sender, None)
    if transaction.to != genesis.registry:
        raise NotRegistryCallError(
            f"found a call to 0x{transaction.to.hex()}, expected the registry 0x{genesis.registry.hex()}"
        )
    call = decode_call(transaction.data)
    if call.name not in _PLACES and call.name not in ("iterate", "chunk"):
        raise NotRegistryCallError(f"found a call of {call.name}, expected a post of the protocol")
    return SignedCall(transaction, transaction.sender, call)


def check_order(posts: Sequence[SignedCall]) -> None:
    """Raise `TransactionOrderError` unless the posts are in the canonical order (C3)."""
    for index, (left, right) in enumerate(itertools.pairwise(posts)):
        if left.place >= right.place:
            raise TransactionOrderError(
                f"transaction {index + 1} ({right.phase}, step {right.place[1]}, 0x{right.sender.hex()}) stands after "
                f"({left.phase}, step {left.place[1]}, 0x{left.sender.hex()}); "
                "expected ascending (phase, step, sender, nonce)"
            )


def next_difficulty(genesis: Genesis, parent: Header, timestamp: int) -> int:
    """Difficulty of the block after `parent`: constant, or moved by at most 1/8 towards `block_s` per block."""
    if genesis.difficulty_rule != RETARGET:
        return genesis.difficulty
    target = genesis.block_s
    early = max(-target, min(target, target - (timestamp - parent.timestamp)))
    step = abs(parent.difficulty * early) // (_RETARGET_DAMPING * target) or 1  # or a small one would never rise
    return max(1, parent.difficulty + (step if early > 0 else -step if early < 0 else 0))


def check_header(header: Header, parent: Header, genesis: Genesis, now: float | None = None) -> None:
    """Everything a header must obey given its parent, the seal first: it costs the liar most and us least.

    `now` is the checker's clock; an auditor of old blocks passes None.
    """
    check_seal(header.mining_hash, header.nonce, header.difficulty)
    if header.parent_hash != parent.hash or header.block_number != parent.block_number + 1:
        raise UnknownParentError(
            f"block {header.block_number} names parent 0x{header.parent_hash.hex()}, "
            f"expected 0x{parent.hash.hex()} of block {parent.block_number}"
        )
    expected = next_difficulty(genesis, parent, header.timestamp)
    if header.difficulty != expected:
        raise DifficultyError(f"block {header.block_number} has difficulty {header.difficulty}, expected {expected}")
    check_time(header, parent, genesis, now)
    _check_constants(header, genesis)


def check_time(header: Header, parent: Header, genesis: Genesis, now: float | None = None) -> None:
    """Raise `TimestampError` for a time before the parent's, or ahead of the checker's clock by more than allowed."""
    if header.timestamp < parent.timestamp:
        raise TimestampError(
            f"block {header.block_number} is of {header.timestamp}, before its parent of {parent.timestamp}"
        )
    if now is not None and header.timestamp > now + genesis.max_drift_s:
        raise TimestampError(
            f"block {header.block_number} is of {header.timestamp}, {header.timestamp - now:.0f} s in the future; "
            f"at most {genesis.max_drift_s} s are allowed: check both clocks"
        )


def _check_constants(header: Header, genesis: Genesis) -> None:
    if header.gas_limit != genesis.gas_limit or header.base_fee_per_gas != 0:
        raise GasLimitError(
            f"block {header.block_number} has gas limit {header.gas_limit} and base fee {header.base_fee_per_gas}, "
            f"expected {genesis.gas_limit} and 0"
        )
    if header.uncles_hash != EMPTY_UNCLES_HASH or any(header.mix_hash):
        raise GasLimitError(f"block {header.block_number} has uncles or a mix hash, expected none")


def is_better(difficulty: int, block_hash: bytes, than_difficulty: int, than_hash: bytes) -> bool:
    """Fork choice: more total difficulty; on a tie the smaller hash, or replicas would stay split."""
    return (difficulty, than_hash) > (than_difficulty, block_hash)
