"""Receipts and the tries a header commits to: roots and Merkle proofs of transactions and receipts."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import rlp
from eth_bloom import BloomFilter
from rlp.exceptions import RLPException
from trie import HexaryTrie
from trie.exceptions import BadTrieProof

from chain.errors import ProofError
from chain.genesis import EMPTY_TRIE_ROOT
from chain.transactions import TYPE


@dataclass(frozen=True)
class Log:
    """What the registry said while it executed a call."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes


@dataclass(frozen=True)
class Receipt:
    """What came of a transaction. `gas_used` is cumulative over the block, as Ethereum has it."""

    status: int
    gas_used: int
    logs: tuple[Log, ...]

    @functools.cached_property
    def bloom(self) -> int:
        """Bloom filter of addresses and topics."""
        bloom = BloomFilter()
        for log in self.logs:
            bloom.add(log.address)
            for topic in log.topics:
                bloom.add(topic)
        return int(bloom)

    @functools.cached_property
    def encoded(self) -> bytes:
        """Canonical bytes of a type-2 receipt."""
        logs = [[log.address, list(log.topics), log.data] for log in self.logs]
        status = b"\x01" if self.status else b""
        gas = self.gas_used.to_bytes((self.gas_used.bit_length() + 7) // 8, "big")
        fields = [status, gas, self.bloom.to_bytes(256, "big"), logs]
        return TYPE + bytes(rlp.encode(fields, infer_serializer=False))


def decode_receipt(encoded: bytes) -> Receipt:
    """A receipt from its canonical bytes; `ProofError` if they are none."""
    try:
        status, gas, _, logs = rlp.decode(encoded[1:])
        receipt = Receipt(
            status=1 if status == b"\x01" else 0,
            gas_used=int.from_bytes(gas, "big"),
            logs=tuple(Log(address, tuple(topics), data) for address, topics, data in logs),
        )
        if receipt.encoded == encoded:
            return receipt
    except (RLPException, RecursionError, ValueError, TypeError) as error:
        raise ProofError(f"the receipt does not decode: {error}") from error
    raise ProofError("the receipt is not in canonical form")


def block_bloom(receipts: Sequence[Receipt]) -> int:
    """Bloom filter of a whole block."""
    bloom = 0
    for receipt in receipts:
        bloom |= receipt.bloom
    return bloom


def trie_root(items: Sequence[bytes]) -> bytes:
    """Root of the trie index -> item."""
    return _trie(items).root_hash if items else EMPTY_TRIE_ROOT


def inclusion_proof(items: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The trie nodes on the way to item `index`, as bytes."""
    return tuple(rlp.encode(node) for node in _trie(items).get_proof(rlp.encode(index)))


def proven_item(root: bytes, index: int, proof: Sequence[bytes]) -> bytes:
    """The item at `index` of a trie with this root; `ProofError` unless the nodes lead there."""
    try:
        nodes = [rlp.decode(node) for node in proof]
        item = HexaryTrie.get_from_proof(root, rlp.encode(index), nodes)
    except (BadTrieProof, RLPException, RecursionError, ValueError, TypeError, KeyError, IndexError) as error:
        raise ProofError(f"the nodes do not lead from root 0x{root.hex()} to item {index}: {error}") from error
    if not item:
        raise ProofError(f"root 0x{root.hex()} has no item {index}")
    return bytes(item)


def _trie(items: Sequence[bytes]) -> HexaryTrie:
    trie = HexaryTrie({})
    with trie.squash_changes() as changes:
        for index, item in enumerate(items):
            changes[rlp.encode(index)] = item
    return trie
