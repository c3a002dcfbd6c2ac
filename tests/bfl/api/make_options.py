"""`python -m tests.bfl.api.make_options`: write bfl/api/options.py anew from the settings."""

import json
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from typing import Any

from bfl.config import PARAMS, all_fields
from clients.plugins import OPEN_POINTS

FILE = Path(__file__).parents[3] / "bfl" / "api" / "options.py"
_HEAD = '''"""The settings of `bfl.simulate` as a type, so that editors complete and check them.

Written by `python -m tests.bfl.api.make_options` from the settings themselves; a test compares them.
"""

from collections.abc import Callable
from typing import Any, Literal, TypedDict

Code = Callable[..., Any]
"""A function in place of a name"""


# fmt: off
class RunOptions(TypedDict, total=False):
    """Every setting, by its name in Python."""
'''
_OPEN = {"filter": " | Code | list[str | Code]", "attack": " | tuple[Code, str] | list[str | tuple[Code, str]]"}
"""Where several may be given, or a function with the rounds in which it is at work; elsewhere a function"""
_NUMBERS_TOO = ("phi", "hidden", "keep-payloads")
"""Texts that are mostly numbers"""
_WIDTH = 120


def options_text() -> str:
    """The whole file."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for cls in PARAMS:
        yield f"\n    # {cls.__name__}"
        yield from (
            _option(key, field) for key, field in all_fields().items() if field.name in cls.__dataclass_fields__
        )


def _option(key: str, field: "Field[Any]") -> str:
    choices, kind = field.metadata["choices"], type(field.default).__name__
    if not choices:
        return f"    {field.name}: {kind}{' | int' * (key in _NUMBERS_TOO)}{_open(key)}"
    names, more = [json.dumps(each) for each in choices], " | str" * field.metadata["is_open"] + _open(key)
    line = f"    {field.name}: Literal[{', '.join(names)}]{more}"
    if len(line) <= _WIDTH:
        return line
    return f"    {field.name}: Literal[\n        " + ",\n        ".join(names) + f",\n    ]{more}"


def _open(key: str) -> str:
    return _OPEN.get(key, " | Code") if key in OPEN_POINTS else ""


if __name__ == "__main__":
    FILE.write_text(options_text(), encoding="utf-8")
