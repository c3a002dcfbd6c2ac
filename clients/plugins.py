"""The one way into the project for code of others: `module:function`."""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clients.errors import ClientError
from clients.parameters import did_you_mean


def load_plugin(name: str, known: Mapping[str, str], kind: str, error: type[ClientError]) -> Callable[..., Any]:
    """The function behind a known name or behind `module:function`; modules of the current folder count too."""
    target = known.get(name, name)
    module_name, colon, function_name = target.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), function_name)):
        raise error(
            f'{kind}: found "{name}", expected {", ".join(known)} or your own as module:function'
            f"{did_you_mean(name, known)}"
        )
    module = _import(module_name, kind, name, error)
    function = getattr(module, function_name, None)
    if not callable(function):
        public = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise error(f'{kind}: {module_name} has no function "{function_name}"{did_you_mean(function_name, public)}')
    return function  # type: ignore[no-any-return]


def _import(module_name: str, kind: str, name: str, error: type[ClientError]) -> Any:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except (ImportError, SyntaxError) as cause:
        raise error(
            f'{kind} "{name}": cannot import {module_name} ({cause}); is its folder the current one?'
        ) from cause
    finally:
        if added:
            sys.path.remove(here)
