"""What is watched of miner processes: that something happens in time, that a process is gone."""

import os
import time
from collections.abc import Callable
from pathlib import Path

ONE, TWO = b"\x01" * 32, b"\x02" * 32


def happens(what: Callable[[], bool], within_s: float = 5.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def ended(pid: int) -> bool:
    """Gone, or a zombie: in a container nobody may be there to bury an orphan."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True
