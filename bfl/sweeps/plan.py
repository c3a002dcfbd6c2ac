"""What a sweep is made of: cells, each with settings of its own, and one run per cell and seed."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bfl.config import RunSettings, all_fields
from bfl.errors import BflError, ConfigError
from bfl.sweeps.sweep_file import SweepFile, Values
from clients.errors import ClientError, ParameterError
from edge_servers.errors import EdgeError
from policy.errors import PolicyError

ONE_THREAD = 1
"""Of torch per run where nobody says otherwise: the same bits whatever else runs, and no run waits for another's"""
_MOST_NAME = 120
_PLAIN = re.compile(r"[^A-Za-z0-9.+_-]+")


@dataclass(frozen=True)
class PlannedRun:
    """One run: a cell's settings with a seed."""

    name: str
    """Its folder's, below the sweep's: CELL/seed=0"""
    settings: RunSettings

    @property
    def seed(self) -> int:
        """Which of the cell's runs it is."""
        return self.settings.data.seed


@dataclass(frozen=True)
class Cell:
    """Settings that are tried with every seed."""

    name: str
    """By what sets it apart, such as scheme=bfl,partition=iid; empty where there is one cell"""
    own: Mapping[str, str]
    """The settings that set it apart, as text"""
    runs: tuple[PlannedRun, ...]


@dataclass(frozen=True)
class SweepPlan:
    """All runs of a sweep."""

    cells: tuple[Cell, ...]

    @property
    def runs(self) -> list[PlannedRun]:
        """Seed by seed: a sweep that is ended early has tried every cell."""
        columns = max((len(cell.runs) for cell in self.cells), default=0)
        return [cell.runs[place] for place in range(columns) for cell in self.cells if place < len(cell.runs)]

    @property
    def rounds(self) -> int:
        """Of all runs together."""
        return sum(run.settings.rounds.rounds for run in self.runs)


def make_plan(file: SweepFile, source: str) -> SweepPlan:
    """The runs of a file; `ConfigError` names the first cell that cannot be."""
    chosen = file.chosen()
    keys = _apart(chosen, file.common)
    names: set[str] = set()
    cells = []
    for own in chosen:
        apart = {key: str(_value(key, own, file.common)) for key in keys}
        name = _name(apart, names)
        names.add(name)
        runs = tuple(_run(name, seed, file.common, own, source) for seed in file.seeds)
        _check(runs[0].settings, name, source)
        cells.append(Cell(name, apart, runs))
    return SweepPlan(tuple(cells))


def _apart(chosen: Sequence[Values], common: Values) -> list[str]:
    """Settings that are not the same in all cells, in the order they were written."""
    keys = dict.fromkeys(key for own in chosen for key in own)
    return [key for key in keys if len({str(_value(key, own, common)) for own in chosen}) > 1]


def _value(key: str, own: Values, common: Values) -> object:
    return own.get(key, common.get(key, all_fields()[key].default))


def _name(apart: Mapping[str, str], used: set[str]) -> str:
    """A folder's name; what is not plain or too long is told apart by a digest."""
    whole = ",".join(f"{key}={value}" for key, value in apart.items())
    plain = ",".join(f"{key}={_PLAIN.sub('-', value).rstrip('-') or 'none'}" for key, value in apart.items())
    if len(plain) > _MOST_NAME or plain in used:
        return f"{plain[:_MOST_NAME]}~{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return plain


def _run(cell: str, seed: int, common: Values, own: Values, source: str) -> PlannedRun:
    try:
        settings = RunSettings.read({"threads": ONE_THREAD} | dict(common) | dict(own) | {"seed": seed})
    except ParameterError as error:
        raise ConfigError(f"{source}: cell {cell or 1}: {error}") from error
    return PlannedRun(str(Path(cell) / f"seed={seed}"), settings)


def _check(settings: RunSettings, cell: str, source: str) -> None:
    """Refuse what cannot work before anything runs."""
    from bfl.simulation.run import check_settings  # torch takes a second

    try:
        check_settings(settings)
    except (BflError, ClientError, EdgeError, PolicyError) as error:
        raise ConfigError(f"{source}: cell {cell or 1}: {error}") from error


def one_cell(settings: Mapping[str, object], seeds: tuple[int, ...]) -> SweepFile:
    """A sweep over seeds alone, of the settings of a run; those that are the default are left out."""
    known = all_fields()
    common = {key: value for key, value in settings.items() if key != "seed" and value != known[key].default}
    return SweepFile(seeds, common)
