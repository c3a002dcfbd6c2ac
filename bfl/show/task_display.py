"""What a person sees of long work that has parts: a live bar on a terminal, plain lines in a pipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

Told = Callable[[float, str], None]
"""Hears the part that is done, in [0, 1], and how it goes"""
QUARTERS = 4
"""Lines of a part in a pipe, beside the one at its end; only parts that take longer than `PATIENCE_S` have them"""
PATIENCE_S = 60.0
SHORT_S = 5.0


def wide_console() -> Console:
    """The terminal, or a file or pipe in which nothing is folded."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


class Watch:
    """Tells of one part of the work after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """A line for the person."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def part(self, label: str) -> Iterator[Told]:
        """A training or a measurement; its end is told with how it went last and how long it took.

        What tells nothing was there already and leaves no trace; nor do short parts on a terminal.
        """
        began, last = time.monotonic(), ""
        with self._bar(label) if self._console.is_terminal else self._lines(label, began) as show:

            def hear(done: float, text: str) -> None:
                nonlocal last
                last = text
                show(done, text)

            yield hear
        took_s = time.monotonic() - began
        if last and (took_s > SHORT_S or not self._console.is_terminal):
            self.say(f"{label}: {last}  ({took_s:.1f} s)")

    @contextmanager
    def _bar(self, label: str) -> Iterator[Told]:
        columns = (BarColumn(20), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        progress = Progress(*columns, console=self._console, transient=True)
        task = progress.add_task(label, total=1.0)

        def show(done: float, text: str) -> None:
            progress.start()  # does nothing the second time
            progress.update(task, completed=done, description=f"{label}: {text}")

        try:
            yield show
        finally:
            progress.stop()

    @contextmanager
    def _lines(self, label: str, began: float) -> Iterator[Told]:
        told = 0

        def show(done: float, text: str) -> None:
            nonlocal told
            if int(QUARTERS * done) > told and done < 1 and time.monotonic() - began > PATIENCE_S:
                self.say(f"{label}: {100 * done:.0f} %, {text}")
            told = int(QUARTERS * done)

        yield show
