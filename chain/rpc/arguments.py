"""JSON-RPC parameters, checked once at the door."""

import re
from typing import Any

from chain.wire.address import ADDRESS_BYTES, Address

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_WORD: int = 2**256
_SHOWN = 80


class ArgumentError(ValueError):
    """A parameter that is not what the method takes."""


def number(value: Any, name: str) -> int:
    """A quantity of at most 256 bits, such as 0x1f."""
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return int(value, 16)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _WORD:
        return value
    raise ArgumentError(f"{name}: found {excerpt(value)}, expected a quantity such as 0x1f")


def data(value: Any, name: str) -> bytes:
    """Bytes such as 0x00ff."""
    if isinstance(value, str) and value[:2] == "0x":
        try:
            found = bytes.fromhex(value[2:])
        except ValueError:
            found = b""
        if 2 * len(found) == len(value) - 2:  # `fromhex` skips spaces, tabs and line ends
            return found
    raise ArgumentError(f"{name}: found {excerpt(value)}, expected bytes such as 0x00ff")


def sized_bytes(value: Any, size: int, name: str) -> bytes:
    """Bytes such as 0x00ff, exactly `size` of them."""
    found = data(value, name)
    if len(found) != size:
        raise ArgumentError(f"{name}: found {len(found)} bytes, expected {size}")
    return found


def address(value: Any, name: str = "address") -> Address:
    """An address: exactly 20 bytes in hex."""
    return Address(sized_bytes(value, ADDRESS_BYTES, name))


def hash32(value: Any, name: str = "hash") -> bytes:
    """A hash: exactly 32 bytes in hex."""
    return sized_bytes(value, 32, name)


def flag(value: Any, name: str) -> bool:
    """JSON's true or false, and nothing that merely counts as one."""
    if isinstance(value, bool):
        return value
    raise ArgumentError(f"{name}: found {excerpt(value)}, expected true or false")


def mapping(value: Any, name: str) -> dict[str, Any]:
    """A JSON object, as a mapping."""
    if isinstance(value, dict):
        return value
    raise ArgumentError(f"{name}: found {excerpt(value)}, expected an object")


def bounded_list(value: Any, name: str, most: int) -> list[Any]:
    """A list of at most `most` entries; what they are is for the caller to check."""
    if not isinstance(value, list):
        raise ArgumentError(f"{name}: found {excerpt(value)}, expected a list")
    if len(value) > most:
        raise ArgumentError(f"{name}: found a list of {len(value)}, expected at most {most}")
    return value


def excerpt(value: Any) -> str:
    """A value for a message: short, whatever it is. Lists and objects may be deep or long, so only their kind."""
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, str):
        value = value[: _SHOWN + 1]  # before `repr`, which could make it four times as long
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
