"""A process of a sweep: one run after the other, told on stdin, answered in lines of JSON.

It ends with its parent, after the round it is in: the folder of its run is whole, and nobody holds it for long.
"""

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO

from bfl.api.callbacks import RoundDone
from bfl.config import RunSettings
from bfl.errors import BflError, RunInterrupted
from bfl.sweeps.one_run import make_run
from bfl.sweeps.orders import MOST_LINE, Order
from bfl.writers.named import writers_named
from chain.errors import ChainError
from clients.errors import ClientError
from clients.plugins import permit
from edge_servers.errors import EdgeError
from policy.errors import PolicyError

_REFUSALS = (BflError, ChainError, ClientError, EdgeError, PolicyError, OSError)


class Orders:
    """What the parent sends. Where it has gone, a run that is going on is interrupted."""

    def __init__(self) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.is_busy = self.have_ended = False
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def _read(self) -> None:
        with os.fdopen(os.dup(0), "rb", buffering=0) as orders:  # a buffer's lock would abort whoever ends meanwhile
            while line := orders.readline(MOST_LINE):
                self._lines.put(line)
        self.have_ended = True
        self._lines.put(b"")
        if self.is_busy:
            signal.raise_signal(signal.SIGINT)

    def next(self) -> Order | None:
        """The next one; None where there will be no more."""
        line = self._lines.get()
        return Order.read(line) if line else None


def main() -> None:
    """Until the parent closes stdin."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1, encoding="utf-8")
    orders = Orders()
    try:
        while order := orders.next():
            _into(order.log)
            orders.is_busy = True
            if orders.have_ended:
                return
            _answer(answers, **_carry_out(order, answers))
            orders.is_busy = False
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _into(log: str) -> None:
    """What the run prints, and the trace of what nobody expected, goes to the run's own file."""
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


def _answer(answers: TextIO, **content: object) -> None:
    answers.write(json.dumps(content) + "\n")


def _carry_out(order: Order, answers: TextIO) -> dict[str, object]:
    def on_round(done: RoundDone) -> None:
        _answer(answers, round=done.round, accuracy=done.metrics["accuracy"])

    permit(order.settings)  # a person has said so to the parent
    try:
        settings, callbacks = RunSettings.read(order.settings), [on_round, *writers_named(tuple(order.writers))]
        run = make_run(settings, Path(order.folder), order.allow_other_environment, callbacks)
    except RunInterrupted:
        return {"status": "interrupted"}
    except _REFUSALS as error:
        return {"status": "failed", "why": f"{error!s:.2000}"}
    return {"status": run.status, "why": run.problem}


if __name__ == "__main__":
    main()
