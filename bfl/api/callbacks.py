"""Who is told of every round: callables of the user, which may stop the run, and may fail without harming it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from bfl.api.flat import Row, flat_row
from bfl.errors import BflError, CallbackError, StopRun

if TYPE_CHECKING:
    from torch import nn

    from bfl.api.run import Run
    from edge_servers.report import RoundReport


@dataclass(frozen=True)
class RoundDone:
    """What a callback is told: a round that has just been recorded, so that the run may be resumed from here."""

    round: int
    rounds: int
    """How many the run has in all."""
    metrics: Row
    """One flat row, as in `run.metrics`."""
    report: "RoundReport"
    """Everything: who was refused and why, offences, latency, seconds."""
    run: "Run"
    network: Callable[[], "nn.Module"]

    def model(self) -> "nn.Module":
        """The model after this round, a copy; made only when it is asked for."""
        return self.network()


Callback = Callable[[RoundDone], Any]
"""Called after every round. An object may also have `begin(run)` and `end(run)`: a writer opens and closes its file"""


def listed(on_round: "Callback | Iterable[Callback]") -> tuple[Callback, ...]:
    """One callback or several; `BflError` where something cannot be called."""
    found = (on_round,) if callable(on_round) else tuple(on_round)
    for callback in found:
        if not callable(callback):
            raise BflError(f"on_round: found {callback!r:.80}, expected a callable of one argument, or a list of them")
    return found


@dataclass(frozen=True)
class Audience:
    """The callbacks of a run, as a context manager: each hears of the end, however it comes."""

    callbacks: Sequence[Callback]
    run: "Run"
    rounds: int
    network: Callable[[], "nn.Module"]

    def begin(self) -> None:
        """Before the first round of this call."""
        self._call("begin")

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        """Once the summary is written, however the run ended. Each is called, and the first that failed is told."""
        failed: list[CallbackError] = []
        for callback in self.callbacks:
            try:
                self._call("end", callback)
            except CallbackError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def tell(self, report: "RoundReport") -> None:
        """A round is done."""
        from bfl.simulation.run_folder import metrics_of

        row = flat_row(metrics_of(report))
        done = RoundDone(report.round, self.rounds, row, report, self.run, self.network)
        for callback in self.callbacks:
            with _Blamed(callback, f"round {report.round}", self.run, may_stop=True):
                callback(done)

    def _call(self, name: str, *those: Callback) -> None:
        for callback in those or self.callbacks:
            method = getattr(callback, name, None)
            if method is not None:
                with _Blamed(callback, name, self.run):
                    method(self.run)


@dataclass(frozen=True)
class _Blamed:
    """Whatever a callback raises becomes a `CallbackError` that names it: it is no fault of the run."""

    callback: Callback
    when: str
    run: "Run"
    may_stop: bool = False

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not (self.may_stop and isinstance(error, StopRun)):
            name = getattr(self.callback, "__qualname__", type(self.callback).__name__)
            told = f"callback {name}, {self.when}: {type(error).__name__}: {error!s:.300}"
            self.run.keep()
            failure = CallbackError(f"{told}. Every round so far is recorded; error.run.resume() goes on")
            failure.run = self.run
            raise failure from error
