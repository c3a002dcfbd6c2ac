"""A row per round, as pandas, R and spreadsheets read it."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from policy.files import replacing

if TYPE_CHECKING:
    from bfl.api.callbacks import RoundDone
    from bfl.api.flat import Row
    from bfl.api.run import Run


class CsvWriter:
    """`on_round=bfl.CsvWriter()`: metrics.csv in the run folder, or the file that is named.

    It is whole after every round; a run that goes on begins with the rows it has.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._columns: list[str] = []

    def begin(self, run: "Run") -> None:
        """Write the rounds there are."""
        self._path = self._path or run.folder / "metrics.csv"
        rows = run.metrics
        self._columns = list(rows[0]) if rows else []
        _write(rows, self._path)

    def __call__(self, done: "RoundDone") -> None:
        """Append the round."""
        if self._path is None or not set(done.metrics) <= set(self._columns):
            self.begin(done.run)  # the first row, or one with a column that none has had
            return
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow(done.metrics)

    def end(self, run: "Run") -> None:
        """Nothing is open."""


def _write(rows: Sequence["Row"], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
