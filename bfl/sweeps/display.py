"""What a person sees of a sweep: one bar over all rounds on a terminal, a line per run in a pipe."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from bfl.show.text import printable
from bfl.sweeps.plan import PlannedRun


class SweepDisplay:
    """Progress over all runs, as a context manager."""

    def __init__(self, console: Console, runs: int, rounds: int, finished: int, done: int) -> None:
        """`finished` runs and `done` rounds were there before."""
        self._console, self._runs, self._rounds = console, runs, rounds
        self._finished, self._done, self._made = finished, done, 0
        self._began = time.monotonic()
        self._running: dict[str, str] = {}
        self._of_run: dict[str, int] = {}
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(BarColumn(24), TaskProgressColumn(), TextColumn("{task.description}"), console=console)
            self._task = self._bar.add_task("starting", total=rounds, completed=done)

    def __enter__(self) -> "SweepDisplay":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def round(self, run: PlannedRun, round_: int, accuracy: float | None) -> None:
        """A round of a run is recorded."""
        told = "" if accuracy is None else f" {100 * accuracy:.1f} %"
        self._running[run.name] = f"{run.name} {round_}/{run.settings.rounds.rounds}{told}"
        self._of_run[run.name] = round_
        self._done += 1
        self._made += 1
        self._show()

    def ended(self, run: PlannedRun, status: str, told: str) -> None:
        """A run has come to its end."""
        self._running.pop(run.name, None)
        self._finished += status == "finished"
        if status != "finished":
            self._rounds -= run.settings.rounds.rounds - self._of_run.get(run.name, 0)
        self.line(f"[{self._finished}/{self._runs}] {run.name}: {told}{self._left()}")
        self._show()

    def line(self, text: str) -> None:
        """A line as it is."""
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        if self._bar:
            now = "   ".join(self._running.values())
            told = f"{self._finished} of {self._runs} runs{self._left()}   {now}"
            self._bar.update(self._task, completed=self._done, description=told)

    def _left(self) -> str:
        """By the rounds of this call; cells that are slower than those before make it longer."""
        left = self._rounds - self._done
        if not self._made or left <= 0:
            return ""
        return f"; about {duration_text((time.monotonic() - self._began) / self._made * left)} left"


def duration_text(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 3.4 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
