"""The one way into the project for code of others: `module:function`, an entry point, or a function given in Python.

A person who types such a name decides what runs. A file or a chain that has one in it decides nothing (Q4): code of
others is imported only after somebody has permitted it in this process, by its kind and name.
"""

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from clients.code_digest import code_digest, importable_name, module_file_digest
from clients.errors import ClientError
from clients.parameters import did_you_mean

DATASETS = {
    "fashion-mnist": "clients.data:fashion_mnist",
    "svhn": "clients.data:svhn",
    "synthetic": "clients.data:synthetic",
    "cifar-10": "clients.loaders.cifar:cifar_10",
    "csv": "clients.loaders.tables:csv_file",
    "image-folder": "clients.loaders.image_folder:image_folder",
}
MODELS = {
    "fashion-mnist-cnn": "clients.models:fashion_mnist_cnn",
    "svhn-cnn": "clients.models:svhn_cnn",
    "mlp": "clients.models:mlp",
}


@dataclass(frozen=True)
class OpenPoint:
    """A setting that may name code."""

    names: tuple[str, ...]
    """Of ours; what stands after a colon behind one of them is its option"""
    ours: Mapping[str, str] = field(default_factory=dict)
    """Those of ours that are loaded like any other: name -> module:function"""
    separator: str = ""
    """Between several in one text"""
    tail: str = ""
    """What ends the name within a part of the text"""
    prefix: str = ""
    """A word of ours that may stand before the name"""

    def parts(self, text: str) -> list[str]:
        """The names in a text, of ours and of others."""
        each = text.split(self.separator) if self.separator else [text]
        bare = [part.partition(self.tail)[0] if self.tail else part for part in each]
        return [part.strip().removeprefix(self.prefix) for part in bare if part.strip()]

    def is_ours(self, name: str) -> bool:
        """Whether a name is one of ours, with its option if it has one."""
        head, _, option = name.partition(":")
        return name in (*self.names, *self.ours.values()) or (head in self.names and bool(_OPTION.fullmatch(option)))


_OPTION = re.compile(r"[0-9.,e-]+|none")
OFF_CHAIN = "off-chain:"
"""Before an own scheme that is to run without a chain"""
OPEN_POINTS: dict[str, OpenPoint] = {
    "dataset": OpenPoint(tuple(DATASETS), DATASETS),
    "model": OpenPoint(("auto", *MODELS), MODELS),
    "partition": OpenPoint(("iid", "non-iid", "dirichlet", "by-group", "quantity")),
    "optimizer": OpenPoint(("sgd", "adam")),
    "planner": OpenPoint((
        "fixed", "random", "a2c", "random-action", "all-local", "all-offload", "greedy-channel", "threshold",
        "near-optimum",
    )),
    "filter": OpenPoint(
        ("none", "norm-clip", "krum", "trimmed-mean", "median", "nnm", "centred-clip", "direction", "harm", "loss"),
        separator="+",
    ),
    "scheme": OpenPoint(
        ("bfl", "bfl-no-consensus", "consensus-no-chain", "no-consensus-no-chain", "traditional", "fedavg"),
        prefix=OFF_CHAIN,
    ),
    "agent": OpenPoint((
        "a2c", "a2c-best-of", "a2c-searched", "a2c-untrained", "a2c-vanilla", "actor-critic", "a2c-paper", "ddpg",
        "dqn", "a2c-relaxed", "a2c-discretised", "random", "all-local", "all-offload", "greedy-channel", "threshold",
        "near-optimum",
    )),
}  # fmt: skip
"""By kind, which is the setting's key; bfl/config.py adds what honest code does not know. Tests compare the names with
the tables of those who own them.
"""

EVERYTHING = ":"
GIVEN = "given:"
"""Before the digest of a function that has no name of its own"""
_permitted: set[tuple[str, str]] = set()
"""Kind and name, or kind and `EVERYTHING`"""
_offered: dict[tuple[str, str], Callable[..., Any]] = {}
"""Functions that were given in Python, by kind and name"""


def foreign_plugins(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings that name code of others, by key."""
    named = {key: foreign_names(key, str(settings[key])) for key in OPEN_POINTS if key in settings}
    return {key: ", ".join(names) for key, names in named.items() if names}


def foreign_names(kind: str, text: str) -> list[str]:
    """The names in the text of a setting that are code of others, and were not given in Python."""
    return [name for name in code_names(kind, text) if (kind, name) not in _offered]


def code_names(kind: str, text: str) -> list[str]:
    """The names in the text of a setting that are code of others: with a colon, or an entry point."""
    point = OPEN_POINTS[kind]
    others = [name for name in point.parts(text) if not point.is_ours(name)]
    return [name for name in others if ":" in name or name in _entry_points(kind)]


def permit(settings: Mapping[str, object]) -> None:
    """A person has said so: the code that these settings name may be imported in this process, for what they say."""
    for kind in OPEN_POINTS:
        _permitted.update((kind, name) for name in foreign_names(kind, str(settings.get(kind, ""))))


def permit_everything(*kinds: str) -> None:
    """A person has said so: whatever a chain names for these points may be imported in this process."""
    _permitted.update((kind, EVERYTHING) for kind in kinds)


def forget_permissions() -> None:
    """Nothing is permitted any more, and nothing offered."""
    _permitted.clear()
    _offered.clear()


def is_allowed(kind: str, name: str) -> bool:
    """Whether a name that comes from outside is one of ours, or code that somebody has allowed in this process."""
    asked = {(kind, name), (kind, EVERYTHING)}
    return name in OPEN_POINTS[kind].names or bool(asked & _permitted) or (kind, name) in _offered


def is_named(kind: str, name: str) -> bool:
    """Whether a text that is none of our names is one of others: `module:function`, or an entry point."""
    found = OPEN_POINTS[kind].parts(name)
    return bool(found) and all(":" in part or part in _entry_points(kind) for part in found)


def offer(kind: str, function: Callable[..., Any], known_as: str = "") -> str:
    """The name under which a function that was given in Python is known from now on, in this process: its own, or the
    one that a run has recorded.
    """
    if not callable(function):
        raise ClientError(f"{kind}: found {function!r:.80}, expected a name or a function")
    name = known_as or importable_name(function) or f"{GIVEN}{kind}_{code_digest(function)[:12]}"
    before = getattr(_offered.get((kind, name)), "__code__", None)
    if name.startswith(GIVEN) and before not in (None, getattr(function, "__code__", before)):
        raise ClientError(f"{kind}: found two functions of one text ({name}), expected one: give each a name with def")
    _offered[kind, name] = function
    return name


def load_plugin(kind: str, name: str, error: type[Exception]) -> Callable[..., Any]:
    """The function behind a name of ours, an entry point of the group `bfl.KIND`, or `module:function`, of which
    modules of the current folder count too.
    """
    return _offered[kind, name] if (kind, name) in _offered else _loaded(kind, name, error)[1]


def _loaded(kind: str, name: str, error: type[Exception]) -> tuple[ModuleType, Callable[..., Any]]:
    """The module that a name names, and the function in it."""
    point = OPEN_POINTS[kind]
    entry = _entry_points(kind).get(name)
    target = point.ours.get(name) or (entry.value if entry else name)
    module_name, colon, function_name = target.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), function_name)):
        known = [*point.names, *_entry_points(kind)]
        expected = f"{', '.join(known)} or your own as module:function{did_you_mean(name, known)}"
        raise error(f'{kind}: found "{name:.200}", expected {expected}')
    is_ours = target in point.ours.values()
    if not (is_ours or is_allowed(kind, name)):
        raise error(
            f"{kind}: found {name!r:.200}, which is code to run, and nobody here has allowed it. If you know that "
            "code, say so with --allow-plugins"
        )
    module = importlib.import_module(module_name) if is_ours else _import(module_name, kind, name, error)
    function = getattr(module, function_name, None)
    if not callable(function):
        public = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise error(f'{kind}: {module_name} has no function "{function_name}"{did_you_mean(function_name, public)}')
    if not is_ours:
        code_digest(function)  # of the file as it is now; it may be edited while this runs
    return module, function


def plugin_digest(kind: str, name: str, error: type[Exception]) -> str:
    """sha256 of the code behind a name (clients/code_digest.py)."""
    return code_digest(load_plugin(kind, name, error))


def check_own_file(kind: str, name: str, error: type[Exception]) -> None:
    """Raise an error unless the module that is named has the code itself: `file_digest` is that of its file."""
    if (kind, name) in _offered:
        return
    module, function = _loaded(kind, name, error)
    if module_file_digest(module.__name__, _places()) != code_digest(function):
        home = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
        raise error(
            f"{kind} {name}: found {home}, whose digest is not that of the file of {module.__name__} as it is now; "
            "expected a function that is defined with def in the module that is named"
        )


def file_digest(kind: str, name: str) -> str:
    """sha256 of the file behind a name that nobody has imported yet, without importing it; empty where that cannot be
    told.
    """
    entry = _entry_points(kind).get(name)
    module_name = (entry.value if entry else name).partition(":")[0]
    if (kind, name) in _offered or module_name in sys.modules:
        return ""
    return module_file_digest(module_name, _places())


def _places() -> list[str]:
    return [str(Path.cwd()), *sys.path]


@cache
def _entry_points(kind: str) -> Mapping[str, EntryPoint]:
    """What installed packages offer of a kind, by name. Being installed is no permission: a file or a chain may not
    choose among them either.
    """
    return {each.name: each for each in entry_points(group=f"bfl.{kind}") if each.name not in OPEN_POINTS[kind].names}


def _import(module_name: str, kind: str, name: str, error: type[Exception]) -> ModuleType:
    from clients.sources import with_torchvision  # imports numpy: names are read by programs that need none

    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return with_torchvision(lambda: importlib.import_module(module_name))
    except (ImportError, SyntaxError) as cause:
        raise error(
            f'{kind} "{name}": cannot import {module_name} ({cause}); is its folder the current one?'
        ) from cause
    finally:
        if added:
            sys.path.remove(here)
