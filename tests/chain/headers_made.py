"""A header worked out by hand, any that is well-formed, with a seal or without, and py-evm's own of the same fields."""

from dataclasses import fields

from eth.vm.forks.london.blocks import LondonBlockHeader
from hypothesis import strategies as st

from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.seal import find_nonce, is_sealed

NAMES = [field.name for field in fields(Header)]
NUMBERS = ("difficulty", "block_number", "gas_limit", "gas_used", "timestamp", "base_fee_per_gas")
WINNER = bytes(range(20))
PLAIN = Header(
    parent_hash=b"\x01" * 32,
    uncles_hash=b"\x02" * 32,
    coinbase=Address(b"\x03" * 20),
    state_root=b"\x04" * 32,
    transaction_root=b"\x05" * 32,
    receipt_root=b"\x06" * 32,
    bloom=0,
    difficulty=0x1234,
    block_number=7,
    gas_limit=30_000_000,
    gas_used=0,
    timestamp=1_700_000_000,
    extra_data=WINNER,
    mix_hash=bytes(32),
    nonce=bytes(8),
    base_fee_per_gas=0,
)


def word(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def numbers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


HEADERS = st.builds(
    Header,
    **{name: word(32) for name in NAMES if name.endswith(("_hash", "_root"))},
    **{name: numbers(256) for name in NUMBERS},
    coinbase=word(20),
    bloom=numbers(2048),
    extra_data=st.binary(max_size=32),
    nonce=word(8),
)


def oracle(header: Header) -> LondonBlockHeader:
    return LondonBlockHeader(**{name: getattr(header, name) for name in NAMES})


def sealed(header: Header) -> Header:
    """With a nonce that is worth its difficulty."""
    nonce = find_nonce(header.mining_hash, header.difficulty)
    assert nonce is not None
    return header.with_nonce(nonce)


def unsealed(header: Header) -> Header:
    """With a nonce that is not."""
    found = (header.with_nonce(number.to_bytes(8, "big")) for number in range(1000))
    return next(each for each in found if not is_sealed(each.mining_hash, each.nonce, each.difficulty))
