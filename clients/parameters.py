"""Every setting of data and training, with its default, its bounds and its help: the one place they live.

A setting is a field of a frozen `...Params`; its key in TOML files, in Flower's run configuration and on the command
line is the field's name with hyphens. `read_params` turns such a flat mapping into the dataclass.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from clients.errors import ParameterError
from policy.errors import did_you_mean as did_you_mean

P = TypeVar("P")


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    not_yet: Mapping[str, str] | None = None,
    is_open: bool = False,
) -> Any:
    """A field of a `...Params`: default, help text, which values are allowed, and which will be one day. An open one
    also takes code of others by name (clients/plugins.py).
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "choices": choices,
            "minimum": minimum,
            "maximum": maximum,
            "not_yet": not_yet or {},
            "is_open": is_open,
        },
    )


def key_of(field_name: str) -> str:
    """The kebab-case key of a field, as TOML files and flags spell it."""
    return field_name.replace("_", "-")


@dataclass(frozen=True)
class DataParams:
    """Which data, and who holds which part of it."""

    devices: int = setting(10, "N, the number of devices", minimum=1)
    seed: int = setting(0, "everything random follows from it", minimum=0, maximum=2**63 - 1)
    dataset: str = setting("fashion-mnist", "fashion-mnist, svhn, synthetic, or your own as module:function")
    data_dir: str = setting("", "folder with the data set's files (default: look in the usual places)")
    partition: str = setting(
        "iid",
        "how the images are divided: iid, non-iid (a few labels per device) or dirichlet",
        choices=("iid", "non-iid", "dirichlet"),
        is_open=True,
    )
    labels_per_device: int = setting(
        0, "labels of one device under non-iid (0: 2 for fashion-mnist, 3 for svhn)", minimum=0
    )
    alpha: float = setting(0.5, "concentration of the Dirichlet partition: smaller is more uneven", minimum=1e-6)
    data_per_round: str = setting(
        "state",
        "state: a fresh subset of 0.5-2 MB per device and round, as the latency model draws it; all: whole shares",
        choices=("state", "all"),
    )


@dataclass(frozen=True)
class TrainingParams:
    """The local update (L4-L6) and the machinery that computes it."""

    model: str = setting("auto", "auto (the data set's own CNN) or your own as module:function")
    hidden: str = setting("", "sizes of the hidden layers, e.g. 50 or 256,72 (default: the model's own)")
    optimizer: str = setting(
        "sgd", "sgd or adam (its state is fresh every round), or your own", choices=("sgd", "adam"), is_open=True
    )
    learning_rate: float = setting(0.1, "eta, common to all training nodes", minimum=1e-9)
    iterations: int = setting(10, "e, local iterations per round", minimum=1)
    batch: int = setting(25, "B, images per mini-batch (fewer where a node has fewer)", minimum=1)
    engine: str = setting(
        "auto",
        "sequential (plain torch), stacked (all nodes as one grouped network), or auto: stacked where the model allows",
        choices=("auto", "sequential", "stacked"),
    )
    chunk: int = setting(10, "training nodes the stacked engine computes at once", minimum=1)
    threads: int = setting(0, "threads torch computes with (0: one per core)", minimum=0)

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """`hidden` as numbers."""
        try:
            sizes = tuple(int(part) for part in self.hidden.split(",") if part.strip())
        except ValueError:
            sizes = (0,)
        if any(size < 1 for size in sizes):
            raise ParameterError(f"hidden: found {self.hidden!r}, expected positive whole numbers such as 50 or 256,72")
        return sizes


@dataclass(frozen=True)
class DeviceParams:
    """What a device decides for itself, whatever a network was founded with."""

    answers_per_round: int = setting(
        3, "attempts of a round that a device on a chain answers, and how often each", minimum=1, maximum=16
    )


def read_params(cls: type[P], mapping: Mapping[str, object]) -> P:
    """The frozen `cls` from the keys of `mapping` that belong to it; keys of other parts are left alone."""
    values = {
        field.name: convert_value(field, mapping[key_of(field.name)])
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if key_of(field.name) in mapping
    }
    return cls(**values)


def convert_value(field: "dataclasses.Field[Any]", value: object) -> object:
    """`value` in the type of `field`, or a `ParameterError` with found and expected."""
    key = key_of(field.name)
    kind: Any = type(field.default)
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError
        if kind is int and isinstance(value, float) and not value.is_integer():
            raise ValueError
        converted = kind(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{key}: found {value!r}, expected a value of type {kind.__name__}") from None
    return _bounded_value(field, key, converted)


def _bounded_value(field: "dataclasses.Field[Any]", key: str, value: Any) -> object:
    choices, minimum = field.metadata.get("choices"), field.metadata.get("minimum")
    if choices and value not in choices and not (field.metadata["is_open"] and _is_plugin(key, value)):
        why = field.metadata["not_yet"].get(value)
        hint = f"; {value} {why}" if why else did_you_mean(str(value), choices)
        own = " or your own as module:function" * field.metadata["is_open"]
        raise ParameterError(f'{key}: found "{value}", expected one of {", ".join(choices)}{own}{hint}')
    if minimum is not None and not value >= minimum:  # `not >=` also refuses NaN
        raise ParameterError(f"{key}: found {value}, expected at least {minimum}")
    maximum = field.metadata.get("maximum")
    if maximum is not None and value > maximum:
        raise ParameterError(f"{key}: found {value}, expected at most {maximum}")
    if isinstance(value, float) and value == float("inf"):
        raise ParameterError(f"{key}: found infinity, expected a finite number")
    return value


def _is_plugin(key: str, value: object) -> bool:
    from clients.plugins import is_named  # imports this module

    return is_named(key, str(value))
