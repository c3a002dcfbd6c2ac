"""The front door: Python API, command line, simulation, experiments.

Names of the API are found when they are first asked for: `import bfl` loads neither torch nor anything else that takes
seconds.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bfl.api.audit import RunAudit as RunAudit
    from bfl.api.callbacks import RoundDone as RoundDone
    from bfl.api.options import RunOptions as RunOptions
    from bfl.api.run import Run as Run
    from bfl.api.simulating import open_run as open_run
    from bfl.api.simulating import simulate as simulate
    from bfl.errors import BflError as BflError
    from bfl.errors import CallbackError as CallbackError
    from bfl.errors import NothingLearnedWarning as NothingLearnedWarning
    from bfl.errors import RunInterrupted as RunInterrupted
    from bfl.errors import StopRun as StopRun
    from bfl.writers.csv_file import CsvWriter as CsvWriter
    from bfl.writers.mlflow import MlflowWriter as MlflowWriter
    from bfl.writers.tensorboard import TensorBoardWriter as TensorBoardWriter
    from bfl.writers.wandb import WandbWriter as WandbWriter

try:
    __version__ = version("bfl")
except PackageNotFoundError:  # run from a folder that was never installed
    __version__ = "0+unknown"

_LAZY = {
    "BflError": "bfl.errors",
    "CsvWriter": "bfl.writers.csv_file",
    "CallbackError": "bfl.errors",
    "MlflowWriter": "bfl.writers.mlflow",
    "NothingLearnedWarning": "bfl.errors",
    "RoundDone": "bfl.api.callbacks",
    "Run": "bfl.api.run",
    "RunAudit": "bfl.api.audit",
    "RunInterrupted": "bfl.errors",
    "RunOptions": "bfl.api.options",
    "StopRun": "bfl.errors",
    "TensorBoardWriter": "bfl.writers.tensorboard",
    "WandbWriter": "bfl.writers.wandb",
    "open_run": "bfl.api.simulating",
    "simulate": "bfl.api.simulating",
}
"""Where each name of the API is"""


if not TYPE_CHECKING:  # who checks types knows the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'bfl' has no attribute {name!r}; expected one of {', '.join(_LAZY)}")
        return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
