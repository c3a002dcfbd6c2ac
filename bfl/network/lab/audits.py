"""The audits at a rehearsal's end, side by side: each is a process that computes, on a chain that nobody writes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bfl.network.kits import DATABASE
from bfl.network.lab.outcome import audit_word
from bfl.network.lab.params import LabParams

_LOOK_S = 0.1
_MOST_S = 600.0
_GIVEN_UP = 124
"""As `timeout` says it"""


class _Audit:
    """`bfl audit check` of an edge's chain; its verdict stays in the folder."""

    def __init__(self, name: str, database: Path, out: Path) -> None:
        self.name, self.out, self._began_s = name, out, time.monotonic()
        with out.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603 - a command of ours
                [sys.executable, "-m", "bfl", "audit", "check", str(database)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began_s

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return _GIVEN_UP if self.seconds > _MOST_S else self._process.poll()

    def end(self) -> None:
        """Whatever it is at."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def audit_all(params: LabParams, say: Callable[[str], None]) -> dict[str, int]:
    """Exit codes by edge; as many audits at once as there are processors."""
    waiting: list[str] = list(params.edge_names)
    running: list[_Audit] = []
    codes: dict[str, int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                name = waiting.pop(0)
                running.append(_Audit(name, params.kits / name / DATABASE, params.out / f"audit-{name}.txt"))
            time.sleep(_LOOK_S)
            codes |= _ended(running, say)
    finally:
        for audit in running:
            audit.end()
    return {name: codes[name] for name in params.edge_names}


def _ended(running: list[_Audit], say: Callable[[str], None]) -> dict[str, int]:
    """Those that have ended, which run no longer."""
    ended = [(audit, code) for audit in running if (code := audit.code) is not None]
    for audit, code in ended:
        audit.end()
        running.remove(audit)
        say(f"audit of {audit.name}: {audit_word(code)}, {audit.seconds:.0f} s; see {audit.out}")
    return {audit.name: code for audit, code in ended}
