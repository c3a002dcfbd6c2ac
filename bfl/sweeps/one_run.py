"""One run of a sweep, from wherever its folder stands to its end."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

from bfl.config import RunSettings
from bfl.errors import RunInUseError
from bfl.simulation import run as simulation
from edge_servers.report import RoundReport

PATIENCE_S = 60.0
"""For whoever still writes the run: a process whose sweep was killed ends after its round"""
_LOOK_S = 0.2
_FILES = ("config.toml", "metrics.jsonl")


def make_run(
    settings: RunSettings, folder: Path, allow_other_environment: bool, on_round: Callable[[RoundReport], None]
) -> dict[str, Any]:
    """Run what is left; the summary."""
    return simulation.run(_when_free(settings, folder, allow_other_environment), on_round)


def _when_free(settings: RunSettings, folder: Path, allow_other_environment: bool) -> simulation.Simulation:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _start_or_resume(settings, folder, allow_other_environment)
        except RunInUseError:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_S)


def _start_or_resume(settings: RunSettings, folder: Path, allow_other_environment: bool) -> simulation.Simulation:
    """The folder's own settings are these: the sweep has looked. What was killed before it was a run is made anew."""
    if _is_run(folder):
        return simulation.resume(folder, settings.rounds.rounds, allow_other_environment, allow_plugins=True)
    if folder.exists():
        with FileLock(folder / ".lock", timeout=PATIENCE_S):
            was_made = _is_run(folder)
        if was_made:
            return _start_or_resume(settings, folder, allow_other_environment)
        shutil.rmtree(folder)
    return simulation.start(settings, folder)


def _is_run(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FILES)
