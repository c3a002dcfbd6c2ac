"""Receipts and the tries a header commits to: roots and Merkle proofs of transactions and receipts."""

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import rlp
from eth_bloom import BloomFilter
from eth_hash.auto import keccak
from rlp.exceptions import RLPException
from trie import HexaryTrie
from trie.exceptions import BadTrieProof, InvalidNibbles, InvalidNode, ValidationError
from trie.utils.nibbles import bytes_to_nibbles

from chain.errors import ProofError, ReceiptRootError, TransactionRootError
from chain.wire.headers import Header
from chain.wire.lists import decode_list, encode_rlp
from chain.wire.transactions import TYPE, Transaction

EMPTY_TRIE_ROOT = keccak(rlp.encode(b""))
_MALFORMED = (RLPException, RecursionError, ValueError, TypeError, KeyError, IndexError)
_NO_PATH = (BadTrieProof, InvalidNibbles, InvalidNode, ValidationError)
_NAMED_BY_HASH = 32
_RECEIPT_ITEMS, _RECEIPT_DEPTH = 8192, 4
_NODE_ITEMS, _NODE_DEPTH = 1024, 32
_MOST_RECEIPTS, _RECEIPTS_BYTES = 4096, 64 << 20
"""Of a block; zeros unpack to a thousand times as many bytes"""
_SHOWN_CHARACTERS = 200  # of an error that may quote a whole node


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
        bloom = 0
        for log in self.logs:
            for each in (log.address, *log.topics):
                bloom |= _bloom_bits(bytes(each))
        return bloom

    @functools.cached_property
    def encoded(self) -> bytes:
        """Canonical bytes of a type-2 receipt."""
        logs = [[log.address, list(log.topics), log.data] for log in self.logs]
        status = b"\x01" if self.status else b""
        gas = self.gas_used.to_bytes((self.gas_used.bit_length() + 7) // 8, "big")
        fields = [status, gas, self.bloom.to_bytes(256, "big"), logs]
        return TYPE + encode_rlp(fields)


@functools.lru_cache(maxsize=4096)
def _bloom_bits(value: bytes) -> int:
    """Addresses and most topics come again and again."""
    bloom = BloomFilter()
    bloom.add(value)
    return int(bloom)


def decode_receipt(encoded: bytes) -> Receipt:
    """A receipt from its canonical bytes; `ProofError` if they are none."""
    try:
        status, gas, _, logs = decode_list(encoded[1:], _RECEIPT_ITEMS, _RECEIPT_DEPTH)
        receipt = Receipt(
            status=1 if status == b"\x01" else 0,
            gas_used=int.from_bytes(gas, "big"),
            logs=tuple(Log(address, tuple(topics), data) for address, topics, data in logs),
        )
        if receipt.encoded == encoded:
            return receipt
    except _MALFORMED as error:
        raise ProofError(f"the receipt does not decode: {str(error)[:_SHOWN_CHARACTERS]}") from error
    raise ProofError("the receipt is not in canonical form")


def unpack_receipts(packed: bytes) -> tuple[Receipt, ...]:
    """The receipts of a block as they are kept and sent, zlib of an RLP list; `ProofError` if they are none.

    Whatever they unpack to, that is found out in bounded memory (Q6).
    """
    unpacking = zlib.decompressobj()
    try:
        encoded = unpacking.decompress(packed, _RECEIPTS_BYTES)
        raw = decode_list(encoded, _MOST_RECEIPTS) if unpacking.eof else None
    except (RLPException, zlib.error) as error:
        raise ProofError(f"they do not decode: {error}") from error
    if raw is None:
        raise ProofError("they are cut off, or too many")
    return tuple(decode_receipt(each) for each in raw)


def block_bloom(receipts: Sequence[Receipt]) -> int:
    """Bloom filter of a whole block."""
    bloom = 0
    for receipt in receipts:
        bloom |= receipt.bloom
    return bloom


def trie_root(items: Sequence[bytes]) -> bytes:
    """Root of the trie index -> item, from the leaves up: each item is hashed once, which `trie` does not promise."""
    if not items:
        return EMPTY_TRIE_ROOT
    leaves = [(bytes_to_nibbles(rlp.encode(index)), item) for index, item in enumerate(items)]
    return bytes(keccak(encode_rlp(_node(leaves, 0))))


def _node(leaves: list[tuple[tuple[int, ...], bytes]], depth: int) -> list[Any]:
    """The node over leaves whose keys are equal up to `depth`; no index is a prefix of another: branches hold none."""
    first = leaves[0][0]
    if len(leaves) == 1:
        return [_compact(first[depth:], is_leaf=True), leaves[0][1]]
    shared = depth
    while all(key[shared] == first[shared] for key, _ in leaves):
        shared += 1
    if shared > depth:
        return [_compact(first[depth:shared], is_leaf=False), _reference(_node(leaves, shared))]
    branch: list[Any] = [b""] * 17
    for nibble in range(16):
        below = [(key, item) for key, item in leaves if key[depth] == nibble]
        if len(below) == 1:
            branch[nibble] = _leaf_reference(below[0][0][depth + 1 :], below[0][1])
        elif below:
            branch[nibble] = _reference(_node(below, depth + 1))
    return branch


@functools.lru_cache(maxsize=512)
def _leaf_reference(path: tuple[int, ...], item: bytes) -> Any:
    """As `_reference`; whoever builds a block proves its model next, and leaves are what costs time to hash."""
    leaf = [_compact(path, is_leaf=True), item]
    encoded = encode_rlp(leaf)
    return keccak(encoded) if len(encoded) >= _NAMED_BY_HASH else leaf


def _reference(node: list[Any]) -> Any:
    """How a node names another: by hash, or whole if that is shorter."""
    encoded = encode_rlp(node)
    return keccak(encoded) if len(encoded) >= _NAMED_BY_HASH else node


def _compact(nibbles: tuple[int, ...], is_leaf: bool) -> bytes:
    """Hex-prefix encoding of a path."""
    odd = len(nibbles) % 2
    flagged = (2 * is_leaf + odd, *nibbles) if odd else (2 * is_leaf, 0, *nibbles)
    return bytes(16 * high + low for high, low in zip(flagged[::2], flagged[1::2], strict=True))


def inclusion_proof(items: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The trie nodes on the way to item `index`, as bytes."""
    is_there = 0 <= index < len(items)
    if not is_there or any(len(item) < _NAMED_BY_HASH for item in items):  # small nodes are part of their parents
        return tuple(rlp.encode(node) for node in _trie(items).get_proof(rlp.encode(index)))
    leaves = [(bytes_to_nibbles(rlp.encode(i)), item) for i, item in enumerate(items)]
    key, depth, nodes = leaves[index][0], 0, []
    while True:
        node = _node(leaves, depth)
        nodes.append(encode_rlp(node))
        if len(leaves) == 1:
            return tuple(nodes)
        if len(node) == 17:
            leaves = [(path, item) for path, item in leaves if path[depth] == key[depth]]
            depth += 1
        else:
            while all(path[depth] == key[depth] for path, _ in leaves):
                depth += 1


def proven_item(root: bytes, index: int, proof: Sequence[bytes]) -> bytes:
    """The item at `index` of a trie with this root; `ProofError` unless the nodes lead there."""
    try:
        nodes = [decode_list(node, _NODE_ITEMS, _NODE_DEPTH) for node in proof]
        item = HexaryTrie.get_from_proof(root, rlp.encode(index), nodes)
    except (*_NO_PATH, *_MALFORMED) as error:
        reason = str(error)[:_SHOWN_CHARACTERS]
        raise ProofError(f"the nodes do not lead from root 0x{root.hex()} to item {index}: {reason}") from error
    if not item or not isinstance(item, bytes):
        raise ProofError(f"root 0x{root.hex()} has no item {index}")
    return item


def _trie(items: Sequence[bytes]) -> HexaryTrie:
    trie = HexaryTrie({})
    with trie.squash_changes() as changes:
        for index, item in enumerate(items):
            changes[rlp.encode(index)] = item
    return trie


def check_roots(header: Header, transactions: Sequence[Transaction], receipts: Sequence[Receipt]) -> None:
    """Every byte of a block hangs on its header."""
    if trie_root([transaction.raw for transaction in transactions]) != header.transaction_root:
        raise TransactionRootError("its transactions are not those the header commits to")
    check_receipts(header, receipts)
    if len(transactions) != len(receipts):
        raise ReceiptRootError(f"{len(transactions)} transactions have {len(receipts)} receipts")


def check_receipts(header: Header, receipts: Sequence[Receipt]) -> None:
    """Raise `ReceiptRootError` unless the header commits to these receipts."""
    gas = receipts[-1].gas_used if receipts else 0
    found = trie_root([receipt.encoded for receipt in receipts]), block_bloom(receipts), gas
    if found != (header.receipt_root, header.bloom, header.gas_used):
        raise ReceiptRootError("its receipts are not those the header commits to")
