"""What a network is, before its first block. Its digest is in the genesis header, so the genesis hash names it all."""

import dataclasses
import functools
import hashlib
import json
import re
from dataclasses import dataclass

import rlp
from eth_hash.auto import keccak
from pydantic import ConfigDict

from chain.errors import CodecError, StoreError
from chain.protocol.contract import call_gas
from chain.wire.address import Address
from chain.wire.blocks import EMPTY_UNCLES_HASH
from chain.wire.documents import read_record
from chain.wire.headers import Header
from chain.wire.receipts import EMPTY_TRIE_ROOT

FIXED, RETARGET = "fixed", "retarget"
FOUNDING_GAS = 30_000_000


@dataclass(frozen=True)
class Genesis:
    """The rules of a network that no later block can change."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    chain_id: int
    founder: str
    """Address that deploys the registry and registers the participants in block 1, as the canonical JSON has it."""
    timestamp: int
    gas_limit: int
    difficulty: int = 1
    difficulty_rule: str = FIXED
    block_s: int = 10
    """Seconds between blocks that `retarget` aims at."""
    max_drift_s: int = 15
    """How far ahead of a node's clock a block may be."""

    def __post_init__(self) -> None:
        checks = {
            "chain_id": 0 < self.chain_id < 2**256,
            "founder": re.fullmatch(r"0x[0-9a-f]{40}", self.founder) is not None,
            "timestamp": 0 <= self.timestamp < 2**63,
            "gas_limit": 1_000_000 <= self.gas_limit < 2**63,
            "difficulty": 1 <= self.difficulty < 2**255,
            "difficulty_rule": self.difficulty_rule in (FIXED, RETARGET),
            "block_s": self.block_s > 0,
            "max_drift_s": self.max_drift_s >= 0,
        }
        for name, holds in checks.items():
            if not holds:
                raise StoreError(f"genesis: {name} = {getattr(self, name)!r} is impossible")

    @functools.cached_property
    def founder_address(self) -> Address:
        """The founder, to be compared with senders and builders."""
        return Address(self.founder)

    @functools.cached_property
    def registry(self) -> Address:
        """The address of the founder's first contract."""
        return Address(keccak(rlp.encode([self.founder_address, b""]))[12:])

    def canonical_json(self) -> str:
        """Sorted keys, no spaces: one text per genesis."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))

    @property
    def header(self) -> Header:
        """The header of block 0, which nobody seals."""
        return Header(
            parent_hash=bytes(32),
            uncles_hash=EMPTY_UNCLES_HASH,
            coinbase=Address(bytes(20)),
            state_root=EMPTY_TRIE_ROOT,
            transaction_root=EMPTY_TRIE_ROOT,
            receipt_root=EMPTY_TRIE_ROOT,
            bloom=0,
            difficulty=self.difficulty,
            block_number=0,
            gas_limit=self.gas_limit,
            gas_used=0,
            timestamp=self.timestamp,
            extra_data=hashlib.sha256(self.canonical_json().encode()).digest(),
            mix_hash=bytes(32),
            nonce=bytes(8),
            base_fee_per_gas=0,
        )


def read_genesis(text: str) -> Genesis:
    """A genesis from its JSON, unknown and missing keys named."""
    try:
        return read_record(Genesis, text)
    except CodecError as error:
        raise StoreError(f"genesis: {error}") from error


def block_gas(calls: int) -> int:
    """Gas limit for a block of `calls` posts, and for the founding block (P3)."""
    return FOUNDING_GAS + (calls + 2) * call_gas()
