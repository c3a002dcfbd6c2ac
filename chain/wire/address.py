"""One type for whoever takes part: the 20 bytes of an address, which people read as 0x and lower-case hex."""

import re

from chain.errors import CodecError

ADDRESS_BYTES = 20
_TEXT = re.compile(r"0x[0-9a-fA-F]{40}")


class Address(bytes):
    """The address of a server, a device or a contract. Bytes where it is hashed, signed and sorted; `str` for people.

    Equal to the same bytes, so that what comes from a transaction or a header needs no conversion to be compared.
    """

    __slots__ = ()

    def __new__(cls, found: bytes | str) -> "Address":
        """From 20 bytes, or from a text such as 0x00...ff; `CodecError` for anything else."""
        if isinstance(found, str):
            if not _TEXT.fullmatch(found):
                raise CodecError(f"found {found!r:.60}, expected 0x and {2 * ADDRESS_BYTES} hex digits")
            found = bytes.fromhex(found[2:])
        if len(found) != ADDRESS_BYTES:
            raise CodecError(f"found {len(found)} bytes of address, expected {ADDRESS_BYTES}")
        return super().__new__(cls, found)

    def __str__(self) -> str:
        return f"0x{self.hex()}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __format__(self, form: str) -> str:
        return format(str(self), form)
