"""Receipts and tries against py-evm's own, and proofs that prove nothing else than what is there."""

import contextlib
import random
import time
import tracemalloc
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
import rlp
from eth.db.trie import make_trie_root_and_nodes
from eth.rlp.logs import Log as PyEvmLog
from eth.rlp.receipts import Receipt as PyEvmReceipt
from eth_hash.auto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.errors import ProofError
from chain.wire.receipts import (
    EMPTY_TRIE_ROOT,
    Log,
    Receipt,
    block_bloom,
    decode_receipt,
    inclusion_proof,
    proven_item,
    trie_root,
    unpack_receipts,
)

word = st.binary(min_size=32, max_size=32)
logs = st.builds(
    Log,
    address=st.binary(min_size=20, max_size=20),
    topics=st.lists(word, max_size=4).map(tuple),
    data=st.binary(max_size=80),
)
receipts = st.builds(
    Receipt, status=st.integers(0, 1), gas_used=st.integers(0, 2**63), logs=st.lists(logs, max_size=3).map(tuple)
)
items = st.lists(st.binary(min_size=1, max_size=120), min_size=1, max_size=300)
PLAIN = Receipt(1, 21_000, (Log(b"\x0a" * 20, (b"\x0b" * 32,), b"data"),))


def oracle(receipt: Receipt) -> PyEvmReceipt:
    logs = [PyEvmLog(log.address, [int.from_bytes(t, "big") for t in log.topics], log.data) for log in receipt.logs]
    return PyEvmReceipt(b"\x01" if receipt.status else b"", receipt.gas_used, logs)


class Item:
    """py-evm's tries hold objects that encode themselves."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def encode(self) -> bytes:
        return self.raw


def oracle_root(raw: Sequence[bytes]) -> bytes:
    return bytes(make_trie_root_and_nodes(tuple(Item(each) for each in raw))[0])


# --- receipts


@given(receipts)
def test_bytes_and_bloom_are_py_evms(receipt: Receipt) -> None:
    theirs = oracle(receipt)
    assert receipt.encoded == b"\x02" + bytes(rlp.encode(theirs))
    assert receipt.bloom == int(theirs.bloom)


@given(receipts)
def test_a_receipt_survives_the_wire(receipt: Receipt) -> None:
    assert decode_receipt(receipt.encoded) == receipt


@given(st.lists(receipts, max_size=4))
def test_the_blooms_of_a_block_are_united(several: list[Receipt]) -> None:
    united = block_bloom(several)
    assert all(receipt.bloom & united == receipt.bloom for receipt in several)
    assert bin(united).count("1") <= sum(bin(receipt.bloom).count("1") for receipt in several)


def test_every_address_and_topic_sets_three_bits_at_most() -> None:
    """Address and topic of the plain receipt: bits worked out from keccak as the yellow paper says."""
    expected = 0
    for value in (b"\x0a" * 20, b"\x0b" * 32):
        hashed = keccak(value)
        for i in (0, 2, 4):
            expected |= 1 << (int.from_bytes(hashed[i : i + 2], "big") % 2048)
    assert PLAIN.bloom == expected


@given(receipts, st.data())
def test_a_changed_receipt_is_refused_or_another_one_in_its_one_form(receipt: Receipt, data: st.DataObject) -> None:
    raw = bytearray(receipt.encoded)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProofError):
        found = decode_receipt(bytes(raw))
        assert found != receipt
        assert found.encoded == bytes(raw)


@given(st.binary(max_size=400))
def test_random_bytes_are_no_receipt(raw: bytes) -> None:
    for damaged in (raw, b"\x02" + raw):
        with pytest.raises(ProofError):
            decode_receipt(damaged)


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize(
    "item", [b"", b"\x00", b"\x02", b"x" * 256, [], [[]], [[b"x", b"y", b"z"]], [[b"", [], [b""]]]]
)
def test_a_receipt_with_another_field_is_refused(position: int, item: Any) -> None:
    fields = rlp.decode(PLAIN.encoded[1:])
    fields[position] = item
    with contextlib.suppress(ProofError):
        assert decode_receipt(b"\x02" + rlp.encode(fields)).encoded == b"\x02" + rlp.encode(fields)


def test_a_receipt_with_a_bloom_that_is_not_its_own_is_refused() -> None:
    fields = rlp.decode(PLAIN.encoded[1:])
    fields[2] = bytes(256)
    with pytest.raises(ProofError, match="not in canonical form"):
        decode_receipt(b"\x02" + rlp.encode(fields))


def test_lists_within_lists_are_no_receipt() -> None:
    raw = b"\xc0"
    for _ in range(3000):
        size = len(raw).to_bytes((len(raw).bit_length() + 7) // 8, "big")
        raw = (bytes([0xC0 + len(raw)]) if len(raw) < 56 else bytes([0xF7 + len(size)]) + size) + raw
    with pytest.raises(ProofError, match="does not decode"):
        decode_receipt(b"\x02" + raw)
    with pytest.raises(ProofError, match="do not lead") as refusal:
        proven_item(bytes(32), 0, [raw])
    assert len(str(refusal.value)) < 500


# --- tries


def test_no_items_have_the_empty_root() -> None:
    assert trie_root([]) == EMPTY_TRIE_ROOT == oracle_root([])


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 127, 128, 129, 130, 255, 256, 257, 600])
@pytest.mark.parametrize("size", [1, 31, 33, 200])
def test_the_root_is_py_evms_for_every_shape_of_trie(count: int, size: int) -> None:
    raw = [index.to_bytes(2, "big") + b"x" * size for index in range(count)]
    assert trie_root(raw) == oracle_root(raw)


@settings(max_examples=50)
@given(items)
def test_the_root_is_py_evms_for_any_items(raw: list[bytes]) -> None:
    assert trie_root(raw) == oracle_root(raw)


@settings(max_examples=50)
@given(items, st.data())
def test_every_item_is_proven_and_no_other(raw: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(raw) - 1))
    root, proof = trie_root(raw), inclusion_proof(raw, index)
    assert proven_item(root, index, proof) == raw[index]
    with pytest.raises(ProofError):
        proven_item(root, len(raw), inclusion_proof(raw, len(raw)))


@pytest.mark.parametrize("count", [1, 2, 20])
def test_the_way_to_an_item_that_is_not_there_leads_to_none(count: int) -> None:
    raw = [bytes([i]) * 32 for i in range(count)]
    with pytest.raises(ProofError):
        proven_item(trie_root(raw), count, inclusion_proof(raw, count))


def test_a_proof_is_of_one_root_and_one_index() -> None:
    raw = [b"item %d of a block, longer than a hash is" % i for i in range(20)]
    root, proof = trie_root(raw), inclusion_proof(raw, 7)
    with pytest.raises(ProofError, match=f"from root 0x{'07' * 32} to item 7"):
        proven_item(b"\x07" * 32, 7, proof)
    with pytest.raises(ProofError, match="to item 8"):
        proven_item(root, 8, proof)
    with pytest.raises(ProofError, match="to item 7"):
        proven_item(root, 7, proof[:-1])
    with pytest.raises(ProofError, match="to item 7"):
        proven_item(root, 7, [])
    with pytest.raises(ProofError, match="to item -1"):
        proven_item(root, -1, proof)


def test_no_damaged_proof_proves_anything_else() -> None:
    raw = [b"item %d of a block, longer than a hash is" % i for i in range(200)]
    root, honest = trie_root(raw), inclusion_proof(raw, 150)
    strange: list[Any] = [b"", [], [b""] * 17, [b"a", b"b"], [[], []], [[b"x"]] * 17, [b"", []], [b" " * 40, b""]]
    rng = random.Random(0)
    for _ in range(3000):
        nodes = [bytearray(node) for node in honest]
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(nodes))
            kind = rng.randrange(4)
            if kind == 0 and nodes[at]:
                nodes[at][rng.randrange(len(nodes[at]))] = rng.randrange(256)
            elif kind == 1:
                nodes[at] = nodes[at][: rng.randrange(len(nodes[at]) + 1)]
            else:
                nodes.insert(at, bytearray(rlp.encode(rng.choice(strange))))
        for claimed in (root, keccak(bytes(nodes[0]))):
            with contextlib.suppress(ProofError):
                found = proven_item(claimed, 150, [bytes(node) for node in nodes])
                assert found == raw[150] or claimed != root


# --- packed


def packed(encoded: bytes) -> bytes:
    return zlib.compress(encoded)


def test_packed_receipts_are_unpacked() -> None:
    assert unpack_receipts(packed(rlp.encode([PLAIN.encoded, PLAIN.encoded]))) == (PLAIN, PLAIN)
    assert unpack_receipts(packed(b"\xc0")) == ()


@pytest.mark.parametrize(
    "content",
    [bytes(100 << 20), b"\xfb\x03\x00\x00\x00" + b"\x01" * (3 << 24), b"\xfb\x03\x00\x00\x00" + b"\xc0" * (3 << 24)],
    ids=["too many bytes", "items", "lists"],
)
def test_what_unpacks_to_megabytes_is_refused_at_once(content: bytes) -> None:
    bomb = packed(content)
    tracemalloc.start()
    before_s = time.process_time()
    try:
        with pytest.raises(ProofError, match=r"they are cut off, or too many|more than 4096 items|deep"):
            unpack_receipts(bomb)
        assert time.process_time() - before_s < 5.0
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("raw", [b"", b"\xff\xff", packed(b"x"), packed(b""), packed(rlp.encode([b"x"]))[:-4]])
def test_what_is_no_list_of_receipts_is_refused(raw: bytes) -> None:
    with pytest.raises(ProofError):
        unpack_receipts(raw)


def test_a_receipt_has_so_many_items_and_is_so_deep() -> None:
    many = b"\x02" + rlp.encode([b"\x01", b"", bytes(256), [[bytes(20), [], b""]] * 4000])
    with pytest.raises(ProofError, match="more than 8192 items"):
        decode_receipt(many)
