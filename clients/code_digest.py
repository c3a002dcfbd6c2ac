"""What stands for code of others in a founding: the sha256 of the text that it was read from.

Of a function that others can import it is the whole file, because what it calls is mostly beside it. Of one that was
typed at a prompt, in a notebook or in the script that runs, it is its own text and the values it is closed over.
"""

import functools
import hashlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_known: dict[int, tuple[object, str]] = {}
"""By the function's id, which stays its own because the function is kept: a file that is edited after its import is not
the code that runs.
"""


def code_digest(function: Callable[..., Any]) -> str:
    """sha256 of the code behind a function, as it was when it was first asked for."""
    if id(function) not in _known:
        _known[id(function)] = function, hashlib.sha256(_text_of(function)).hexdigest()
    return _known[id(function)][1]


def importable_name(function: Callable[..., Any]) -> str:
    """`module:function` where that leads to the function; empty for a lambda, a method, a partial."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
    is_named = all(part.isidentifier() for part in (*module.split("."), name))
    return f"{module}:{name}" if is_named else ""


def _text_of(function: Callable[..., Any]) -> bytes:
    if isinstance(function, functools.partial):
        return _text_of(function.func) + _shown((function.args, sorted(function.keywords.items())))
    inner: Any = inspect.unwrap(function)
    state = getattr(inner, "__self__", None)  # of a method
    if state is not None and not inspect.ismodule(state):
        return _text_of(inner.__func__) + _shown(state) if hasattr(inner, "__func__") else _shown(inner)
    if not (inspect.isfunction(inner) or inspect.isclass(inner)):  # an object that can be called, or one made in C
        return _source(type(inner)) + _shown(inner)
    if importable_name(inner) and inner.__module__ != "__main__":
        return _file(inner) or _source(inner)
    closure = getattr(inner, "__closure__", None) or ()
    return _source(inner) + _shown([cell.cell_contents for cell in closure])


def _shown(values: object) -> bytes:
    return _ADDRESS.sub("", repr(values)).encode()


def _file(thing: Any) -> bytes:
    try:
        path = inspect.getsourcefile(thing)
        return Path(path).read_bytes() if path else b""
    except (OSError, TypeError):
        return b""


def _source(thing: Any) -> bytes:
    """Its own text; its instructions where no text is left of it."""
    try:
        return inspect.getsource(thing).encode()
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return code.co_code + _shown(code.co_consts) if code else _shown(thing)
