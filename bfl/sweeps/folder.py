"""The folder of a sweep: sweep.toml, one run folder per cell and seed, what failed, tables. How far a run is, its own
folder says: nothing else has to be kept, so no kill can make the two disagree.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from bfl.config import RunSettings, read_toml
from bfl.errors import BflError, ConfigError, RunFolderError
from bfl.sweeps.plan import PlannedRun, SweepPlan
from clients.errors import ParameterError
from policy.files import read_bounded_text, replacing

SWEEP, CONFIG, METRICS, SUMMARY, LOG = "sweep.toml", "config.toml", "metrics.jsonl", "summary.json", "log.txt"
_MOST_SUMMARY_BYTES = 1 << 20
_MOST_TOLD = 3
State = Literal["to do", "begun", "finished"]


class SweepChangedError(BflError):
    """A file that is no longer the one a folder's runs were made from."""


@dataclass(frozen=True)
class RunState:
    """How far a run is."""

    state: State
    rounds: int
    """Recorded"""
    summary: Mapping[str, Any]
    """Of a finished run"""


class SweepFolder:
    """The folder of one sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path / ".lock", timeout=0)

    def take(self, undo: ExitStack) -> None:
        """Make it, where there is none; one process at a time works in it."""
        if self.path.exists() and not self.path.is_dir():
            raise BflError(f"--out: found the file {self.path}, expected a folder")
        if self.path.exists() and any(self.path.iterdir()) and not (self.path / SWEEP).is_file():
            raise BflError(f"{self.path} holds something that is no sweep; choose another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise BflError(f"{self.path}: another process works on this sweep; wait for it, or stop it") from error
        undo.callback(self._lock.release)

    def write_plan(self, text: str) -> None:
        """What the folder's runs are made from, so that `bfl sweep FOLDER` goes on."""
        with replacing(self.path / SWEEP) as part:
            part.write_text(text, encoding="utf-8")

    def run_folder(self, run: PlannedRun) -> Path:
        """Where a run is."""
        return self.path / run.name

    def log(self, run: PlannedRun) -> Path:
        """What a run's process printed, beside its folder."""
        folder = self.run_folder(run)
        return folder.with_name(f"{folder.name}.{LOG}")

    def state(self, run: PlannedRun) -> RunState:
        """How far a run is, from its folder alone."""
        folder = self.run_folder(run)
        rounds = count_rounds(folder / METRICS)
        summary = _read_json(folder / SUMMARY)
        wanted = run.settings.rounds.rounds
        if summary.get("status") == "finished" and summary.get("rounds") == rounds == wanted:
            return RunState("finished", rounds, summary)
        return RunState("begun" if rounds else "to do", rounds, {})

    def check_unchanged(self, plan: SweepPlan) -> list[str]:
        """What has changed since the runs were begun and does no harm; `SweepChangedError` for what does."""
        lines, changed, longer = [], [], 0
        for run in plan.runs:
            was = _settings_of(self.run_folder(run) / CONFIG)
            if was is None:
                continue
            apart = _differences(was, run.settings)
            done = count_rounds(self.run_folder(run) / METRICS)
            if apart or done > run.settings.rounds.rounds:
                apart = apart or [f"rounds was {was.rounds.rounds}, is {run.settings.rounds.rounds}, {done} are done"]
                changed.append(f"{run.name}: {', '.join(apart)}")
            longer += was.rounds.rounds != run.settings.rounds.rounds
        if changed:
            raise SweepChangedError(_told_of(changed, self.path))
        if longer:
            lines.append(f"{longer} runs have another number of rounds than before: they go on where they stand")
        if others := self._others(plan):
            lines.append(f"{len(others)} runs are not in the file any more, such as {others[0]}: they are left alone")
        return lines

    def _others(self, plan: SweepPlan) -> list[str]:
        known = {run.name for run in plan.runs}
        found = sorted(str(folder.relative_to(self.path)) for folder in runs_below(self.path))
        return [name for name in found if name not in known]


def runs_below(folder: Path) -> list[Path]:
    """Run folders of a sweep, in order: with cells, or seeds alone."""
    found = {path.parent for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/{METRICS}")}
    return sorted(each for each in found if (each / CONFIG).is_file())


def runs_in(folder: Path) -> list[Path]:
    """The runs of a sweep that have begun; any other folder alone."""
    if not is_sweep(folder):
        return [folder]
    found = [run for run in runs_below(folder) if count_rounds(run / METRICS)]
    if not found:
        raise BflError(f"{folder} is a sweep without a finished round; go on with it: bfl sweep {folder}")
    return found


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (folder / SWEEP).is_file()


def count_rounds(metrics: Path) -> int:
    """Whole lines of a file with metrics."""
    try:
        with metrics.open("rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 16), b""))
    except FileNotFoundError:
        return 0


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_bounded_text(path, _MOST_SUMMARY_BYTES))
    except (OSError, ValueError, RecursionError):  # not there, or cut short: the run will write it again
        return {}
    return found if isinstance(found, dict) else {}


def _settings_of(config: Path) -> RunSettings | None:
    """What a run was begun with; None where it was not."""
    if not config.is_file():
        return None
    try:
        return RunSettings.read(read_toml(config))
    except (ConfigError, ParameterError) as error:
        raise RunFolderError(f"{config}: damaged ({error}); delete {config.parent}: the run is made anew") from error


def _differences(was: RunSettings, now: RunSettings) -> list[str]:
    old, new = was.flat(), now.flat()
    return [f"{key} was {old[key]!r}, is {new[key]!r}" for key in new if key != "rounds" and old[key] != new[key]]


def _told_of(changed: list[str], folder: Path) -> str:
    shown = "".join(f"\n  {line:.300}" for line in changed[:_MOST_TOLD])
    more = f"\n  and {len(changed) - _MOST_TOLD} more" if len(changed) > _MOST_TOLD else ""
    return (
        f"{folder} has runs with other settings than the file has now:{shown}{more}\n"
        "Put the file back, choose another --out, or delete those runs. "
        "More cells, more seeds and more rounds may be added at any time"
    )
