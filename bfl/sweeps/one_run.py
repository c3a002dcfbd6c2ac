"""One run of a sweep, from wherever its folder stands to its end."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from bfl.api.callbacks import Callback
from bfl.api.run import Run
from bfl.api.simulating import Begun, begin, begin_again, go
from bfl.config import RunSettings
from bfl.errors import RunInUseError

PATIENCE_S = 60.0
"""For whoever still writes the run: a process whose sweep was killed ends after its round"""
_LOOK_S = 0.2
_FILES = ("config.toml", "metrics.jsonl")


def make_run(settings: RunSettings, folder: Path, allow_other_environment: bool, callbacks: Sequence[Callback]) -> Run:
    """Run what is left. Code that the settings name is permitted: a person has said so to the sweep."""
    return go(_when_free(settings, folder, allow_other_environment), callbacks)


def _when_free(settings: RunSettings, folder: Path, allow_other_environment: bool) -> Begun:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _begin(settings, folder, allow_other_environment)
        except RunInUseError:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_S)


def _begin(settings: RunSettings, folder: Path, allow_other_environment: bool) -> Begun:
    """The folder's own settings are these: the sweep has looked. What was killed before it was a run is made anew."""
    if _is_run(folder):
        run = Run(folder, allows_plugins=True)
        return begin_again(run, settings.rounds.rounds, allow_other_environment)
    if folder.exists():
        with FileLock(folder / ".lock", timeout=PATIENCE_S):
            was_made = _is_run(folder)
        if was_made:
            return _begin(settings, folder, allow_other_environment)
        shutil.rmtree(folder)
    return begin(settings, folder, allow_plugins=True)


def _is_run(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FILES)
