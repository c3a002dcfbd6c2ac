"""The rules of a block that need no state: difficulty, time, canonical order, fork choice. Light: no py-evm here."""

import itertools
from collections.abc import Sequence

from chain.errors import (
    DifficultyError,
    GasLimitError,
    TimestampError,
    TransactionOrderError,
    UnknownParentError,
)
from chain.protocol.genesis import RETARGET, Genesis
from chain.protocol.posts import SignedCall
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.headers import Header
from chain.wire.seal import check_seal

# Most a retarget changes the difficulty by: 1 / 8 per block.
_RETARGET_DAMPING = 8


def check_order(posts: Sequence[SignedCall]) -> None:
    """Raise `TransactionOrderError` unless the posts are in the canonical order (C3)."""
    for index, (left, right) in enumerate(itertools.pairwise(posts)):
        if left.place >= right.place:
            raise TransactionOrderError(
                f"transaction {index + 1} ({right.phase}, step {right.place[1]}, {right.sender}) stands after "
                f"({left.phase}, step {left.place[1]}, {left.sender}); "
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
