"""What an inspection has found of a chain so far: its books."""

from collections import Counter
from dataclasses import dataclass, field

from chain.protocol.turns import FOUNDING_BLOCK


@dataclass
class Inspection:
    """What was found so far."""

    blocks: int = 0
    transactions: int = 0
    payload_bytes: int = 0
    reverted: int = 0
    pruned: list[int] = field(default_factory=list)
    """Numbers of the blocks whose payloads are not all here: of them digests and signatures fit, no more (B6)."""
    by_kind: Counter[str] = field(default_factory=Counter)
    members: dict[bytes, bytes] = field(default_factory=dict)
    excluded_through: dict[bytes, int] = field(default_factory=dict)
    models: dict[int, bytes] = field(default_factory=dict)
    """Digests by round; a round may be sealed without a model."""
    led: Counter[bytes] = field(default_factory=Counter)
    sealed: Counter[bytes] = field(default_factory=Counter)
    hashes: list[bytes] = field(default_factory=list)
    """Hashes of the blocks, by number."""
    final: int = FOUNDING_BLOCK
    """Number of the last block that a strict majority of the servers signed (Q1)."""
    signed: tuple[int, int] = (0, 0)
    """How many of how many servers signed the head."""
