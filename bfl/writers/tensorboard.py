"""Curves in TensorBoard: `tensorboard --logdir runs`."""

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfl.writers.numbers import missing, numbers_of

if TYPE_CHECKING:
    from bfl.api.callbacks import RoundDone
    from bfl.api.run import Run


class TensorBoardWriter:
    """`on_round=bfl.TensorBoardWriter()`: event files in RUN/tensorboard, or in the folder that is named."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._writer: Any = None

    def begin(self, run: "Run") -> None:
        """Open the file; rounds that a killed run had written and lost are forgotten."""
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # what it says of TensorFlow helps nobody
                from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise missing("tensorboard", "tensorboard") from error
        done = len(run.rounds)
        self._writer = SummaryWriter(str(self._folder or run.folder / "tensorboard"), purge_step=done + 1)
        if not done:
            settings = "\n".join(f"    {key} = {value!r}" for key, value in run.settings.items())
            self._writer.add_text("settings", settings)

    def __call__(self, done: "RoundDone") -> None:
        """The round's numbers, its times and latencies each under a heading."""
        for name, value in numbers_of(done.metrics).items():
            head, _, rest = name.partition("_")
            self._writer.add_scalar(f"{head}/{rest}" if head in _HEADINGS and rest else name, value, done.round)
        self._writer.flush()

    def end(self, run: "Run") -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None


_HEADINGS = ("latency", "seconds")
