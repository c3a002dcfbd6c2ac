"""Writers by their names on the command line: --log csv,tensorboard."""

from collections.abc import Callable
from importlib.util import find_spec

from bfl.api.callbacks import Callback
from bfl.errors import ConfigError
from bfl.writers.csv_file import CsvWriter
from bfl.writers.mlflow import MlflowWriter
from bfl.writers.numbers import missing
from bfl.writers.tensorboard import TensorBoardWriter
from bfl.writers.wandb import WandbWriter
from clients.parameters import did_you_mean

WRITERS: dict[str, Callable[[], Callback]] = {
    "csv": CsvWriter,
    "tensorboard": TensorBoardWriter,
    "mlflow": MlflowWriter,
    "wandb": WandbWriter,
}


def names_in(text: str) -> tuple[str, ...]:
    """The names in a text; refused before anything runs where one is unknown or its package is missing."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in WRITERS:
            raise ConfigError(f'--log: found "{name}", expected {", ".join(WRITERS)}{did_you_mean(name, WRITERS)}')
        if name != "csv" and find_spec(name) is None:
            raise missing(name, name)
    return names


def writers_named(names: tuple[str, ...]) -> list[Callback]:
    """A writer each, for one run."""
    return [WRITERS[name]() for name in names]
