"""What takes minutes or much memory is done by a niced child process: an audit, a model's file."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bfl.dashboard.errors import DashboardError, NotFoundError

_MODULE = "bfl.dashboard.index.child"
_MODEL_S = 120.0
_MOST_ERROR_CHARACTERS = 300
NO_MODEL = 3
"""Exit code of a child that was asked for a model that is not there"""


def child_command(*arguments: str) -> list[str]:
    """How a child is started."""
    return [sys.executable, "-m", _MODULE, *arguments]


def child_environment(secrets: Mapping[str, str]) -> dict[str, str]:
    """This process's, with the secrets of a source: arguments can be read by everybody on a machine."""
    return {**os.environ, **secrets, "PYTHONUNBUFFERED": "1"}


def model_by_child(where: tuple[str, ...], secrets: Mapping[str, str], round_: int) -> bytes:
    """The model after a round as torch.save makes it; torch would stay in this process's memory."""
    with tempfile.TemporaryDirectory(prefix="bfl-model-") as folder:
        path = Path(folder) / "model.pt"
        command = child_command("model", str(round_), str(path), *where)
        try:
            done = subprocess.run(  # noqa: S603 - our own module
                command, env=child_environment(secrets), capture_output=True, text=True, timeout=_MODEL_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise DashboardError(f"model {round_} was not read within {_MODEL_S:g} s; try again") from error
        if done.returncode == 0:
            return path.read_bytes()
        told = done.stderr.strip()[-_MOST_ERROR_CHARACTERS:] or f"the child ended with code {done.returncode}"
        raise (NotFoundError if done.returncode == NO_MODEL else DashboardError)(told)
