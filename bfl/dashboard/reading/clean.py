"""Values of files and answers that anybody may have written: of the right type, in bounds, printable, or left out."""

import math
from collections.abc import Mapping
from typing import Any

MOST_TEXT = 300
_MOST_WHOLE = 2**53
"""The largest that JavaScript counts to"""


def whole(value: Any, otherwise: int = 0, least: int = 0, most: int = _MOST_WHOLE) -> int:
    """A whole number within bounds."""
    return value if type(value) is int and least <= value <= most else otherwise


def index(value: Any) -> int | None:
    """The number of a server or device; None where there is none."""
    return value if type(value) is int and 0 <= value < 2**31 else None


def number(value: Any) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def text(value: Any, most: int = MOST_TEXT) -> str:
    """A text without what would move a cursor or turn the writing around; cut where it is long."""
    if not isinstance(value, str):
        return ""
    return "".join(each if each.isprintable() else "\ufffd" for each in value[:most])


def numbers(value: Any, most: int = 32) -> dict[str, float]:
    """Numbers by name."""
    if not isinstance(value, Mapping):
        return {}
    found = {text(name, 40): number(each) for name, each in list(value.items())[:most]}
    return {name: each for name, each in found.items() if each is not None}


def listed(value: Any, most: int) -> list[Any]:
    """The first entries of a list."""
    return value[:most] if isinstance(value, list) else []


def hex_text(value: Any, digits: int) -> str:
    """0x and so many digits, from a text with or without 0x; empty for anything else."""
    if not isinstance(value, str):
        return ""
    bare = value.removeprefix("0x").lower()
    is_hex = len(bare) == digits and all(each in "0123456789abcdef" for each in bare)
    return f"0x{bare}" if is_hex else ""
