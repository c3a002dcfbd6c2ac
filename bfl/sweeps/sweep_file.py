"""A sweep as a TOML file: seeds, what all cells have in common, a grid, and single cells beside it."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import tomli_w

from bfl.config import all_fields, check_keys, check_plugins, read_environment
from bfl.errors import ConfigError
from bfl.sweeps.seeds import read_seeds, seeds_text
from clients.parameters import did_you_mean
from clients.plugins import permit
from policy.files import read_bounded_text

MOST_BYTES = 1 << 18
MOST_CELLS, MOST_RUNS = 2_000, 10_000
KEYS = ("seeds", "common", "grid", "cells")
Values = Mapping[str, object]


@dataclass(frozen=True)
class SweepFile:
    """What a file says, as it is written."""

    seeds: tuple[int, ...] = (0,)
    common: Values = field(default_factory=dict)
    grid: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    cells: tuple[Values, ...] = ()

    def chosen(self) -> list[Values]:
        """The settings that each cell has of its own: those of the grid, then the single ones; each once."""
        of_grid = [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]
        every = [*(of_grid if self.grid or not self.cells else []), *map(dict, self.cells)]
        return [each for place, each in enumerate(every) if each not in every[:place]]

    def text(self) -> str:
        """The file again; comments are lost."""
        content: dict[str, Any] = {"seeds": seeds_text(self.seeds)}
        content |= {"common": dict(self.common)} if self.common else {}
        content |= {"grid": {key: list(values) for key, values in self.grid.items()}} if self.grid else {}
        content |= {"cells": [dict(each) for each in self.cells]} if self.cells else {}
        return tomli_w.dumps(content)


def read_sweep_file(path: Path, environment: Mapping[str, str] | None = None, allow_plugins: bool = False) -> SweepFile:
    """A file, in bounds; the environment's settings are common to all cells. Code is named by people (Q4)."""
    source = str(path)
    content = _read(path)
    for key in content:
        if key not in KEYS:
            nearest = "; it belongs under [common]" if key in all_fields() else did_you_mean(key, KEYS)
            raise ConfigError(f'{source}: unknown key "{key}"{nearest}; expected {", ".join(KEYS)}')
    found = SweepFile(
        read_seeds(content.get("seeds", "0"), f"{source}: seeds"),
        _settings(content.get("common", {}), f"{source}: [common]"),
        _grid(content.get("grid", {}), f"{source}: [grid]"),
        _cells(content.get("cells", []), source),
    )
    _check_size(found, source)
    for each in (found.common, *found.chosen()):
        if not allow_plugins:
            check_plugins(each, source)
        permit(each)
    of_person = read_environment(environment or {})
    permit(of_person)
    return replace(found, common={**found.common, **of_person})


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bounded_text(path, MOST_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); expected a TOML file with a grid") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not TOML ({error})") from error


def _settings(table: object, source: str) -> dict[str, object]:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: found {table!r:.80}, expected a table of settings")
    for key, value in table.items():
        _check_key(key, source)
        if isinstance(value, list | dict):
            raise ConfigError(
                f"{source}: found {key} = {value!r:.80}, expected one value; a list of values belongs under [grid]"
            )
    return table


def _check_key(key: str, source: str) -> None:
    """Raise `ConfigError` unless a key is a setting that cells may have."""
    if key == "seed":
        raise ConfigError(f'{source}: found seed, expected it above all tables as seeds = "0-4"')
    check_keys({key: None}, source)


def _grid(table: object, source: str) -> dict[str, tuple[object, ...]]:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: found {table!r:.80}, expected a table of lists")
    for key, values in table.items():
        _check_key(key, source)
        if not isinstance(values, list) or not values or any(isinstance(each, list | dict) for each in values):
            raise ConfigError(f"{source}: found {key} = {values!r:.80}, expected a list of values such as [1, 2]")
    return {key: tuple(dict.fromkeys(values)) for key, values in table.items()}


def _cells(tables: object, source: str) -> tuple[Values, ...]:
    if not isinstance(tables, list):
        raise ConfigError(f"{source}: found cells = {tables!r:.80}, expected tables, each headed by [[cells]]")
    return tuple(_settings(each, f"{source}: [[cells]] {place}") for place, each in enumerate(tables, 1))


def _check_size(found: SweepFile, source: str) -> None:
    count = math.prod(map(len, found.grid.values())) + len(found.cells)
    if count > MOST_CELLS or count * len(found.seeds) > MOST_RUNS:
        raise ConfigError(
            f"{source}: found {count:,} cells of {len(found.seeds):,} seeds, expected at most {MOST_CELLS:,} cells and "
            f"{MOST_RUNS:,} runs; divide it into several files"
        )
