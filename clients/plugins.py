"""The one way into the project for code of others: `module:function`.

A person who types such a name decides what runs. A file that has one in it decides nothing (Q4): whoever reads settings
from files asks `foreign_plugins` first, before anything is imported.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clients.errors import ClientError
from clients.parameters import did_you_mean

DATASETS = {
    "fashion-mnist": "clients.data:fashion_mnist",
    "svhn": "clients.data:svhn",
    "synthetic": "clients.data:synthetic",
}
MODELS = {
    "fashion-mnist-cnn": "clients.models:fashion_mnist_cnn",
    "svhn-cnn": "clients.models:svhn_cnn",
}
OURS = {"dataset": DATASETS, "model": MODELS}
"""Settings that may name code, and the names of ours: these functions, not whatever else is in our modules"""


def foreign_plugins(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings that name code of others, by key. Without a colon nothing is ever imported."""
    named = {key: str(settings[key]) for key in OURS if key in settings}
    return {key: name for key, name in named.items() if ":" in name and name not in OURS[key].values()}


def load_plugin(name: str, known: Mapping[str, str], kind: str, error: type[ClientError]) -> Callable[..., Any]:
    """The function behind a known name or behind `module:function`; modules of the current folder count too."""
    target = known.get(name, name)
    module_name, colon, function_name = target.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), function_name)):
        raise error(
            f'{kind}: found "{name}", expected {", ".join(known)} or your own as module:function'
            f"{did_you_mean(name, known)}"
        )
    is_ours = target in known.values()
    module = importlib.import_module(module_name) if is_ours else _import(module_name, kind, name, error)
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
