"""What the tests of the front door share."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch

from bfl.cli import main
from bfl.simulation import run as simulation


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _threads_of_others_are_left_alone() -> Iterator[None]:
    """A run tells torch how many threads to use; the next test shall not inherit that."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without matplotlib: pictures take longer than these runs."""
    monkeypatch.setattr(simulation, "can_plot", lambda: False)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """`bfl ...` through its entry point in this process: a traceback would be the test's own."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for name in [name for name in os.environ if name.startswith("BFL_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["bfl", *arguments])
        capsys.readouterr()
        code: object = None
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code
        assert isinstance(code, int)
        gc.collect()  # what a process that has ended holds: nothing, so also no lock of a run folder
        return Answer(code, *capsys.readouterr())

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
