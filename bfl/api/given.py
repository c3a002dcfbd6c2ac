"""Functions, classes and data that were given in Python: each has a name, and the name is what a run records.

The name is good for this process. In another one somebody has to give the function again: `bfl.open_run(path, ...)`.
"""

import copy
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from bfl.api.given_data import named_data
from bfl.errors import ConfigError
from clients.parameters import did_you_mean, key_of
from clients.plugins import OPEN_POINTS, foreign_names, is_allowed, offer

_NOWHERE = ("given", "__main__")
"""Modules that another process cannot import"""


def named_settings(settings: Mapping[str, Any], data: Any, known: Mapping[str, Any]) -> dict[str, object]:
    """Settings by their keys, with a name in place of every function, class and data; `ConfigError` for one that nobody
    knows.
    """
    for name in settings:
        if key_of(name) not in known or "-" in name:
            spelt = [key.replace("-", "_") for key in known]
            raise ConfigError(f'unknown setting "{name}"{did_you_mean(name.replace("-", "_"), spelt)}')
    if data is not None and "dataset" in settings:
        raise ConfigError("found data and dataset, expected one of them: dataset is a name or a function")
    found = {key_of(name): named(key_of(name), value) for name, value in settings.items()}
    return found if data is None else found | {"dataset": named_data(data)}


def named(kind: str, value: Any) -> object:
    """What a setting records of a value: of an open point it may be a function, or a list of functions and texts."""
    if isinstance(value, str) or kind not in OPEN_POINTS:
        return value
    if kind == "model":
        return offer(kind, *as_model(value))
    if kind == "attack" and not isinstance(value, list):
        return _named_attack(value)
    separator = OPEN_POINTS[kind].separator
    if isinstance(value, (list, tuple)) and separator:
        return separator.join(str(named(kind, each)) for each in value)
    return offer(kind, value)


def _named_attack(value: Any) -> str:
    """(function, "ROUNDS:device=...") as the text that `attack` takes."""
    if not isinstance(value, tuple) or len(value) != 2 or not callable(value[0]) or not isinstance(value[1], str):
        raise ConfigError(
            f'attack: found {value!r:.100}, expected (function, "5-9:device=3"), a text, or a list of them'
        )
    return f"{offer('attack', value[0])}@{value[1].removeprefix('@')}"


def as_model(value: Any) -> tuple[Callable[..., Any], str]:
    """A network, its class or a function that makes it, as a plug-in of (sample_shape, classes, hidden); and the name
    of a network that is given as it is.
    """
    from torch import nn

    if isinstance(value, nn.Module):
        digest = hashlib.sha256(f"{type(value).__qualname__}{value!r}".encode()).hexdigest()
        return (lambda *_: copy.deepcopy(value)), f"given:model_{digest[:16]}"
    if not callable(value):
        raise ConfigError(
            f"model: found {value!r:.80}, expected a torch.nn.Module, its class, or a function that makes it"
        )
    return _with_what_it_takes(value), ""


def _with_what_it_takes(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make`, called with those of sample_shape, classes and hidden that it names; with all where it names others."""
    parameters = inspect.signature(make).parameters.values()
    asked = {each.name for each in parameters} & {"sample_shape", "classes", "hidden"}
    needed = [each for each in parameters if each.default is each.empty and each.kind in _POSITIONAL]
    if len(asked) == len(_PROTOCOL) or (not asked and len(needed) == len(_PROTOCOL)):
        return make

    def made(sample_shape: tuple[int, ...], classes: int, hidden: tuple[int, ...]) -> Any:
        offered = dict(zip(_PROTOCOL, (sample_shape, classes, hidden), strict=True))
        return make(**{name: offered[name] for name in asked})

    made.__module__, made.__qualname__ = make.__module__, getattr(make, "__qualname__", type(make).__qualname__)
    made.__doc__ = make.__doc__
    return made


_PROTOCOL = ("sample_shape", "classes", "hidden")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def give_again(functions: Mapping[str, Any], recorded: Mapping[str, object]) -> None:
    """Functions and data for a run of an earlier process, under the names that it has recorded."""
    for kind, value in functions.items():
        if kind == "data":
            _give_data_again(value, str(recorded["dataset"]))
            continue
        if kind not in OPEN_POINTS or kind not in recorded:
            kinds = [*(each for each in OPEN_POINTS if each in recorded), "data"]
            raise ConfigError(f'found "{kind}", expected one of {", ".join(kinds)}{did_you_mean(kind, kinds)}')
        point = OPEN_POINTS[kind]
        names = [part for part in point.parts(str(recorded[kind])) if ":" in part and not point.is_ours(part)]
        if len(names) != 1:
            text = ", ".join(names) or f"{recorded[kind]!r}, which is ours"
            raise ConfigError(
                f"{kind}: the run was made with {text}; expected exactly one function of yours to give again"
            )
        function = as_model(value)[0] if kind == "model" else value
        offer(kind, function, names[0])


def _give_data_again(data: Any, recorded: str) -> None:
    found = named_data(data)
    if found != recorded:
        raise ConfigError(f"data: the run was made with {recorded}, these are {found}; expected the same data")


def check_given(recorded: Mapping[str, object], is_importable: bool = False) -> None:
    """Raise `ConfigError` where a run needs a function that nobody has given in this process; code that could be
    imported is somebody else's question where `is_importable`.
    """
    for kind in OPEN_POINTS:
        for name in foreign_names(kind, str(recorded.get(kind, ""))):
            word = "data" if name.startswith("given:dataset_") else kind
            again = f"give it again: bfl.open_run(path, {word}=...)"
            if name.partition(":")[0] in _NOWHERE:
                raise ConfigError(f"{kind}: the run was made with {name}, which was given in Python; {again}")
            if not (is_importable or is_allowed(kind, name)):
                raise ConfigError(
                    f"{kind}: the run was made with {name}, which is code; {again}, or allow {name} to be imported: "
                    "allow_plugins=True"
                )
