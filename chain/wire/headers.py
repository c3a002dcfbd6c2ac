"""A block header without py-evm: all that a device needs to mine, to check a seal, or to follow the chain (C6).

The wire form is that of py-evm's `LondonBlockHeader`: an RLP list of 16 items, whole numbers without leading zeros
except the bloom filter, which always has 256 bytes. One header has one form, so its hash names exactly one header.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import rlp
from eth_hash.auto import keccak
from rlp.codec import consume_length_prefix

from chain.errors import MalformedBlockError
from chain.wire.address import ADDRESS_BYTES, Address

_HASHES = ("parent_hash", "uncles_hash", "state_root", "transaction_root", "receipt_root", "mix_hash")
_BYTES = dict.fromkeys(_HASHES, 32) | {"coinbase": ADDRESS_BYTES, "nonce": 8}
_NUMBERS = ("difficulty", "block_number", "gas_limit", "gas_used", "timestamp", "base_fee_per_gas")
_SEAL = ("mix_hash", "nonce")
_BLOOM_BYTES = 256
_NUMBER_BYTES = 32
_LONGEST_EXTRA_DATA = 32
_LONGEST_HEADER = 1024


@dataclass(frozen=True)
class Header:
    """A London block header, its fields in the order of the wire. It is well-formed; its seal may be wrong."""

    parent_hash: bytes
    uncles_hash: bytes
    coinbase: Address
    state_root: bytes
    transaction_root: bytes
    receipt_root: bytes
    bloom: int
    difficulty: int
    block_number: int
    gas_limit: int
    gas_used: int
    timestamp: int
    extra_data: bytes
    mix_hash: bytes
    nonce: bytes
    base_fee_per_gas: int

    def __post_init__(self) -> None:
        """Refuse what has no canonical form, whoever made it."""
        for name, expected in _BYTES.items():
            if (found := len(getattr(self, name))) != expected:
                raise MalformedBlockError(f"found {found} bytes of {name}, expected {expected}")
        object.__setattr__(self, "coinbase", Address(self.coinbase))
        if len(self.extra_data) > _LONGEST_EXTRA_DATA:
            raise MalformedBlockError(
                f"found {len(self.extra_data)} bytes of extra_data, expected at most {_LONGEST_EXTRA_DATA}"
            )
        for name in (*_NUMBERS, "bloom"):
            bits = 8 * (_BLOOM_BYTES if name == "bloom" else _NUMBER_BYTES)
            if not 0 <= getattr(self, name) < 1 << bits:
                raise MalformedBlockError(f"found {name} outside of 0..2**{bits}-1")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Header":
        """The header with exactly these bytes; `MalformedBlockError` where there is none."""
        items = _items(data)
        names = [field.name for field in fields(cls)]
        if len(items) != len(names):
            raise MalformedBlockError(f"found {len(items)} fields in a header, expected {len(names)}")
        values: dict[str, Any] = {name: _value(name, item) for name, item in zip(names, items, strict=True)}
        return cls(**values)

    def to_bytes(self) -> bytes:
        """The canonical RLP, ~514 bytes."""
        return self._encode(without=())

    @cached_property
    def hash(self) -> bytes:
        """What the next block names as its parent; covers the seal."""
        return keccak(self.to_bytes())

    @cached_property
    def mining_hash(self) -> bytes:
        """What is sealed (C5): everything but the seal, so also the winner's address. A stolen nonce does not fit."""
        return keccak(self._encode(without=_SEAL))

    @property
    def winner(self) -> Address | None:
        """The device that sealed this block, or would (C6); none in the genesis block."""
        return Address(self.extra_data) if len(self.extra_data) == ADDRESS_BYTES else None

    def for_winner(self, address: bytes) -> "Header":
        """The header that this device mines: the same block, its own puzzle."""
        if len(address) != ADDRESS_BYTES:
            raise MalformedBlockError(f"found {len(address)} bytes of winner, expected {ADDRESS_BYTES}")
        return replace(self, extra_data=address)

    def with_nonce(self, nonce: bytes) -> "Header":
        """The header with this nonce, which is not checked here (`chain.wire.seal.check_seal`)."""
        return replace(self, nonce=nonce)

    def _encode(self, without: tuple[str, ...]) -> bytes:
        names = [field.name for field in fields(self) if field.name not in without]
        encoded: bytes = rlp.encode([_item(name, getattr(self, name)) for name in names])
        return encoded


def _item(name: str, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes(_BLOOM_BYTES if name == "bloom" else (value.bit_length() + 7) // 8, "big")


def _value(name: str, item: bytes) -> int | bytes:
    if name == "bloom":
        if len(item) != _BLOOM_BYTES:
            raise MalformedBlockError(f"found {len(item)} bytes of bloom, expected {_BLOOM_BYTES}")
        return int.from_bytes(item, "big")
    if name not in _NUMBERS:
        return item
    if item.startswith(b"\0"):
        raise MalformedBlockError(f"found {name} 0x{item[:_NUMBER_BYTES].hex()}, expected no leading zeros")
    return int.from_bytes(item, "big")


def _items(data: bytes) -> list[bytes]:
    """The items of a flat RLP list. `rlp.decode` follows nested lists: 1,000 bytes 0xd0 overflow the stack there."""
    if not isinstance(data, bytes) or len(data) > _LONGEST_HEADER:
        found = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise MalformedBlockError(f"found {found}, expected at most {_LONGEST_HEADER} bytes of header")
    try:
        _, kind, length, at = consume_length_prefix(data, 0)
        items: list[bytes] = []
        if kind is not list or at + length != len(data):
            raise MalformedBlockError(f"found no RLP list of {len(data)} bytes, expected a header")
        while at < len(data):
            _, kind, length, at = consume_length_prefix(data, at)
            if kind is not bytes or at + length > len(data):
                raise MalformedBlockError(f"found a list or too few bytes as field {len(items)} of a header")
            items.append(data[at : at + length])
            at += length
    except (rlp.DecodingError, IndexError) as error:
        raise MalformedBlockError(f"found {len(data)} bytes that are no RLP, expected a header: {error}") from error
    return items
