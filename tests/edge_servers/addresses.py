"""Addresses that stand for a number, where nobody signs."""

from chain.wire.address import ADDRESS_BYTES, Address


def address(number: int) -> Address:
    """0x00...01 is participant 1; ascending, as the numbers are."""
    return Address(number.to_bytes(ADDRESS_BYTES, "big"))
