"""What a person sees of long work, task by task: a live bar on a terminal, plain lines in a pipe."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

ShowProgress = Callable[[float, str], None]
"""Called with the fraction that is done, in [0, 1], and a text on how it goes"""
QUARTERS = 4
"""Lines of a task in a pipe, beside the one at its end; only tasks that take longer than `PATIENCE_S` have them"""
PATIENCE_S = 60.0
SHORT_S = 5.0
PIPE_CLOSED = 141
"""Exit code of whoever is left by its reader: 128 and the number of SIGPIPE"""


class PipeConsole(Console):
    """A console whose reader may leave (`| head`): that is no verdict, and rich's exit code 1 would be one."""

    def on_broken_pipe(self) -> None:
        """Write nothing more, and end as a program does that SIGPIPE ended."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(PIPE_CLOSED)


def wide_console() -> Console:
    """The terminal, or a file or pipe in which nothing is folded."""
    console = Console()
    return console if console.is_terminal else PipeConsole(width=200)


class TaskDisplay:
    """Shows the progress of one task (a training, a measurement) after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def print_line(self, text: str) -> None:
        """Print a line as it is, without markup."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def task(self, label: str) -> Iterator[ShowProgress]:
        """Yields the function that shows progress; at the end a line says how it went last and how long it took.

        A task that never showed any was done already and leaves no line; nor do short tasks on a terminal.
        """
        began, last = time.monotonic(), ""
        with self._bar(label) if self._console.is_terminal else self._lines(label, began) as show:

            def on_progress(done: float, text: str) -> None:
                nonlocal last
                last = text
                show(done, text)

            yield on_progress
        took_s = time.monotonic() - began
        if last and (took_s > SHORT_S or not self._console.is_terminal):
            self.print_line(f"{label}: {last}  ({took_s:.1f} s)")

    @contextmanager
    def _bar(self, label: str) -> Iterator[ShowProgress]:
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
    def _lines(self, label: str, began: float) -> Iterator[ShowProgress]:
        told = 0

        def show(done: float, text: str) -> None:
            nonlocal told
            if int(QUARTERS * done) > told and done < 1 and time.monotonic() - began > PATIENCE_S:
                self.print_line(f"{label}: {100 * done:.0f} %, {text}")
            told = int(QUARTERS * done)

        yield show
