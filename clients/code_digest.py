"""What stands for code of others in a founding: the sha256 of the text that it was read from.

Of a function that others can import it is the whole file, because what it calls is mostly beside it. Of one that was
typed at a prompt, in a notebook or in the script that runs, it is its own text and the values it is closed over; those
of its defaults too.
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_DEEPEST = 20
"""Of lists in lists that are looked into: one may be in itself"""
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


def module_file_digest(module_name: str, places: Sequence[str]) -> str:
    """sha256 of the file that a module would be read from, found without importing anything; empty where there is no
    such file.
    """
    path: Sequence[str] | None = places
    parts, origin = module_name.split("."), ""
    for count in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:count]), path) if path else None
        if spec is None:
            return ""
        path, origin = spec.submodule_search_locations, spec.origin or ""
    source = Path(origin)
    return hashlib.sha256(source.read_bytes()).hexdigest() if source.suffix == ".py" and source.is_file() else ""


def _text_of(function: Callable[..., Any]) -> bytes:
    if isinstance(function, partial):
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
    kept = [cell.cell_contents for cell in closure]
    standard = [getattr(inner, "__defaults__", None), getattr(inner, "__kwdefaults__", None)]
    return _source(inner) + _shown(kept) + (_shown(standard) if any(standard) else b"")


def _shown(values: object) -> bytes:
    return _ADDRESS.sub("", _written(values, _DEEPEST)).encode()


def _written(value: Any, depth: int) -> str:
    """Like `repr`, with all numbers of an array, and sets in an order that is the same in every process."""
    inside = partial(_written, depth=depth - 1)
    if depth and type(value) in (list, tuple, set, frozenset):
        parts = [inside(each) for each in value]
        ends = "[]" if type(value) is list else "()" if type(value) is tuple else "{}"
        last = "," if type(value) is tuple and len(parts) == 1 else ""
        return ends[0] + ", ".join(parts if ends != "{}" else sorted(parts)) + last + ends[1]
    if depth and type(value) is dict:
        return "{" + ", ".join(f"{inside(key)}: {inside(each)}" for key, each in value.items()) + "}"
    array: Any = value.detach().cpu().numpy() if hasattr(value, "detach") else value
    if hasattr(array, "tobytes") and hasattr(array, "dtype") and not getattr(array.dtype, "hasobject", True):
        content = hashlib.sha256(array.tobytes()).hexdigest()
        return f"array({array.dtype}, {getattr(array, 'shape', ())}, {content})"
    return repr(value)


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
