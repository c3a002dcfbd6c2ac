"""The transactions of a block with what came of them, in its order: what a leader proposes and a node has executed."""

from collections.abc import Sequence
from dataclasses import dataclass

from chain.errors import ChainError
from chain.node.vm import Execution, Outcome
from chain.protocol.consensus import next_difficulty
from chain.protocol.posts import SignedCall, attempt_in
from chain.store.store import Store
from chain.wire.address import Address
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.headers import Header
from chain.wire.receipts import EMPTY_TRIE_ROOT, Receipt, block_bloom, trie_root


@dataclass(frozen=True)
class Body:
    """Executed posts in the order of a block."""

    posts: tuple[SignedCall, ...]
    receipts: tuple[Receipt, ...]
    execution: Execution

    @classmethod
    def executed(
        cls, store: Store, parent: Header, posts: Sequence[SignedCall], coinbase: bytes, timestamp: int
    ) -> "Body":
        """Posts in this order after a block, executed; those that cannot be are left out."""
        difficulty = next_difficulty(store.genesis, parent, timestamp)
        execution = Execution(store, parent, coinbase, timestamp, difficulty)
        kept, outcomes, gas_left = [], [], store.genesis.gas_limit
        for post in posts:
            try:
                # One that held in the order of arrival and not in this one stays, reverted: its nonce is spent, and
                # what its sender posted after it still counts.
                outcome = execution.apply(post.transaction, post.sender, gas_left)
            except ChainError:
                continue
            kept.append(post)
            outcomes.append(outcome)
            gas_left -= outcome.gas
        return cls(tuple(kept), receipts_of(outcomes), execution)

    @property
    def attempt(self) -> int:
        """The attempt at the round that the posts are of (D3.1)."""
        return attempt_in(zip(self.posts, (receipt.status for receipt in self.receipts), strict=True))

    @property
    def gas_used(self) -> int:
        """Gas of the whole body."""
        return self.receipts[-1].gas_used if self.receipts else 0

    def header(self, leader: Address, timestamp: int, difficulty: int, gas_limit: int) -> Header:
        """The header of a leader's block with this body; the state root, which ends the execution, is still to come."""
        parent = self.execution.parent
        return Header(
            parent_hash=parent.hash,
            uncles_hash=EMPTY_UNCLES_HASH,
            coinbase=leader,
            state_root=EMPTY_TRIE_ROOT,
            transaction_root=trie_root([post.transaction.raw for post in self.posts]),
            receipt_root=trie_root([receipt.encoded for receipt in self.receipts]),
            bloom=block_bloom(self.receipts),
            difficulty=difficulty,
            block_number=parent.block_number + 1,
            gas_limit=gas_limit,
            gas_used=self.gas_used,
            timestamp=timestamp,
            extra_data=b"",
            mix_hash=bytes(32),
            nonce=bytes(8),
            base_fee_per_gas=0,
        )


def receipts_of(outcomes: Sequence[Outcome]) -> tuple[Receipt, ...]:
    """Receipts count the gas of a block, not of each transaction."""
    receipts: list[Receipt] = []
    for outcome in outcomes:
        receipts.append(outcome.receipt(receipts[-1].gas_used if receipts else 0))
    return tuple(receipts)
