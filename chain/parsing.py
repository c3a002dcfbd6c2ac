"""JSON-RPC parameters, checked once at the door."""

import re
from typing import Any

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_DATA = re.compile(r"0x(?:[0-9a-fA-F]{2})*")


class ParameterError(ValueError):
    """A parameter that is not what the method takes."""


def number(value: Any, name: str) -> int:
    """A quantity such as 0x1f."""
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return int(value, 16)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ParameterError(f"{name}: found {_shown(value)}, expected a quantity such as 0x1f")


def data(value: Any, name: str) -> bytes:
    """Bytes such as 0x00ff."""
    if isinstance(value, str) and value[:2] == "0x":
        try:
            return bytes.fromhex(value[2:]) if " " not in value else _refuse(value, name)
        except ValueError:
            return _refuse(value, name)
    return _refuse(value, name)


def _refuse(value: Any, name: str) -> bytes:
    raise ParameterError(f"{name}: found {_shown(value)}, expected bytes such as 0x00ff")


def fixed(value: Any, size: int, name: str) -> bytes:
    """Exactly `size` bytes."""
    found = data(value, name)
    if len(found) != size:
        raise ParameterError(f"{name}: found {len(found)} bytes, expected {size}")
    return found


def address(value: Any, name: str = "address") -> bytes:
    """20 bytes."""
    return fixed(value, 20, name)


def hash32(value: Any, name: str = "hash") -> bytes:
    """32 bytes."""
    return fixed(value, 32, name)


def flag(value: Any, name: str) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    raise ParameterError(f"{name}: found {_shown(value)}, expected true or false")


def mapping(value: Any, name: str) -> dict[str, Any]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise ParameterError(f"{name}: found {_shown(value)}, expected an object")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
